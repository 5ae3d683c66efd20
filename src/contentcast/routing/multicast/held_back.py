"""What a server wants and does not tell, because enough others tell it.

Source: announced in Eide et al. 2003, section 7: hold back what another server has told, as hosts do in IGMP. The
servers with the smallest names tell (`Members.tellers`).

    a, b, c tell price < 100        d wants price < 50: it keeps silent
    c leaves                        d tells it at once
    a promises something reliably   d tells everything: a repeats a message only to those of whom it knows that they want it

Rule: what may come reliably is never held back. A sender decides with the first message for whom it is, and a receiver sees
only by a second one that it missed the first.
"""

from __future__ import annotations

from collections.abc import Iterable

from contentcast.routing.multicast.aggregate import Told, Wish
from contentcast.routing.multicast.agreement import Agreement
from contentcast.routing.multicast.mapping import RELIABLE
from contentcast.routing.multicast.members import HELD_WHILE_S, MOST_TELLERS, Members
from contentcast.routing.multicast.streams import Streams

General = Iterable[tuple[int, Wish]]
"""The most general wants of this server, by their numbers."""


class HeldBack:
    """`numbers` has the general wants that are not told; there are none unless `is_on`."""

    def __init__(self, broker: str, is_on: bool, members: Members, agreement: Agreement, streams: Streams) -> None:
        self.is_on = is_on
        self.numbers: set[int] = set()
        self._broker = broker
        self._members = members
        self._agreement = agreement
        self._streams = streams

    def take(self, told: Told, now: float) -> Told:
        """What is left to tell of a change."""
        self.numbers.difference_update(told.removed)
        held = {number for number, wish in told.added.items() if self._may_hold(wish, now)}
        self.numbers |= held
        return Told({number: wish for number, wish in told.added.items() if number not in held}, told.removed)

    def reveal(self, general: General, now: float) -> Told:
        """What was held back and may be so no longer: to be told at once."""
        if not self.numbers:
            return Told()
        told = {number: wish for number, wish in general if number in self.numbers and not self._may_hold(wish, now)}
        self.numbers.difference_update(told)
        return Told(told)

    def withdraw(self, general: General, now: float) -> Told:
        """What was told and by now enough others tell: to be taken back at a refresh."""
        if not self.is_on:
            return Told()
        taken = [number for number, wish in general if number not in self.numbers and self._may_hold(wish, now)]
        self.numbers.update(taken)
        return Told(removed=taken)

    def _may_hold(self, wish: Wish, now: float) -> bool:
        if not self.is_on or self._may_be_reliable(wish):
            return False
        return self._members.tellers(wish.predicate, self._broker, now - HELD_WHILE_S) == MOST_TELLERS

    def _may_be_reliable(self, wish: Wish) -> bool:
        """By the subscription, a row of the mapping, an advertisement elsewhere, or because something came reliably."""
        return (
            wish.quality == RELIABLE
            or any(mapping.is_reliable(wish.predicate) for mapping in self._agreement.honoured())
            or self._members.anyone_promises()
            or self._streams.hears
        )
