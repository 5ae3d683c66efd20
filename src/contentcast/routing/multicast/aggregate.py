"""The most general subscriptions of a server's clients: what the other servers must know, and no more.

Source: Eide et al. 2003, sections 4.2 and 5.3: a server tells the others "the most general subscriptions made by their locally
interested parties".

    desk-1: price < 100                general 1
    desk-2: price < 100                the same: nothing to tell
    desk-3: price < 50                 covered by 1: nothing to tell
    desk-4: price < 200                general 2; 1 is covered now, and taken back
    desk-4 unsubscribes                general 3 = price < 100; price < 50 is under it again

Rule: whatever a client wants is covered by something told. That little is told is a saving: a new subscription is compared with
MOST_COMPARED others, so that many clients cost no square of their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from contentcast.model import Predicate, Space, Subscription, SubscriptionBatch, covers
from contentcast.routing.multicast.mapping import RELIABLE, Quality

MOST_COMPARED: Final = 256
"""General subscriptions of a space that a new one is compared with: 256 comparisons take some milliseconds."""


class Wish(NamedTuple):
    """What a client wants, and how surely."""

    predicate: Predicate
    quality: Quality

    def covers(self, other: Wish) -> bool:
        return (self.quality == RELIABLE or other.quality != RELIABLE) and covers(self.predicate, other.predicate)


@dataclass(slots=True)
class Told:
    """What changed about the general subscriptions."""

    added: dict[int, Wish] = field(default_factory=dict)
    removed: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


class Aggregate:
    def __init__(self) -> None:
        self._wish_of: dict[int, Wish] = {}
        self._holders: dict[Wish, set[int]] = {}
        self._general: dict[Space, dict[Wish, int]] = {}
        self._cover: dict[Wish, Wish] = {}
        self._under: dict[Wish, dict[Wish, None]] = {}
        self._numbers = 0

    def change(self, removed: Iterable[int], added: Iterable[tuple[int, Wish]]) -> Told:
        """Subscriptions that went and came, by their ids; says what the other servers must hear."""
        told = Told()
        for each in removed:
            self._remove(each, told)
        for each, wish in added:
            self._remove(each, told)
            self._wish_of[each] = wish
            holders = self._holders.get(wish)
            if holders is not None:
                holders.add(each)
            else:
                self._holders[wish] = {each}
                self._place(wish, told)
        return told

    def _place(self, wish: Wish, told: Told) -> None:
        general = self._general.setdefault(wish.predicate.space, {})
        for other in islice(general, MOST_COMPARED):
            if other.covers(wish):
                self._put_under(wish, other)
                return
        for other in [each for each in islice(general, MOST_COMPARED) if wish.covers(each)]:
            _take_back(general.pop(other), told)
            for each in [other, *self._under.pop(other, ())]:
                self._put_under(each, wish)
        self._numbers += 1
        general[wish] = self._numbers
        told.added[self._numbers] = wish

    def _put_under(self, wish: Wish, cover: Wish) -> None:
        self._cover[wish] = cover
        self._under.setdefault(cover, {})[wish] = None

    def _remove(self, id: int, told: Told) -> None:
        wish = self._wish_of.pop(id, None)
        if wish is None:
            return
        holders = self._holders[wish]
        holders.discard(id)
        if holders:
            return
        del self._holders[wish]
        cover = self._cover.pop(wish, None)
        if cover is not None:
            self._under[cover].pop(wish)
            return
        _take_back(self._general[wish.predicate.space].pop(wish), told)
        for each in self._under.pop(wish, {}):
            del self._cover[each]
            self._place(each, told)

    def general(self) -> Iterator[tuple[int, Wish]]:
        """What must be told, with the number under which it was."""
        return ((number, wish) for each in self._general.values() for wish, number in each.items())

    def __len__(self) -> int:
        return sum(map(len, self._general.values()))


def _take_back(number: int, told: Told) -> None:
    if told.added.pop(number, None) is None:
        told.removed.append(number)


def batches(wishes: Iterable[tuple[int, Wish]]) -> tuple[SubscriptionBatch, ...]:
    """As they travel: a batch for each space; in place of the subscriber stands the quality."""
    by_space: dict[Space, list[Subscription]] = {}
    for number, wish in wishes:
        by_space.setdefault(wish.predicate.space, []).append(Subscription(number, wish.predicate, wish.quality))
    return tuple(SubscriptionBatch.of(each) for each in by_space.values())
