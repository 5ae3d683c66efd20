"""Market data: trades of 1000 symbols, and desks that watch a symbol, a price range or large volumes.

Source: our own (W2, and W2c with `hot`), after the stock examples that content-based publish/subscribe is always
shown with (Banavar et al. 1999, section 1; Triantafillou & Economides 2004, figure 2). The heavy tail of the volume
follows a power law as measured on trades (Gopikrishnan et al. 2000, exponent about 1.5); ours is 4/3, which square
roots alone can make.
Rule: prices are whole cents until the last step, so a bound in a predicate is exactly a price that an event can
carry.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from contentcast.model import Attribute, Space
from contentcast.workload.columns import (
    Column,
    clause,
    column,
    conjunction,
    hundredths,
    hundredths_text,
    integer_text,
    named,
    numbered,
    strings,
)
from contentcast.workload.contract import Interests
from contentcast.workload.dice import BELL_DEVIATION, Dice, Integers, Truths, odds_of, steps, zipf
from contentcast.workload.parameters import parameter, switch

EXCHANGES: Final = ("NYSE", "NASDAQ", "LSE", "XETRA", "TSE")
EXCHANGE_ODDS: Final = odds_of((40, 30, 15, 10, 5))
SIDES: Final = ("buy", "sell")
VENUES: Final = tuple(
    f"{place}, {phase}"
    for place in ("lit book", "dark pool", "retail wholesaler", "block desk", "floor")
    for phase in ("opening auction", "continuous", "midday auction", "closing auction", "after hours", "late report")
)

LEAST_LEVEL_CENTS: Final = 500
GREATEST_LEVEL_CENTS: Final = 50_000
SPREAD_PERCENT: Final = 2
"""Standard deviation of a trade's price around the level of its symbol."""

LEAST_VOLUME: Final = 100
GREATEST_VOLUME: Final = 10_000_000
VOLUME_LIMITS: Final = np.array([200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000])

HAS_SYMBOL, HAS_EXCHANGE, HAS_PRICE, HAS_VOLUME = 0.7, 0.3, 0.5, 0.3

# Half the width of a price range in 1/10000 of its centre, from and to. The narrow ones belong to subscriptions
# without a symbol: they meet every symbol whose level is near, and make two thirds of all matches. With these widths
# 0.08 % of the subscriptions match an event.
WIDE: Final = (50, 200)
NARROW: Final = (30, 120)

_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
"""No vowels, so that no symbol is a word."""

SYMBOLS_AT_MOST: Final = 20 * 19 * 18


@dataclass(frozen=True)
class MarketParameters:
    symbols: int = parameter(1_000, 1, SYMBOLS_AT_MOST, "symbols traded")
    zipf: float = parameter(1.0, 0, 4, "exponent of the symbols' popularity in events")
    hot: bool = switch(False, "subscriptions name symbols as often as events do; otherwise all symbols alike")
    subscribers: int = parameter(1_000, 1, 10_000_000, "desks; subscription r belongs to desk r mod subscribers")
    brokers: int = parameter(10, 1, 10_000, "brokers; the desks and the exchanges are spread over them")


