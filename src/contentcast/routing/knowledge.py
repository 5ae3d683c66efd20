"""What every broker knows of all others: which links they have and what their clients want.

Source: Banavar et al. 1999, section 2 ("changes to the subscription set are batched and periodically propagated to all
brokers") and 3.2 ("each broker knows the topology"). How is left open there; here it is done as link-state routing does it. A
broker tells its neighbours what is new about itself, numbered by version; who hears something new tells it on; two brokers
whose link comes up tell each other how far they have heard (`Known`) and send what the other lacks.

    a: Subscribed          pending; timer `propagate`
    a: TimerFired          Interest(a, since 4, version 5) to b
    b: Received            new: keeps it, tells it on to c and d
    d: Received from c     already has version 5: silent

Rule: only a broker itself makes versions of what it has; everybody else stores and tells on, so equal versions are equal
contents.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from contentcast.model import Space, SubscriptionBatch
from contentcast.network.topology import Link, Topology
from contentcast.routing.audience import Audience, Change
from contentcast.routing.contract import (
    Effect,
    Input,
    LinkLost,
    LinkUp,
    Received,
    Send,
    SetTimer,
    Sizes,
    Subscribed,
    TimerFired,
    Unsubscribed,
)
from contentcast.routing.destinations import Exits
from contentcast.routing.setup import Setup
from contentcast.wire import Interest, Known, Mark, Message, Neighbours

PROPAGATE: Final = "propagate"
KEPT_CHANGES: Final = 64
"""Changes of a broker's subscriptions kept apart, to send only those that a neighbour lacks; older ones are one batch."""


@dataclass(slots=True)
class Record:
    """What is known of one broker. `blocks` has its subscriptions in batches, each with the version in which it came."""

    mark: Mark
    links: tuple[tuple[str, float], ...] = ()
    blocks: list[tuple[int, SubscriptionBatch]] = field(default_factory=list)
    gone: deque[tuple[int, tuple[int, ...]]] = field(default_factory=deque)
    """(version, ids) of the last removals; what was removed up to version `forgotten` is no longer listed."""
    forgotten: int = 0

    def apply(self, version: int, added: tuple[SubscriptionBatch, ...], removed: tuple[int, ...]) -> None:
        if removed:
            ids = np.array(removed, np.int64)
            self.blocks = [(at, kept) for at, each in self.blocks if len(kept := each.without(ids))]
            self.gone.append((version, removed))
        self.blocks += [(version, batch) for batch in added if len(batch)]
        if len(self.blocks) > KEPT_CHANGES:
            self._compact(version)
        if len(self.gone) > KEPT_CHANGES:
            self.forgotten = self.gone.popleft()[0]
        self.mark = self.mark._replace(interest=version)

    def _compact(self, version: int) -> None:
        spaces: dict[Space, list[SubscriptionBatch]] = {}
        for _, batch in self.blocks:
            spaces.setdefault(batch.space, []).append(batch)
        self.blocks = [(version, SubscriptionBatch.concat(batches)) for batches in spaces.values()]
        self.forgotten = version

    def interest(self, origin: str, since: int) -> Interest:
        """What somebody lacks who has heard up to version `since`."""
        if since < self.forgotten or since > self.mark.interest:
            since = 0
        added = tuple(batch for version, batch in self.blocks if version > since)
        removed = tuple(each for version, ids in self.gone if version > since for each in ids) if since else ()
        return Interest(origin, self.mark.incarnation, since, self.mark.interest, added, removed)

    def neighbours(self, origin: str) -> Neighbours:
        return Neighbours(origin, self.mark.incarnation, self.mark.neighbours, self.links)


