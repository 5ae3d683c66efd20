"""The generator of the link-matching paper: equality tests on small ints, rarer with every attribute, by region.

Source: Banavar et al. 1999, section 4.1 (simulation set-up) and 4.2 (the prototype's schema, scenario `w1b`). The
paper does not give the Zipf exponent, how the regions' orders of favoured values differ, or where in figure 5 its
publishers sit; see `_favoured` and `publishers` for what stands here.
Rule: attribute j (from 0) is cared about with probability care * decay**j; a star is an attribute the predicate
leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from contentcast.model import Attribute, Space
from contentcast.workload.columns import Column, column, conjunction, integer_text, joined, named, strings
from contentcast.workload.contract import Interests
from contentcast.workload.dice import Dice, Integers, zipf
from contentcast.workload.parameters import parameter

CHILDREN: Final = 3
BROKERS_PER_REGION: Final = 1 + CHILDREN + CHILDREN * CHILDREN


@dataclass(frozen=True)
class GryphonParameters:
    attributes: int = parameter(10, 1, 100, "attributes a1, a2, ...")
    values: int = parameter(3, 1, 10_000, "values of each attribute: 1, 2, ...")
    care: float = parameter(0.98, 0, 1, "P: probability that a subscription tests the first attribute")
    decay: float = parameter(0.82, 0, 1, "D: each further attribute is tested that much less often")
    zipf: float = parameter(1.0, 0, 4, "exponent of the values' popularity")
    regions: int = parameter(3, 1, 100, "regional trees of 13 brokers")
    locality: float = parameter(1.0, 0, 1, "how often a value follows the region's own taste, not the common one")
    clients: int = parameter(10, 1, 10_000, "subscribing clients at each broker")
    publishers: int = parameter(1, 1, CHILDREN * CHILDREN, "publishing brokers in each region")
    factored: int = parameter(3, 0, 100, "factoring levels, for the search tree; changes no number here")


class Gryphon:
    """Events and subscriptions of three continents with different tastes."""

    def __init__(self, seed: int, parameters: GryphonParameters) -> None:
        self.parameters = parameters
        self.dice = Dice(seed, "gryphon")
        self._names = [f"a{number}" for number in range(1, parameters.attributes + 1)]
        domain = Attribute("int", low=1, high=parameters.values)
        self.space = Space("gryphon", dict.fromkeys(self._names, domain))
        self._regions = [_region(number) for number in range(1, parameters.regions + 1)]
        self.brokers = tuple(broker for region in self._regions for broker in region)
        self._popularity = zipf(parameters.values, parameters.zipf)

    @cached_property
    def _favoured(self) -> Integers:
        """[attribute, order, rank] -> value. Order 0 is the common one; order g is that of region g, from 1.

        The regions' orders are rotations of one shuffled list by equal parts of it, so that, with at least as many
        values as regions, no two regions have the same favourite, and that for every attribute.
        """
        values, regions = self.parameters.values, self.parameters.regions
        table = np.empty((self.parameters.attributes, regions + 1, values), dtype=np.int64)
        for at, name in enumerate(self._names):
            table[at, 0] = self.dice.order(f"{name} common order", values) + 1
            shuffled = self.dice.order(f"{name} regional order", values) + 1
            for region in range(regions):
                table[at, region + 1] = np.roll(shuffled, -(region * values // regions))
        return table

    def _value(self, who: str, at: int, rows: range, region: Integers) -> Integers:
        """The values of attribute `at`, after the taste of the region, for subscribers and publishers alike."""
        name = f"{who} {self._names[at]}"
        own = self.dice.chance(f"{name} local", rows, self.parameters.locality)
        rank = self.dice.pick(name, rows, self._popularity)
        value: Integers = self._favoured[at, np.where(own, region + 1, 0), rank]
        return value

    # --- events

    def events(self, rows: range) -> list[Column]:
        region = self._publishing_region(rows)
        return [column(self._value("event", at, rows, region)) for at in range(len(self._names))]

    def _publishing_region(self, rows: range) -> Integers:
        # Publishers of equal Poisson rate: the next event comes from any of them with the same chance.
        return self.dice.below("event region", rows, self.parameters.regions)

    def publishers(self, rows: range) -> Column:
        """Leaves of each regional tree: from there a far leaf's client is six hops away, as far as chart 3 goes."""
        leaf = self.dice.below("event publisher", rows, self.parameters.publishers)
        first_leaf = 1 + CHILDREN
        return named(self.brokers, self._publishing_region(rows) * BROKERS_PER_REGION + first_leaf + leaf)

    # --- subscriptions

    def interests(self, rows: range) -> Interests:
        # Clients in turn, so that 5070 subscriptions are 13 for each of the 390 clients, as in chart 2.
        client = np.arange(rows.start, rows.stop) % (len(self.brokers) * self.parameters.clients)
        broker = client % len(self.brokers)
        region = broker // BROKERS_PER_REGION
        clauses = []
        care = self.parameters.care
        for at, name in enumerate(self._names):
            tests = strings([f"{name} = {value}" for value in range(1, self.parameters.values + 1)])
            cares = self.dice.chance(f"cares {name}", rows, care)
            value = self._value("subscription", at, rows, region)
            clauses.append(named(tests, value - 1, where=cares))
            care *= self.parameters.decay
        brokers = named(self.brokers, broker)
        subscriber = joined(brokers, "/client-", integer_text(client // len(self.brokers) + 1))
        return Interests(conjunction(clauses), subscriber, brokers)


def _region(number: int) -> list[str]:
    """A root, its three children, then their nine children: r1, r1-1, r1-2, r1-3, r1-1-1, ..."""
    root = f"r{number}"
    children = [f"{root}-{child}" for child in range(1, CHILDREN + 1)]
    return [root, *children, *(f"{child}-{leaf}" for child in children for leaf in range(1, CHILDREN + 1))]