class Market:
    """Trades and the interest in them."""

    def __init__(self, seed: int, parameters: MarketParameters) -> None:
        self.parameters = parameters
        self.dice = Dice(seed, "market")
        self.space = Space(
            "trades",
            symbol="string",
            exchange=Attribute("string", values=EXCHANGES),
            price=Attribute("float", low=0.0),
            volume=Attribute("int", low=LEAST_VOLUME, high=GREATEST_VOLUME),
            side=Attribute("string", values=SIDES),
            venue="string",
        )
        self.brokers = tuple(f"b{number}" for number in range(1, parameters.brokers + 1))
        self.symbols = strings(_symbols(parameters.symbols))
        self._popularity = zipf(parameters.symbols, parameters.zipf)

    @cached_property
    def _by_popularity(self) -> Integers:
        """The symbols, the most traded first."""
        return self.dice.order("popularity", self.parameters.symbols)

    @cached_property
    def _price_list(self) -> Integers:
        """The levels in cents, ascending. Every price decade holds equally many symbols."""
        return steps(self.parameters.symbols, LEAST_LEVEL_CENTS, GREATEST_LEVEL_CENTS)

    @cached_property
    def _levels(self) -> Integers:
        """The level of each symbol in cents, whatever its popularity."""
        return self._price_list[self.dice.order("levels", self.parameters.symbols)]

    def _around(self, decision: str, rows: range, levels: Integers) -> Integers:
        moved: Integers = levels * self.dice.bell(decision, rows) * SPREAD_PERCENT // (100 * BELL_DEVIATION)
        return levels + moved

    # --- events

    def events(self, rows: range) -> list[Column]:
        symbol = self._by_popularity[self.dice.pick("event symbol", rows, self._popularity)]
        price = self._around("event price", rows, self._levels[symbol])
        # u ** (-3/4) by square roots, which every machine rounds alike: P(volume > x) = (100 / x) ** (4/3).
        root = np.sqrt(self.dice.unit("event volume", rows))
        volume = np.minimum(LEAST_VOLUME / (root * np.sqrt(root)), float(GREATEST_VOLUME)).astype(np.int64)
        return [
            named(self.symbols, symbol),
            named(EXCHANGES, self._exchange(rows)),
            hundredths(price),
            column(volume),
            named(SIDES, self.dice.below("event side", rows, len(SIDES))),
            named(VENUES, self.dice.below("event venue", rows, len(VENUES))),
        ]

    def _exchange(self, rows: range) -> Integers:
        return self.dice.pick("event exchange", rows, EXCHANGE_ODDS)

    def publishers(self, rows: range) -> Column:
        """The feed of an exchange enters at one broker."""
        entry = np.arange(len(EXCHANGES)) * len(self.brokers) // len(EXCHANGES)
        return named(self.brokers, entry[self._exchange(rows)])

    # --- subscriptions

    def interests(self, rows: range) -> Interests:
        dice = self.dice
        has_symbol = dice.chance("has symbol", rows, HAS_SYMBOL)
        has_price = dice.chance("has price", rows, HAS_PRICE) | ~has_symbol
        if self.parameters.hot:
            symbol = self._by_popularity[dice.pick("symbol", rows, self._popularity)]
        else:
            symbol = dice.below("symbol", rows, self.parameters.symbols)
        has_exchange = dice.chance("has exchange", rows, HAS_EXCHANGE)
        exchange = named(EXCHANGES, dice.below("exchange", rows, len(EXCHANGES)))
        limit = VOLUME_LIMITS[dice.below("volume", rows, len(VOLUME_LIMITS))]
        predicate = conjunction(
            [
                clause(has_symbol, "symbol = '", named(self.symbols, symbol), "'"),
                clause(has_exchange, "exchange = '", exchange, "'"),
                clause(has_price, *self._price_range(rows, symbol, has_symbol)),
                clause(dice.chance("has volume", rows, HAS_VOLUME), "volume > ", integer_text(limit)),
            ]
        )
        desk = np.arange(rows.start, rows.stop) % self.parameters.subscribers
        return Interests(predicate, numbered("desk-", desk + 1), named(self.brokers, desk % len(self.brokers)))

    def _price_range(self, rows: range, symbol: Integers, has_symbol: Truths) -> list[Column]:
        dice = self.dice
        anywhere = self._price_list[dice.below("price anywhere", rows, self.parameters.symbols)]
        centre = self._around("price", rows, np.where(has_symbol, self._levels[symbol], anywhere))
        least = np.where(has_symbol, WIDE[0], NARROW[0])
        most = np.where(has_symbol, WIDE[1], NARROW[1])
        share: Integers = least + dice.below("price reach", rows, most - least + 1)
        reach: Integers = centre * share // 10_000
        closed = dice.below("price form", rows, 2)
        return [
            named(("price >= ", "price BETWEEN "), closed),
            hundredths_text(centre - reach),
            named((" AND price < ", " AND "), closed),
            hundredths_text(centre + reach),
        ]


def _symbols(count: int) -> list[str]:
    """Three consonants, none twice, in an order that looks like none; every fourth symbol has a fourth letter."""
    letters = len(_LETTERS)
    names = []
    for number in range(count):
        # 4,639 has no factor in common with the number of names, so the walk meets each name once.
        first, rest = divmod(number * 4_639 % SYMBOLS_AT_MOST, (letters - 1) * (letters - 2))
        left = list(_LETTERS)
        name = left.pop(first) + left.pop(rest // (letters - 2)) + left.pop(rest % (letters - 2))
        names.append(name + (left[number % len(left)] if number % 4 == 3 else ""))
    return names