class Knowledge:
    """One broker's; `handle` takes every input that is not about events."""

    def __init__(self, broker: str, setup: Setup) -> None:
        self.broker = broker
        self.links: dict[str, float] = {}
        """The links that work, with their delays."""
        self._setup = setup
        self._records: dict[str, Record] = {}
        self._subscribed: dict[int, None] = {}
        self._unsent: list[Change] = []
        self._pending: dict[Space, list[Change]] = {}
        self._local_pending: dict[Space, list[Change]] = {}
        self._audiences: dict[Space, Audience] = {}
        self._local: dict[Space, Audience] = {}
        self._topology: Topology | None = None
        self._onward: dict[str, tuple[str, ...]] = {}
        self._exits: Exits | None = None
        if setup.topology is not None:
            for each in setup.topology.brokers:
                links = tuple((other, setup.topology.link(each, other).delay_s) for other in setup.topology.neighbours(each))
                self._records[each] = Record(Mark(1, 0, 0), links)
        mine = self._records.get(broker)
        # Who starts again does not know which of its links still work: it is told by LinkUp.
        first_life = setup.incarnation == 1 and mine is not None
        self._mine = Record(Mark(setup.incarnation, 0, 0), mine.links if mine and first_life else ())
        self._records[broker] = self._mine
        self.links = dict(self._mine.links)

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Subscribed(subscriptions):
                return self._subscribe(subscriptions, now)
            case Unsubscribed(ids):
                return self._unsubscribe(ids, now)
            case LinkUp(link, delay_s):
                return self._link_up(link, delay_s)
            case LinkLost(link):
                return self._link_lost(link)
            case TimerFired(name) if name == PROPAGATE:
                return self._propagate()
            case Received(link, Interest() as interest):
                return self._hear_interest(interest, link)
            case Received(link, Neighbours() as neighbours):
                return self._hear_neighbours(neighbours, link)
            case Received(link, Known(marks)):
                return self._answer(marks, link)
        return []

    # --- this broker's clients

    def _subscribe(self, subscriptions: SubscriptionBatch, now: float) -> list[Effect]:
        again = tuple(each for each in subscriptions.ids.tolist() if each in self._subscribed)
        self._subscribed.update(dict.fromkeys(subscriptions.ids.tolist()))
        return self._change(Change(self.broker, again, subscriptions), now)

    def _unsubscribe(self, ids: tuple[int, ...], now: float) -> list[Effect]:
        known = tuple(each for each in ids if each in self._subscribed)
        for each in known:
            del self._subscribed[each]
        return self._change(Change(self.broker, known, None), now) if known else []

    def _change(self, change: Change, now: float) -> list[Effect]:
        self._note(change)
        waiting = bool(self._unsent)
        self._unsent.append(change)
        return [] if waiting else [SetTimer(PROPAGATE, now + self._setup.propagate_after_s)]

    def _propagate(self) -> list[Effect]:
        """Everything since the last time as one version. What came and went again in between is told to nobody."""
        changes, self._unsent = self._unsent, []
        if not changes:
            return []
        added: list[SubscriptionBatch] = []
        removed: dict[int, None] = {}
        for change in changes:
            if change.removed:
                ids = np.array(change.removed, np.int64)
                added = [kept for each in added if len(kept := each.without(ids))]
                removed.update(dict.fromkeys(change.removed))
            if change.added is not None:
                added.append(change.added)
        since = self._mine.mark.interest
        self._mine.apply(since + 1, tuple(added), tuple(removed))
        interest = Interest(self.broker, self._mine.mark.incarnation, since, since + 1, tuple(added), tuple(removed))
        return self._tell(interest, None)

    # --- this broker's links

    def _link_up(self, link: str, delay_s: float) -> list[Effect]:
        told: list[Effect] = []
        if self.links.get(link) != delay_s:
            self.links[link] = delay_s
            told = self._tell_links()
        return [*told, Send(link, Known(self.marks()))]

    def _link_lost(self, link: str) -> list[Effect]:
        if self.links.pop(link, None) is None:
            return []
        return self._tell_links()

    def _tell_links(self) -> list[Effect]:
        self._mine.links = tuple(sorted(self.links.items()))
        self._mine.mark = self._mine.mark._replace(neighbours=self._mine.mark.neighbours + 1)
        self._topology = None
        return self._tell(self._mine.neighbours(self.broker), None)

    def _tell(self, message: Message, heard_from: str | None) -> list[Effect]:
        return [Send(link, message) for link in sorted(self.links) if link != heard_from]

    # --- what others tell

    def _hear_interest(self, heard: Interest, link: str) -> list[Effect]:
        record = self._record(heard.origin, heard.incarnation)
        if record is None or heard.version <= record.mark.interest:
            return []
        if heard.since > record.mark.interest:
            return [Send(link, Known(self.marks()))]  # something is missing in between: ask for it
        if heard.since == 0:
            self._forget_interest(heard.origin, record)
            removed: tuple[int, ...] = ()
        else:
            # What is told may overlap with what was heard: coming again is coming anew.
            again = [each for batch in heard.added for each in batch.ids.tolist()] if heard.since < record.mark.interest else []
            removed = tuple(dict.fromkeys((*heard.removed, *again)))
        record.apply(heard.version, heard.added, removed)
        if heard.since == 0:
            record.forgotten = heard.version
        if removed:
            self._note(Change(heard.origin, removed, None))
        for batch in heard.added:
            self._note(Change(heard.origin, (), batch))
        return self._tell(heard, link)

    def _hear_neighbours(self, heard: Neighbours, link: str) -> list[Effect]:
        record = self._record(heard.origin, heard.incarnation)
        if record is None or heard.version <= record.mark.neighbours:
            return []
        record.mark = record.mark._replace(neighbours=heard.version)
        if record.links != heard.links:
            record.links = heard.links
            self._topology = None
        return self._tell(heard, link)

    def _record(self, origin: str, incarnation: int) -> Record | None:
        """The record to bring up to date; None if this is old news, or news of this broker itself from an earlier life."""
        if origin == self.broker:
            return None
        record = self._records.get(origin)
        if record is None:
            record = self._records[origin] = Record(Mark(incarnation, 0, -1))
        if incarnation < record.mark.incarnation:
            return None
        if incarnation > record.mark.incarnation:
            self._forget_interest(origin, record)
            record.mark = Mark(incarnation, 0, -1)
            record.links, record.forgotten = (), 0
            self._topology = None
        return record

    def _forget_interest(self, origin: str, record: Record) -> None:
        if record.blocks:
            self._note(Change(origin, None, None))
        record.blocks, record.gone = [], deque()

    def _answer(self, marks: dict[str, Mark], link: str) -> list[Effect]:
        """What the neighbour lacks, of every broker."""
        lacking: list[Effect] = []
        for origin, record in sorted(self._records.items()):
            theirs = marks.get(origin, Mark(0, 0, -1))
            if record.mark.incarnation < theirs.incarnation:
                continue
            if record.mark.incarnation > theirs.incarnation:
                theirs = Mark(record.mark.incarnation, 0, -1)
            if record.mark.neighbours > theirs.neighbours:
                lacking.append(Send(link, record.neighbours(origin)))
            if record.mark.interest > theirs.interest:
                lacking.append(Send(link, record.interest(origin, theirs.interest)))
        if any(mark > self._mark(origin) for origin, mark in marks.items() if origin != self.broker):
            lacking.append(Send(link, Known(self.marks())))
        return lacking

    def _mark(self, origin: str) -> Mark:
        record = self._records.get(origin)
        return Mark(0, 0, -1) if record is None else record.mark

    def marks(self) -> dict[str, Mark]:
        return {origin: record.mark for origin, record in sorted(self._records.items())}

    # --- what follows from it

    @property
    def topology(self) -> Topology:
        """The links that both ends say they have."""
        if self._topology is None:
            told = {origin: dict(record.links) for origin, record in self._records.items()}
            links = [
                Link(one, other, delay_s)
                for one, all_links in told.items()
                for other, delay_s in all_links.items()
                if one < other and one in told.get(other, {})
            ]
            self._topology = Topology.of(told, links)
            self._onward = {}
        return self._topology

    def onward(self, origin: str) -> tuple[str, ...]:
        """To whom this broker passes on what entered at `origin`, if all are to have it."""
        topology = self.topology
        found = self._onward.get(origin)
        if found is None:
            found = tuple(topology.children(origin, self.broker)) if origin in topology else ()
            self._onward[origin] = found
        return found

    def exits(self) -> Exits:
        """By which link each publisher's events leave this broker for each other."""
        topology = self.topology
        if self._exits is None or self._exits.topology is not topology:
            self._exits = Exits(topology, self.broker)
        return self._exits

    def _note(self, change: Change) -> None:
        _file(self._pending, self._audiences, change)
        if change.origin == self.broker:
            _file(self._local_pending, self._local, change)

    def audience(self, space: Space) -> Audience:
        """Everybody who wants something of this space, as far as heard."""
        changes = self._pending.pop(space, None)
        found = self._audiences.get(space)
        if changes is None and found is not None:
            return found
        heard = tuple((origin, *record.mark[:2]) for origin, record in sorted(self._records.items()) if record.mark.interest)
        # What this broker's own clients changed and the others do not know yet is in no version: nobody shares it.
        key = (space, heard, (self.broker, self._mine.mark, len(self._unsent)) if self._unsent else None)
        found = self._setup.forest.audience(key, found, space, changes or [])
        self._audiences[space] = found
        return found

    def clients(self, space: Space) -> Audience:
        """The same for the clients of this broker alone."""
        changes = self._local_pending.pop(space, None)
        found = self._local.get(space)
        if found is None or changes is not None:
            found = (found or Audience.empty(space)).changed(changes or [])
            self._local[space] = found
        return found

    def sizes(self, *, local: bool = False) -> Sizes:
        """Of the trees with everybody in them, or of those with this broker's clients alone."""
        audiences = [(self.clients if local else self.audience)(space) for space in self.spaces()]
        shapes = [audience.tree.shape for audience in audiences]
        return Sizes(
            sum(map(len, audiences)), sum(each.nodes for each in shapes), sum(each.nbytes for each in shapes), len(self.links)
        )

    def spaces(self) -> list[Space]:
        """Those that somebody wants something of."""
        return sorted({*self._audiences, *self._pending}, key=lambda space: space.name)

    def state(self) -> dict[str, Any]:
        return {
            "links": dict(sorted(self.links.items())),
            "marks": {origin: tuple(mark) for origin, mark in self.marks().items()},
            "subscriptions": {
                origin: sorted(each for _, batch in record.blocks for each in batch.ids.tolist())
                for origin, record in sorted(self._records.items())
                if record.blocks
            },
            "subscribed": sorted(self._subscribed),
        }


def _file(pending: dict[Space, list[Change]], known: dict[Space, Audience], change: Change) -> None:
    """Puts a change where the audience of each space it touches will find it. What goes may be of any space that is known."""
    mine = None if change.added is None else change.added.space
    if mine is not None:
        pending.setdefault(mine, []).append(change)
    if change.removed is None or change.removed:
        for space in {*known, *pending}:
            if space != mine:
                pending.setdefault(space, []).append(change._replace(added=None))
