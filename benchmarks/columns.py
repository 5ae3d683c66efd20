"""The columns of the matching table: a scenario, how many subscriptions, and events in batches of 10,000."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from contentcast.model import Space
from contentcast.workload import scenario

SEED: Final = 7
BATCH: Final = 10_000


@dataclass(frozen=True)
class Workload:
    space: Space
    predicates: pa.Array
    events: Callable[[int, int], pa.RecordBatch]
    """count, start -> events."""


@dataclass(frozen=True)
class Column:
    name: str
    scenario: str
    subscriptions: int
    seed: int = SEED

    @cached_property
    def workload(self) -> Workload:
        if self.scenario == "strings":
            return strings(self.subscriptions, seed=self.seed)
        if self.scenario == "boxes":
            return boxes(self.subscriptions, self.seed)
        chosen = scenario(self.scenario, seed=self.seed)
        return Workload(chosen.space, chosen.subscriptions(self.subscriptions)["predicate"], chosen.events)


COLUMNS: Final = (
    Column("W1 1k", "w1", 1_000),
    Column("W1 10k", "w1", 10_000),
    Column("W1 100k", "w1", 100_000),
    Column("W1b 25k", "w1b", 25_000),
    Column("W2 10k", "market", 10_000),
    Column("W2 100k", "market", 100_000),
    Column("W2 1M", "market", 1_000_000),
    Column("W2c 100k", "market-hot", 100_000),
    Column("strings 100k", "strings", 100_000),
)
QUICK: Final = (
    Column("W1 1k", "w1", 1_000),
    Column("W1 10k", "w1", 10_000),
    Column("W1b 2k", "w1b", 2_000),
    Column("W2 10k", "market", 10_000),
    Column("W2 100k", "market", 100_000),
    Column("W2c 10k", "market-hot", 10_000),
    Column("strings 10k", "strings", 10_000),
)

_DISTINCT: Final = 10_000
_SYLLABLES: Final = [first + second for first in "bcdfghklmnprstvz" for second in ("a", "e", "i", "o", "u", "ar", "en", "on")]
_LENGTHS: Final = (4, 10)
"""Of the texts asked for, from and to."""


def strings(subscriptions: int, distinct: int = _DISTINCT, seed: int = SEED) -> Workload:
    """Prefixes, suffixes and inner parts of 10,000 names, in equal shares; an event carries one of the names, all alike."""
    dice = np.random.default_rng(seed)
    words = dice.integers(0, len(_SYLLABLES), (4 * distinct, 6))
    made = dict.fromkeys(
        "".join(_SYLLABLES[at] for at in row[:3]) + "-" + "".join(_SYLLABLES[at] for at in row[3:]) for row in words
    )
    names = list(made)[:distinct]
    which = dice.integers(0, distinct, subscriptions)
    length = dice.integers(*_LENGTHS, subscriptions, endpoint=True)
    place = dice.random(subscriptions)
    predicates = []
    for row in range(subscriptions):
        name, size = names[which[row]], min(int(length[row]), len(names[which[row]]))
        start = int(place[row] * (len(name) - size + 1))
        predicates.append(
            (
                f"startswith(name, '{name[:size]}')",
                f"endswith(name, '{name[-size:]}')",
                f"contains(name, '{name[start : start + size]}')",
            )[row % 3]
        )
    known = pa.array(names)

    def events(count: int, start: int) -> pa.RecordBatch:
        rows = np.random.default_rng([seed, start]).integers(0, distinct, count)
        return pa.record_batch({"name": known.take(pa.array(rows))})

    return Workload(Space("names", name="string"), pa.array(predicates), events)


def boxes(subscriptions: int, seed: int) -> Workload:
    """Ranges of three out of six numbers, each a fifth of all values wide. Nothing is compared for equality, which all other
    columns begin with, and no plan, limit or shape of the index was chosen with them.
    """
    dice = np.random.default_rng(seed)
    names = [f"x{number}" for number in range(6)]
    predicates = []
    for _ in range(subscriptions):
        low = dice.random(3) * 0.8
        chosen = dice.choice(len(names), 3, replace=False)
        ranges = zip(sorted(chosen.tolist()), low.tolist(), strict=True)
        predicates.append(" AND ".join(f"{names[at]} BETWEEN {begin:.6f} AND {begin + 0.2:.6f}" for at, begin in ranges))

    def events(count: int, start: int) -> pa.RecordBatch:
        values = np.random.default_rng([seed, start]).random((len(names), count))
        return pa.record_batch({name: pa.array(row) for name, row in zip(names, values, strict=True)})

    return Workload(Space("boxes", **dict.fromkeys(names, "float")), pa.array(predicates), events)
