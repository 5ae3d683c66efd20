"""Market data for desks with a taste: the trades of `market`, and offices that follow sectors and their own exchange.

    office 7 (broker b7)     sectors 7 and 27 of 40, exchange NASDAQ
    desk-7, desk-46 ...      a watch list each, of two dozen symbols of these sectors
    3 desks of all           want every large trade, whatever the symbol

Source: our own. The papers assume that interest has a place (Banavar et al. 1999, section 4.1: each region has favourite values
of its own). What content routing saves are the brokers where nobody wants an event; in `market` nearly every broker wants
nearly every event.
Rule: events are those of `market` with the same seed, to the cent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from contentcast.workload.columns import clause, conjunction, integer_text, named, numbered
from contentcast.workload.contract import Interests
from contentcast.workload.dice import Integers
from contentcast.workload.market import EXCHANGES, VOLUME_LIMITS, Market, MarketParameters
from contentcast.workload.parameters import parameter

HAS_LIST, LISTED = 0.3, 4
"""This share of the subscriptions names so many symbols in an IN list, the others one symbol."""
HAS_PRICE, HAS_VOLUME = 0.4, 0.3
LARGE_VOLUME: Final = 50_000
"""What the desks that want everything ask for besides: more than this, of any symbol."""


@dataclass(frozen=True)
class DesksParameters(MarketParameters):
    sectors: int = parameter(40, 1, 1_000, "sectors; symbol k by popularity is of sector k mod sectors")
    office_sectors: int = parameter(2, 1, 1_000, "sectors that an office follows; its desks' lists come from them")
    followed: int = parameter(24, 1, 1_000, "symbols on the watch list of a desk, at most")
    home: float = parameter(0.8, 0, 1, "share of the subscriptions that are about the exchange of the office's region")
    everything: int = parameter(3, 0, 1_000, "desks that want every large trade of any symbol, the first ones by number")


class Desks(Market):
    """Offices are brokers; desk d sits in office d mod brokers."""

    parameters: DesksParameters

    @cached_property
    def _sector_size(self) -> int:
        """Symbols of a sector; the last few symbols may be of none."""
        return max(1, self.parameters.symbols // self._sectors)

    @cached_property
    def _sectors(self) -> int:
        return min(self.parameters.sectors, self.parameters.symbols)

    def _symbol(self, desk: Integers, office: Integers, entry: Integers) -> Integers:
        """Entry 0, 1, ... of the desk's watch list."""
        told = self.parameters
        chosen = min(told.office_sectors, self._sectors)
        sector = (office + entry % chosen * (self._sectors // chosen)) % self._sectors
        begin = np.zeros_like(desk) if told.hot else 7 * desk  # hot: all desks follow the most traded of their sectors
        rank = (begin + entry // chosen) % self._sector_size
        symbol: Integers = self._by_popularity[rank * self._sectors + sector]
        return symbol

    def interests(self, rows: range) -> Interests:
        dice, told = self.dice, self.parameters
        offices = len(self.brokers)
        desk = np.arange(rows.start, rows.stop) % told.subscribers
        office = desk % offices
        entry = dice.below("entry", rows, told.followed)
        symbol = self._symbol(desk, office, entry)
        is_list = dice.chance("is a list", rows, HAS_LIST)
        of_all = desk < told.everything
        listed = [
            piece
            for step in range(1, LISTED)
            for piece in ("', '", named(self.symbols, self._symbol(desk, office, (entry + step) % told.followed)))
        ]
        first = named(self.symbols, symbol)
        exchange = named(EXCHANGES, office * len(EXCHANGES) // offices)
        limit = np.where(of_all, LARGE_VOLUME, VOLUME_LIMITS[dice.below("volume", rows, len(VOLUME_LIMITS))])
        predicate = conjunction(
            [
                clause(~of_all & ~is_list, "symbol = '", first, "'"),
                clause(~of_all & is_list, "symbol IN ('", first, *listed, "')"),
                clause(~of_all & dice.chance("at home", rows, told.home), "exchange = '", exchange, "'"),
                clause(
                    ~of_all & ~is_list & dice.chance("has price", rows, HAS_PRICE),
                    *self._price_range(rows, symbol, np.ones(len(rows), bool)),
                ),
                clause(of_all | dice.chance("has volume", rows, HAS_VOLUME), "volume > ", integer_text(limit)),
            ]
        )
        return Interests(predicate, numbered("desk-", desk + 1), named(self.brokers, office))
