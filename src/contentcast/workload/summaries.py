"""Subscriptions that subsume each other to a stated degree, at 24 brokers of a backbone.

Source: Triantafillou & Economides 2004, section 5.2 and table 2: 10 attributes, of which a subscription or an event
has 5, 40 % of them arithmetic and 60 % strings of 10 characters; the subsumed values of an arithmetic attribute fall
into n_sr = 2 ranges, the others are different values outside them; a broker's subsumption probability is the stated
one times its degree over the greatest degree. The paper draws sizes and hop counts from these numbers; here are real
predicates that have them.

How it is made. There are `interests` general subscriptions, each on 2 arithmetic attributes (one of the ranges) and 3
strings (one of the general prefixes). Each is held by `popularity` of the brokers. A broker's first subscriptions are
the general ones that it holds; each later one is, with the broker's subsumption probability, a special case of one of
those, and otherwise its own: five equalities outside all ranges and prefixes. An event is a case of one interest, so
it matches subscriptions at the brokers that hold it and hardly anywhere else.
Rule: subsumed means subsumed by a subscription at the same broker, not by chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np

from contentcast.model import Attribute, Space
from contentcast.workload.columns import (
    Column,
    clause,
    column,
    conjunction,
    either,
    hundredths_text,
    integer_text,
    joined,
    named,
    numbered,
    spelled,
)
from contentcast.workload.contract import Interests
from contentcast.workload.dice import Dice, Integers, Truths
from contentcast.workload.parameters import parameter, switch

ARITHMETIC: Final = ("price", "volume", "high", "low")
STRINGS: Final = ("exchange", "symbol", "issuer", "sector", "country", "trader")
ARITHMETIC_SETS: Final = np.array([[at in two for at in range(4)] for two in combinations(range(4), 2)])
STRING_SETS: Final = np.array([[at in three for at in range(6)] for three in combinations(range(6), 3)])
ATTRIBUTES_EACH: Final = 5

UNITS: Final = 1_000_000
"""An arithmetic attribute has so many values: hundredths of a price, or single shares."""

SYLLABLES: Final = tuple(consonant + vowel for consonant in "bdfgklmnprstvwz" for vowel in "aeiou")
"""A string is five of them, ten characters (ssv = 10); the first two are its prefix."""

SILENT: Final = len(SYLLABLES)
PREFIXES: Final = len(SYLLABLES) ** 2
ENDINGS: Final = len(SYLLABLES) ** 3

DEGREES: Final = {
    # The U.S. backbone of Cable & Wireless, 24 nodes and 29 links (as facts, from the Internet Topology Zoo).
    "New York": 5,
    **dict.fromkeys(("Baltimore", "Dallas"), 4),
    **dict.fromkeys(("Akron", "Atlanta", "Chicago", "Fort Lauderdale", "Kansas City", "San Francisco"), 3),
    **dict.fromkeys(("Boston", "Denver", "Hartford", "Jacksonville", "Los Angeles", "Orlando", "Philadelphia"), 2),
    **dict.fromkeys(("Pittsburgh1", "Pittsburgh2", "Raleigh", "Richmond", "Tampa"), 2),
    **dict.fromkeys(("Cleveland", "Houston", "Miami"), 1),
}
GREATEST_DEGREE: Final = max(DEGREES.values())

NARROWED: Final = 0.5
"""How often a special case narrows each of the tests of its interest."""


@dataclass(frozen=True)
class SummariesParameters:
    subsumption: float = parameter(0.5, 0, 1, "subsumption probability at the best connected broker")
    popularity: float = parameter(0.25, 0, 1, "share of the brokers that hold an interest, and so want its events")
    interests: int = parameter(20, 1, 1_000, "general subscriptions that others are special cases of")
    ranges: int = parameter(2, 1, 100, "n_sr: general ranges, or prefixes, of an attribute")
    carries: int = parameter(ATTRIBUTES_EACH, ATTRIBUTES_EACH, 10, "attributes that an event carries; the others are null")
    consumers: int = parameter(100, 1, 1_000_000, "subscribers at each broker")
    brokers: int = parameter(len(DEGREES), 1, 10_000, "brokers; with another number than 24 they are b1, b2, ...")
    by_degree: bool = switch(
        True, "the subsumption probability falls with a broker's degree, as in the paper; False: all alike"
    )


class Cases(NamedTuple):
    """Which interest each row is a case of, whether it is one at all, and whether it narrows the test at hand."""

    interest: Integers
    subsumed: Truths
    narrowed: Truths


class Summaries:
    """Interests, their special cases, and subscriptions that resemble nobody's."""

    def __init__(self, seed: int, parameters: SummariesParameters) -> None:
        self.parameters = parameters
        self.dice = Dice(seed, "summaries")
        units = {name: Attribute("float", low=0.0, high=(UNITS - 1) / 100) for name in ARITHMETIC}
        units["volume"] = Attribute("int", low=0, high=UNITS - 1)
        self.space = Space("summaries", {**units, **dict.fromkeys(STRINGS, "string")})
        numbers = range(1, parameters.brokers + 1)
        self.brokers = tuple(DEGREES) if parameters.brokers == len(DEGREES) else tuple(f"b{each}" for each in numbers)

    # --- what the seed settles once

    @cached_property
    def _interest_attributes(self) -> Truths:
        """[interest, attribute]: which 2 + 3 attributes each interest is about."""
        return self._attribute_sets("interest", range(self.parameters.interests))

    def _attribute_sets(self, who: str, rows: range) -> Truths:
        arithmetic = ARITHMETIC_SETS[self.dice.below(f"{who} arithmetic", rows, len(ARITHMETIC_SETS))]
        strings = STRING_SETS[self.dice.below(f"{who} strings", rows, len(STRING_SETS))]
        return np.concatenate([arithmetic, strings], axis=1)

    @cached_property
    def _holders(self) -> tuple[Integers, Integers]:
        """How many interests each broker holds, and [broker, k] the k-th of them."""
        brokers, interests = len(self.brokers), self.parameters.interests
        holders_each = max(1, int(self.parameters.popularity * brokers + 0.5)) if self.parameters.popularity else 0
        held: list[list[int]] = [[] for _ in range(brokers)]
        for interest in range(interests):
            # Brokers that hold the fewest come first, so that none is left without while another has several.
            shuffled = self.dice.order(f"holders of interest {interest}", brokers)
            for broker in sorted(shuffled, key=lambda each: len(held[each]))[:holders_each]:
                held[broker].append(interest)
        counts = np.array([len(each) for each in held])
        table = np.array([each + [0] * (interests - len(each)) for each in held])
        return counts, table

    @cached_property
    def _choices(self) -> dict[str, Integers]:
        """Which of an attribute's ranges, or prefixes, each interest has."""
        interests, ranges = range(self.parameters.interests), self.parameters.ranges
        return {name: self.dice.below(f"interest {name}", interests, ranges) for name in self.space}

    @cached_property
    def _range_lows(self) -> dict[str, Integers]:
        """The first units of an attribute's general ranges, one in each of equal parts of the domain, half as wide."""
        ranges, width = range(self.parameters.ranges), self._range_width
        parts = np.arange(len(ranges)) * (UNITS // len(ranges))
        return {name: parts + self.dice.below(f"{name} ranges", ranges, width) for name in ARITHMETIC}

    @property
    def _range_width(self) -> int:
        return UNITS // self.parameters.ranges // 2

    @cached_property
    def _prefixes(self) -> dict[str, Integers]:
        """All prefixes of a string, shuffled: the first `ranges` of them are the general ones."""
        return {name: self.dice.order(f"{name} prefixes", PREFIXES) for name in STRINGS}

    # --- events

    def events(self, rows: range) -> list[Column]:
        interest = self.dice.below("event interest", rows, self.parameters.interests)
        wanted = self._interest_attributes[interest]
        carried = self._carried(rows, wanted)
        columns = []
        for at, name in enumerate(self.space):
            if name in ARITHMETIC:
                low = np.where(wanted[:, at], self._range_lows[name][self._choices[name][interest]], 0)
                choices = np.where(wanted[:, at], self._range_width, UNITS)
                unit = low + self.dice.below(f"event {name}", rows, choices)
                columns.append(column(unit if name == "volume" else unit / np.float64(100), carried[:, at]))
            else:
                anything = self.dice.below(f"event {name} prefix", rows, PREFIXES)
                prefix = np.where(wanted[:, at], self._prefixes[name][self._choices[name][interest]], anything)
                columns.append(clause(carried[:, at], self._string(f"event {name}", rows, prefix)))
        return columns

    def _carried(self, rows: range, wanted: Truths) -> Truths:
        """The interest's own attributes and, up to `carries`, others."""
        if self.parameters.carries == ATTRIBUTES_EACH:
            return wanted
        lot = self.dice.words("event carries", rows, wanted.shape[1]).reshape(wanted.shape)
        ranked = np.argsort(np.where(wanted, 0, lot), axis=1, kind="stable")[:, : self.parameters.carries]
        carried = np.zeros_like(wanted)
        np.put_along_axis(carried, ranked, True, axis=1)
        return carried

    def publishers(self, rows: range) -> Column:
        """Every broker in turn: 24,000 events are 1000 from each."""
        return named(self.brokers, np.arange(rows.start, rows.stop) % len(self.brokers))

    # --- subscriptions

    def interests(self, rows: range) -> Interests:
        dice = self.dice
        number = np.arange(rows.start, rows.stop)
        broker, turn = number % len(self.brokers), number // len(self.brokers)
        counts, held = self._holders
        general = turn < counts[broker]
        degree = np.resize(list(DEGREES.values()), len(self.brokers))  # other brokers have the same mix of degrees
        share = degree / GREATEST_DEGREE if self.parameters.by_degree else np.ones(len(degree))
        probability = self.parameters.subsumption * share * (counts > 0)
        subsumed = general | dice.chance("subsumed", rows, probability[broker])
        which = np.where(general, turn, dice.below("interest", rows, np.maximum(counts[broker], 1)))
        interest = np.where(subsumed, held[broker, which], 0)
        has = np.where(subsumed[:, None], self._interest_attributes[interest], self._attribute_sets("own", rows))
        clauses = []
        for at, name in enumerate(self.space):
            narrowed = subsumed & ~general & dice.chance(f"{name} narrowed", rows, NARROWED)
            test = self._range_test if name in ARITHMETIC else self._prefix_test
            clauses.append(clause(has[:, at], *test(name, rows, Cases(interest, subsumed, narrowed))))
        brokers = named(self.brokers, broker)
        consumer = numbered("/consumer-", turn % self.parameters.consumers + 1)
        return Interests(conjunction(clauses), joined(brokers, consumer), brokers)

    def _range_test(self, name: str, rows: range, case: Cases) -> list[str | Column]:
        """The interest's range, half of it when narrowed, or a single value outside all ranges."""
        write = integer_text if name == "volume" else hundredths_text
        width, half = self._range_width, self._range_width // 2
        low = self._range_lows[name][self._choices[name][case.interest]]
        low = low + np.where(case.narrowed, self.dice.below(f"{name} part", rows, width - half + 1), 0)
        high = low + np.where(case.narrowed, half, width) - 1
        opening = named((f"{name} = ", f"{name} BETWEEN "), case.subsumed.astype(np.int64))
        first = np.where(case.subsumed, low, self._outside(name, rows))
        return [opening, write(first), either(case.subsumed, joined(" AND ", write(high)), "")]

    def _outside(self, name: str, rows: range) -> Integers:
        """Units outside every general range of the attribute, all alike."""
        ranges, width = self.parameters.ranges, self._range_width
        unit = self.dice.below(f"own {name}", rows, UNITS - ranges * width)
        # With the ranges taken out, the k-th one would begin k widths earlier; a unit from there on lies behind it.
        behind = np.searchsorted(self._range_lows[name] - np.arange(ranges) * width, unit, side="right")
        return unit + behind * width

    def _prefix_test(self, name: str, rows: range, case: Cases) -> list[str | Column]:
        """The interest's prefix, a syllable longer when narrowed, or a whole string with none of the prefixes."""
        known, general = self._prefixes[name], self.parameters.ranges
        own = known[general + self.dice.below(f"own {name}", rows, PREFIXES - general)]
        prefix = np.where(case.subsumed, known[self._choices[name][case.interest]], own)
        said = np.where(case.subsumed, np.where(case.narrowed, 3, 2), 5)
        form = case.subsumed.astype(np.int64)
        opening, closing = named((f"{name} = '", f"{name} LIKE '"), form), named(("'", "%'"), form)
        return [opening, self._string(name, rows, prefix, said), closing]

    def _string(self, decision: str, rows: range, prefix: Integers, said: Integers | None = None) -> Column:
        """The prefix and three more syllables by chance, of which only the first `said` in all are written."""
        base = len(SYLLABLES)
        ending = self.dice.below(f"{decision} ending", rows, ENDINGS)
        digits = [prefix // base, prefix % base, ending // base**2, ending // base % base, ending % base]
        if said is not None:
            digits = [np.where(at < said, digit, SILENT) for at, digit in enumerate(digits)]
        return spelled((*SYLLABLES, ""), digits)
