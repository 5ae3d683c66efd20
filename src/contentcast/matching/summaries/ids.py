"""Subscription ids in three parts, and how many bits each part takes.

Source: Triantafillou & Economides 2004, section 3.2 and figure 6.

    c1  the broker, as a number          as many bits as the logarithm of the number of brokers, rounded up
    c2  the subscription at this broker  as many bits as the logarithm of the most subscriptions, rounded up
    c3  one bit for each attribute of the space; set where the subscription has a constraint

Departs from it in one point: brokers and subscriptions of this product have names and 64-bit ids, so a summary keeps those, and
the three parts in bits serve the size equations and `pack`. c3 is not stored: a summary's columns say which attributes an entry
has.
Rule: c3's lowest bit is the first attribute, so that a space that gains attributes leaves the bits of the others in place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from contentcast.model.errors import ContentcastError


@dataclass(frozen=True, slots=True)
class PartedId:
    """One subscription id: broker number, subscription number, attributes as bits."""

    c1: int
    c2: int
    c3: int

    @classmethod
    def of(cls, broker: int, subscription: int, attributes: Iterable[int]) -> PartedId:
        """`attributes` counts from 0."""
        return cls(broker, subscription, sum(1 << each for each in set(attributes)))

    @property
    def attribute_count(self) -> int:
        """What Algorithm 1 compares the counter with."""
        return self.c3.bit_count()


@dataclass(frozen=True, slots=True)
class IdLayout:
    """How many bits c1, c2 and c3 take in a system of this size."""

    brokers: int
    subscriptions: int
    attributes: int

    @property
    def bits(self) -> tuple[int, int, int]:
        return bits_for(self.brokers), bits_for(self.subscriptions), self.attributes

    @property
    def id_bytes(self) -> int:
        """sid of the size equations: all three parts, rounded up to whole bytes."""
        return -(-sum(self.bits) // 8)

    def pack(self, parts: PartedId) -> int:
        """c1, c2 and c3 one after the other, c1 in the highest bits."""
        found = 0
        for name, value, width in zip(("c1", "c2", "c3"), (parts.c1, parts.c2, parts.c3), self.bits, strict=True):
            if not 0 <= value < 1 << width:
                raise ContentcastError(f"{name} = {value} does not fit {width} bits; give the layout larger numbers: {self}")
            found = found << width | value
        return found

    def unpack(self, packed: int) -> PartedId:
        _, second, third = self.bits
        return PartedId(packed >> second + third, packed >> third & (1 << second) - 1, packed & (1 << third) - 1)


def bits_for(count: int) -> int:
    """The base-2 logarithm of the count, rounded up."""
    return max(0, count - 1).bit_length()
