"""Seeded dice: columns of chance that come out the same on every machine and with every NumPy.

Each decision ("has an exchange", "event price") has a stream of its own, and row r of a column is the r-th 64-bit
word of that stream. PCG64 can leap to any word (`advance`), so rows 5 to 15 cost ten words, not fifteen, and a column
does not depend on how it was cut.

Source: NumPy promises its bit generators' words for good and promises nothing of the distributions drawn from them
(NEP 19).
Rule: only `random_raw` is used. Words become values by integer arithmetic, by IEEE addition, multiplication, division
and square root (correctly rounded everywhere) and by tables made with `decimal`; never by log, exp or pow of the C
library, whose last bit differs between machines. A decision takes the same number of words in every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from typing import Final, TypeVar

import numpy as np
from numpy.random import PCG64, SeedSequence
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Truths = NDArray[np.bool_]
Floats = NDArray[np.float64]
Odds = NDArray[np.uint64]
"""Cumulated chances of choices 0..n-1 on the scale 2**53; the last, always the whole, is left out."""

BELL_DEVIATION: Final = 37_837
"""Standard deviation of `Dice.bell`: four lanes of 16 bits, sqrt(4 * (2**32 - 1) / 12)."""

_WHOLE: Final = 2**53
_TO_53: Final = np.uint64(11)
_HALF: Final = np.uint64(32)
_LOW_HALF: Final = np.uint64(2**32 - 1)
_EVEN_LANES: Final = np.uint64(0x0000_FFFF_0000_FFFF)
# A context of our own: plain operators on Decimals would round as the caller's thread happens to be set.
_EXACT: Final = Context(prec=40, rounding=ROUND_HALF_EVEN)


class Dice:
    """The dice of one seed. `subject` keeps scenarios apart that use the same names for their decisions."""

    def __init__(self, seed: int, subject: str) -> None:
        self.seed = seed
        self.subject = subject

    def words(self, decision: str, rows: range, each: int = 1) -> Words:
        """`each` words per row, flat."""
        digest = blake2b(f"{self.subject}/{decision}".encode(), digest_size=16).digest()
        name = [int.from_bytes(digest[at : at + 4], "little") for at in range(0, 16, 4)]
        stream = PCG64(SeedSequence([self.seed & 0xFFFF_FFFF, self.seed >> 32, *name]))
        stream.advance(rows.start * each)
        drawn: Words = stream.random_raw(len(rows) * each)
        return drawn

    def below(self, decision: str, rows: range, bound: int | Integers) -> Integers:
        """An int from 0 to bound-1, all alike; one bound, or one for each row, up to 2**32."""
        # The upper half of the word times the bound, and of that the upper half: no division, bias below bound / 2**32.
        wide = (self.words(decision, rows) >> _HALF) * np.asarray(bound).astype(np.uint64)
        return (wide >> _HALF).astype(np.int64)

    def chance(self, decision: str, rows: range, probability: float | Floats) -> Truths:
        """True with that probability; one, or one for each row."""
        limit = np.ceil(np.asarray(probability) * _WHOLE).astype(np.uint64)
        said: Truths = (self.words(decision, rows) >> _TO_53) < limit
        return said

    def pick(self, decision: str, rows: range, odds: Odds) -> Integers:
        """A choice 0..n-1 with the given odds."""
        return np.searchsorted(odds, self.words(decision, rows) >> _TO_53, side="right").astype(np.int64)

    def unit(self, decision: str, rows: range) -> Floats:
        """A float above 0 and up to 1, so that it can stand under a fraction bar."""
        return ((self.words(decision, rows) >> _TO_53) + np.uint64(1)).astype(np.float64) * (1.0 / _WHOLE)

    def bell(self, decision: str, rows: range) -> Integers:
        """Bell-shaped ints around 0 with standard deviation `BELL_DEVIATION`, never beyond 3.5 of them."""
        # The sum of four uniform lanes (Irwin-Hall) is bell enough for prices and needs no logarithm.
        word = self.words(decision, rows)
        pairs = (word & _EVEN_LANES) + ((word >> np.uint64(16)) & _EVEN_LANES)
        total = (pairs & _LOW_HALF) + (pairs >> _HALF)
        return total.astype(np.int64) - 2 * 0xFFFF

    def order(self, decision: str, count: int) -> Integers:
        """A shuffled 0..count-1."""
        return np.argsort(self.words(decision, range(count)), kind="stable").astype(np.int64)


def odds_of(weights: Sequence[int | Decimal]) -> Odds:
    """Odds in proportion to the weights."""
    sums = list(accumulate(map(Decimal, weights), _EXACT.add))
    shares = [_EXACT.divide(_EXACT.multiply(each, Decimal(_WHOLE)), sums[-1]) for each in sums[:-1]]
    return _shared(np.array([int(share) for share in shares], dtype=np.uint64))


@lru_cache(maxsize=32)
def zipf(count: int, exponent: float) -> Odds:
    """Odds of `count` choices in which the k-th is 1 / k**exponent as likely as the first; 0 makes all alike."""
    return odds_of([_EXACT.power(Decimal(rank), _EXACT.minus(Decimal(exponent))) for rank in range(1, count + 1)])


@lru_cache(maxsize=8)
def steps(count: int, low: int, high: int) -> Integers:
    """`count` ints from low to high, each the same factor above the one before (a price list, say)."""
    grow = _EXACT.divide(Decimal(high), Decimal(low))
    half_steps = [_EXACT.divide(Decimal(2 * step + 1), Decimal(2 * count)) for step in range(count)]
    levels = [int(_EXACT.multiply(Decimal(low), _EXACT.power(grow, part))) for part in half_steps]
    return _shared(np.array(levels, dtype=np.int64))


Table = TypeVar("Table", Odds, Integers)


def _shared(table: Table) -> Table:
    """Cached tables are one object for all scenarios, so nobody may write into them."""
    table.flags.writeable = False
    return table
