"""Copies: what a node holds for its arc stands on its successors as well, and a joiner gets it from them.

Source: Baldoni et al. 2005, section 4.1, says what must happen; how is ours (see `store`).

    n -> s   ArcDigest(arc of n)        s holds the same: ArcDigest same         n is ready, and asks again a few rounds later
                                        else: Held, the names of what s holds on that arc
    n        what s lacks               n -> s   Stored ...
             what n lacks               n -> s   Held wanted                     s -> n   Stored ...

A node is *sure* of the part of its arc for which all those successors have told it what they hold. When a node joins, or its
arc grows because the one before it has died, it is not sure at first: events for such keys are matched here and by the
successors as well.
Rule: nothing is taken away by comparing. What has ended is told as ended, and what nobody renews expires everywhere.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from contentcast.routing.chord.keys import Peer
from contentcast.routing.chord.node import ChordNode
from contentcast.routing.contract import Changed, Effect, SendTo
from contentcast.routing.overlay.store import EntryKey, Store
from contentcast.wire.overlay import ArcDigest, Held

BEHIND_NAME: Final = "#"
"""Between a broker's name and the number of its place, where it has several on the ring."""
CONFIRM_EVERY: Final = 4
"""Rounds after which a successor that held the same is asked again."""


def host_of(name: str) -> str:
    """The broker of a place on the ring."""
    return name.partition(BEHIND_NAME)[0]


class Copying:
    def __init__(self, chord: ChordNode, store: Store, copies: int) -> None:
        self._chord = chord
        self._store = store
        self.count = copies
        self._confirmed: dict[str, tuple[tuple[int, int], int]] = {}
        self._round = 0
        self._was_alone = True
        self._sure_from: int | None = None
        """It is sure of the keys behind this one up to its own."""
        self._agreed: tuple[tuple[int, int], set[str]] = ((0, 0), set())
        """An arc, and the successors that have told what they hold on it."""

    @property
    def ready(self) -> bool:
        """It is sure of some of its arc, or nobody else is there."""
        return self._sure_from is not None or not self._chord.member.successors

    def sure_arc(self) -> tuple[int, int] | None:
        """Of which keys it is sure. Never more than its present arc: of what it once covered others know more by now."""
        if self._sure_from is None:
            return None
        member, size = self._chord.member, 1 << self._chord.bits
        if (member.me.key - member.predecessor.key - 1) % size < (member.me.key - self._sure_from - 1) % size:
            self._sure_from = member.predecessor.key
        return self._sure_from, member.me.key

    def holders(self) -> list[Peer]:
        """The next places on the ring, each of another broker, that hold copies of this one's arc."""
        found: dict[str, Peer] = {}
        for peer in self._chord.member.successors:
            if (host := host_of(peer.name)) != host_of(self._chord.me.name):
                found.setdefault(host, peer)
        return list(found.values())[: self.count]

    def compare(self, now: float) -> list[Effect]:
        """One round: the digest of this node's arc to its successors."""
        self._round += 1
        member = self._chord.member
        alone = not member.successors
        if alone != self._was_alone:
            self._was_alone = alone
            self._sure_from = None
        self.sure_arc()
        digest = self._store.digest(member.arc)
        effects: list[Effect] = []
        holders = self.holders()
        names = {each.name for each in holders}
        self._confirmed = {name: known for name, known in self._confirmed.items() if name in names}
        self._agreed = (self._agreed[0], self._agreed[1] & names)
        for peer in holders:
            known = self._confirmed.get(peer.name) == (member.arc, digest)
            if not known or self._round % CONFIRM_EVERY == 0:
                effects.append(SendTo(peer.name, ArcDigest(*member.arc, digest, self._store.least_life(member.arc, now))))
        return effects

    def receive(self, sender: str, message: ArcDigest | Held, now: float) -> list[Effect]:
        arc = (message.low, message.high)
        match message:
            case ArcDigest(same=True):
                self._confirmed[sender] = (arc, message.digest)
                return self._heard_all(sender, arc)
            case ArcDigest():
                if self._store.digest(arc) == message.digest:
                    self._store.prolong(arc, now + message.lifetime_s)
                    return [SendTo(sender, ArcDigest(*arc, message.digest, same=True))]
                return [SendTo(sender, self._named(arc, self._store.held(arc), wanted=False))]
            case Held(wanted=True):
                return [SendTo(sender, each) for each in self._store.copies(_keys(message), now)]
            case Held():
                return self._settle(sender, message, now)

    def _settle(self, sender: str, held: Held, now: float) -> list[Effect]:
        arc = (held.low, held.high)
        theirs = dict(zip(_keys(held), held.versions.tolist(), strict=True))
        mine = self._store.held(arc)
        missing = [key for key, version in theirs.items() if self._store.lacks(key, version)]
        newer = [key for key in mine if theirs.get(key, 0) < self._store.entries[key].version]
        ended = [key for key, version in theirs.items() if self._has_ended(key, version)]
        effects: list[Effect] = [SendTo(sender, each) for each in self._store.copies([*newer, *ended], now)]
        if missing:
            return [*effects, Changed(), SendTo(sender, self._named(arc, missing, wanted=True, versions=theirs))]
        return [*effects, *self._heard_all(sender, arc)]

    def _has_ended(self, key: EntryKey, version: int) -> bool:
        mine = self._store.entries.get(key)
        return mine is not None and mine.batch is None and mine.version > version

    def _heard_all(self, sender: str, arc: tuple[int, int]) -> list[Effect]:
        member = self._chord.member
        if arc != member.arc:
            return []
        if self._agreed[0] != arc:
            self._agreed = (arc, set())
        self._agreed[1].add(sender)
        if self._sure_from == arc[0] or not {each.name for each in self.holders()} <= self._agreed[1]:
            return []
        self._sure_from = arc[0]
        return [Changed()]

    def _named(
        self, arc: tuple[int, int], keys: list[EntryKey], wanted: bool, versions: dict[EntryKey, int] | None = None
    ) -> Held:
        known = versions or {key: self._store.entries[key].version for key in keys}
        return Held(
            *arc,
            wanted,
            tuple(key.broker for key in keys),
            np.array([key.incarnation for key in keys], np.int64),
            np.array([key.id for key in keys], np.int64),
            np.array([known[key] for key in keys], np.int64),
        )

    def hand_over(self, now: float) -> list[Effect]:
        """Before leaving: the next broker on the ring gets all that this node holds for its arc."""
        arc = self._chord.member.arc
        return [
            SendTo(each.name, stored)
            for each in self.holders()[:1]
            for stored in self._store.copies(self._store.held(arc), now)
        ]


def _keys(held: Held) -> list[EntryKey]:
    return [
        EntryKey(broker, incarnation, number)
        for broker, incarnation, number in zip(held.brokers, held.incarnations.tolist(), held.ids.tolist(), strict=True)
    ]
