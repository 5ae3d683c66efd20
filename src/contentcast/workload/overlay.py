"""Ranges on four ints, for key mappings over a structured overlay.

Source: Baldoni et al. 2005, section 5.1. Departs from it in two points that the paper leaves open: the Zipf centres
of a selective attribute are drawn from `spots` places scattered over the domain, and a publication that is meant to
match aims at one of the first `standing` subscriptions.
Rule: a range keeps its drawn width; at the edge of the domain it is moved inside, not cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from contentcast.model import Attribute, Space
from contentcast.workload.columns import Column, column, conjunction, integer_text, joined, named, numbered
from contentcast.workload.contract import Interests
from contentcast.workload.dice import Dice, Integers, zipf
from contentcast.workload.parameters import parameter

ATTRIBUTES: Final = ("a1", "a2", "a3", "a4")
ATTR_MAX: Final = 1_000_000
DOMAIN: Final = ATTR_MAX + 1
WIDEST: Final = 3 * ATTR_MAX // 100
WIDEST_SELECTIVE: Final = ATTR_MAX // 1_000


@dataclass(frozen=True)
class OverlayParameters:
    selective: int = parameter(0, 0, len(ATTRIBUTES), "selective attributes, a1 first: ranges up to 0.1 %, not 3 %")
    matching: float = parameter(0.5, 0, 1, "probability that an event is made to match a standing subscription")
    standing: int = parameter(25_000, 1, 1_000_000, "subscriptions, from row 0 on, at which those events aim")
    nodes: int = parameter(500, 1, 100_000, "nodes of the overlay, each of them a broker with one application")
    zipf: float = parameter(1.0, 0, 4, "exponent for the centres of selective ranges")
    spots: int = parameter(1_000, 1, 10_000, "different centres of selective ranges")


class Overlay:
    """Publications over four attributes, half of them wanted by someone."""

    def __init__(self, seed: int, parameters: OverlayParameters) -> None:
        self.parameters = parameters
        self.dice = Dice(seed, "overlay")
        self.space = Space("overlay", dict.fromkeys(ATTRIBUTES, Attribute("int", low=0, high=ATTR_MAX)))
        self.brokers = tuple(f"n{number}" for number in range(parameters.nodes))

    def _ranges(self, rows: range) -> tuple[list[Integers], list[Integers]]:
        """The first value and the number of values of each attribute's range."""
        lows, widths = [], []
        for at, name in enumerate(ATTRIBUTES):
            selective = at < self.parameters.selective
            width = 1 + self.dice.below(f"{name} width", rows, WIDEST_SELECTIVE if selective else WIDEST)
            if selective:
                spots = self.dice.below(f"{name} spots", range(self.parameters.spots), DOMAIN)
                odds = zipf(self.parameters.spots, self.parameters.zipf)
                centre = spots[self.dice.pick(f"{name} spot", rows, odds)]
            else:
                centre = self.dice.below(f"{name} centre", rows, DOMAIN)
            lows.append(np.clip(centre - width // 2, 0, DOMAIN - width))
            widths.append(width)
        return lows, widths

    @cached_property
    def _standing(self) -> tuple[list[Integers], list[Integers]]:
        return self._ranges(range(self.parameters.standing))

    # --- events

    def events(self, rows: range) -> list[Column]:
        aimed = self.dice.chance("event aimed", rows, self.parameters.matching)
        target = self.dice.below("event target", rows, self.parameters.standing)
        columns = []
        for name, low, width in zip(ATTRIBUTES, *self._standing, strict=True):
            # An event that aims at nobody still meets somebody now and then: each range is 1.5 % of an attribute on
            # average, a subscription 5e-8 of the space, 25,000 of them about 0.1 %.
            first = np.where(aimed, low[target], 0)
            choices = np.where(aimed, width[target], DOMAIN)
            columns.append(column(first + self.dice.below(f"event {name}", rows, choices)))
        return columns

    def publishers(self, rows: range) -> Column:
        return named(self.brokers, self.dice.below("event node", rows, len(self.brokers)))

    # --- subscriptions

    def interests(self, rows: range) -> Interests:
        clauses = [
            joined(f"{name} BETWEEN ", integer_text(low), " AND ", integer_text(low + width - 1))
            for name, low, width in zip(ATTRIBUTES, *self._ranges(rows), strict=True)
        ]
        node = self.dice.below("node", rows, len(self.brokers))
        return Interests(conjunction(clauses), numbered("app-", node), named(self.brokers, node))
