"""The part of a broker where events enter: it accepts them, keeps them, and sends them until every home has them.

    Published(events, "p", 7)    position 12; who wants which rows, by the versions in force; Kept in the log
    synced                       Accepted("p", 7, 12), and a Custody to each home that wants something of it
    Have(12) from a home         that home has it; when all have, it is dropped

For one home the positions that it wants something of make a chain: 3, 9, 12. The Custody of 12 says "after 9: what lies between
is silence", and a home at 9 takes it. The chain begins at the *base*: the last position before the home's first version.
Source: Bhola et al. 2002 (knowledge streams of data and silence, kept only where events enter). It departs in that events go
directly to the homes that want them, so that nobody in between must know a version.
Positions ascend, without gaps within a life; each life begins above all earlier ones (`lives`).
Rule: a version is in force from its place in the log. What lies before it is filtered without it, what lies behind with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import Any, Final

import numpy as np

from contentcast.model import EventBatch, SubscriptionBatch
from contentcast.routing.audience import Change
from contentcast.routing.audience.audiences import Audiences
from contentcast.routing.contract import Accepted, Effect, Published, SendTo, Timer
from contentcast.routing.durable.keeping import Keeping, batch_bytes
from contentcast.routing.durable.lives import before_life
from contentcast.routing.durable.log import Log
from contentcast.routing.durable.patience import Patience, reached
from contentcast.routing.durable.publishers import Publishers
from contentcast.routing.parts.network_view import NetworkView
from contentcast.routing.parts.spaces import SpaceRegister
from contentcast.wire import Publish
from contentcast.wire.checkpoints import Owed, Stripped, Tables
from contentcast.wire.durable import GONE, NONE, Custody, DurableInterest, Have, InForce, Kept, Wanted, check_rows
from contentcast.wire.fields import Ints

RESEND: Final = "durable resend"
"""The timer of this part; what it is about is the home."""
WINDOW: Final = 64
"""Batches under way to one home; the next goes when the first of them is there."""


@dataclass(slots=True)
class Towards:
    """One home, as this origin sees it."""

    base: int
    """The last position before its first version, then the last that it has said to have: no home needs more to go on."""
    version: int
    patience: Patience
    synced_version: int = 0
    chained: int = 0
    """The last position that it wants something of; the base if there is none."""
    waiting: deque[Custody] = field(default_factory=deque)
    """What it has not said that it has."""
    sent: int = 0
    """How many of those that wait are under way."""
    nbytes: int = 0
    ages: deque[float] = field(default_factory=deque)
    """When this life of the broker got each of those that wait."""
    stripped: int = 0
    """How many of those that wait have lost their events by a limit, from the first on."""

    def add(self, custody: Custody, now: float) -> None:
        self.waiting.append(custody)
        self.ages.append(now)
        self.nbytes += _size(custody)

    def pop(self) -> None:
        custody = self.waiting.popleft()
        self.base = max(self.base, custody.position)
        self.nbytes -= _size(custody)
        self.ages.popleft()
        self.sent, self.stripped = max(0, self.sent - 1), max(0, self.stripped - 1)

    def exceeding(self, keeping: Keeping, now: float) -> int:
        """Up to which position it keeps too much or for too long; 0: it does not."""
        upto, nbytes = 0, self.nbytes
        oldest = now - keeping.most_age_s if keeping.most_age_s else -inf
        for custody, at in islice(zip(self.waiting, self.ages, strict=True), self.stripped, None):
            if at >= oldest and (nbytes <= keeping.most_bytes or custody is self.waiting[-1]):
                break
            nbytes -= _size(custody)
            upto = custody.position
        return upto

    def strip(self, upto: int) -> None:
        """Batches up to this position lose their events; their places in the chain stay, and say what was there."""
        while self.stripped < len(self.waiting) and self.waiting[self.stripped].position <= upto:
            custody = self.waiting[self.stripped]
            assert custody.publish is not None
            missed = np.concatenate([custody.missed, custody.ids])
            bare = replace(custody, rows=NONE, ids=NONE, publish=custody.publish.take(NONE), missed=missed)
            self.waiting[self.stripped] = bare
            self.nbytes += _size(bare) - _size(custody)
            self.stripped += 1


class Origin:
    """`route` is given accepted events for those who subscribe without durability."""

    def __init__(
        self,
        broker: str,
        incarnation: int,
        view: NetworkView,
        spaces: SpaceRegister,
        log: Log,
        route: Callable[[EventBatch, float], list[Effect]],
        keeping: Keeping,
        *,
        count_steps: bool,
    ) -> None:
        self.broker = broker
        self.last = 0
        """The last position given."""
        self.homes: dict[str, Towards] = {}
        self._incarnation = incarnation
        self._view = view
        self._spaces = spaces
        self._log = log
        self._route = route
        self.keeping = keeping
        self._publishers = Publishers(broker)
        self._unsynced: set[tuple[str, int]] = set()
        self._interests: dict[str, tuple[SubscriptionBatch, ...]] = {}
        self._audiences = Audiences.of_one(spaces, self._all_interests, count_steps=count_steps)

    # --- accepting

    def accept(self, published: Published, now: float) -> list[Effect]:
        publisher, number = published.publisher, published.number
        if (publisher, number) in self._unsynced:
            return []  # the answer comes with the sync
        last, position = self._publishers.last(publisher)
        self._publishers.check(publisher, number, last)
        if number <= last:
            return [Accepted(publisher, number, position if number == last else 0, duplicate=True)]
        events = self._spaces.fit(published.events)
        publish = Publish(self.broker, 1, self.last + 1, events)
        kept = Kept(self.last + 1, publisher, number, self.wanted(events), publish)
        self._place(kept)
        self._unsynced.add((publisher, number))
        return self._log.write(kept, lambda then: self._accepted(kept, then))

    def check(self, publisher: str, number: int, ahead: int) -> None:
        """Raises for a number that `accept` will refuse when it has got `ahead`."""
        last, _ = self._publishers.last(publisher)
        self._publishers.check(publisher, number, max(last, ahead))

    def _place(self, kept: Kept) -> None:
        self.last = kept.position
        self._publishers.note(kept.publisher, kept.number, kept.position, self.keeping.passing_publishers)

    def _accepted(self, kept: Kept, now: float) -> list[Effect]:
        assert kept.publish is not None
        self._unsynced.discard((kept.publisher, kept.number))
        effects: list[Effect] = [Accepted(kept.publisher, kept.number, kept.position)]
        effects += self._route(kept.publish.events, now)
        self._line_up(kept, now)
        for each in kept.wanted:
            if each.home not in self.homes:
                continue  # it was forgotten meanwhile
            effects += self._send(each.home, now)
            if self.homes[each.home].nbytes > self.keeping.most_bytes:
                effects += self._keep_less(each.home, now)
        return effects

    def _line_up(self, kept: Kept, now: float) -> None:
        assert kept.publish is not None
        for each in kept.wanted:
            home = self.homes.get(each.home)
            if home is None:
                continue
            rows, pairs = np.unique(each.rows, return_inverse=True)
            part = kept.publish if len(rows) == len(kept.publish.events) else kept.publish.take(rows)
            pairs = pairs.astype(np.int64)
            home.add(Custody(home.base, home.chained, kept.position, each.version, pairs, each.ids, part), now)
            home.chained = kept.position

    def wanted(self, events: EventBatch) -> tuple[Wanted, ...]:
        """Which rows satisfy which subscriptions of each home, by the versions in force now."""
        audience = self._audiences.of(events.space)
        if not len(audience) or not len(events):
            return ()
        found = audience.match_living(events)
        rows, owners, ids = found.events, audience.origin[found.rows], audience.ids[found.rows]
        chosen = ((audience.origins[each], owners == each) for each in np.unique(owners).tolist())
        wanted = [Wanted(home, self.homes[home].version, rows[mine], ids[mine]) for home, mine in chosen]
        return tuple(sorted(wanted, key=lambda each: each.home))

    # --- versions

    def hear(self, told: DurableInterest, now: float) -> list[Effect]:
        """A home told its interests: they are in force from this place of the log on. Its own are in the log already."""
        home = self.homes.get(told.origin)
        if home is not None and told.version <= home.version:
            return []
        self.force(told)
        return self._log.write(told, lambda then: self.forced(told, then))

    def force(self, told: DurableInterest) -> None:
        home = self.homes.get(told.origin)
        if told.version == GONE:
            self.homes.pop(told.origin, None)
            self._interests.pop(told.origin, None)
            self._audiences.note(Change(told.origin, None, None))
            return
        if home is None:
            home = self.homes[told.origin] = Towards(self.last, 0, Patience(Timer(RESEND, told.origin)), chained=self.last)
        home.version = told.version
        self._interests[told.origin] = told.subscriptions
        self._audiences.note(Change(told.origin, None, None))
        for batch in told.subscriptions:
            self._audiences.note(Change(told.origin, (), batch))

    def forced(self, told: DurableInterest, now: float) -> list[Effect]:
        home = self.homes.get(told.origin)
        if home is None:
            return []
        home.synced_version = max(home.synced_version, told.version)
        return [self._in_force(told.origin)]

    def _in_force(self, home: str) -> SendTo:
        found = self.homes.get(home)
        if found is None or not found.synced_version:
            return SendTo(home, InForce(0, 0, self.last))
        return SendTo(home, InForce(found.synced_version, found.base, self.last))

    def all_interests(self) -> Iterator[SubscriptionBatch]:
        """The durable subscriptions of all homes that are in force here."""
        return (batch for batches in self._interests.values() for batch in batches)

    def _all_interests(self) -> Iterator[tuple[str, SubscriptionBatch]]:
        for home, batches in sorted(self._interests.items()):
            yield from ((home, batch) for batch in batches)

    # --- sending

    def heard_have(self, home: str, have: Have, now: float) -> list[Effect]:
        found = self.homes.get(home)
        effects: list[Effect] = [self._in_force(home)] if have.asks else []
        if found is None:
            return effects
        while found.waiting and found.waiting[0].position <= have.upto:
            found.pop()
            found.patience.answered()
        return effects + self._send(home, now)

    def fired(self, home: str, now: float) -> list[Effect]:
        """No answer came in time: everything again."""
        found = self.homes.get(home)
        if found is None:
            return []
        found.patience.fired()
        found.sent = 0
        return self._send(home, now)

    def network_changed(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        lost = sorted(name for name, each in self.homes.items() if each.waiting and each.patience.hopeless)
        for name in sorted(reached(self._view, lost)):
            self.homes[name].sent = 0
            self.homes[name].patience.answered()
            effects += self._send(name, now)
        return effects

    def _send(self, name: str, now: float) -> list[Effect]:
        home = self.homes[name]
        if not home.waiting:
            return []
        can_hear = bool(reached(self._view, [name]))
        # To somebody who cannot be reached one message is enough to find out that we are wrong.
        upto = min(len(home.waiting), WINDOW if can_hear else 1)
        effects: list[Effect] = [SendTo(name, replace(home.waiting[at], base=home.base)) for at in range(home.sent, upto)]
        home.sent = max(home.sent, upto)
        return [*effects, *home.patience.wait(now, can_hear)]

    def owes(self, event: int) -> list[tuple[str, int, Ints]]:
        """The homes that have not said that they have an event: each with the position, and the subscriptions it is for."""
        found = []
        for name, home in sorted(self.homes.items()):
            for custody in home.waiting:
                assert custody.publish is not None
                rows = np.flatnonzero(custody.publish.events.ids.to_numpy() == event)
                if len(rows):
                    found.append((name, custody.position, custody.ids[np.isin(custody.rows, rows)]))
        return found

    # --- limits

    def _keep_less(self, home: str, now: float) -> list[Effect]:
        upto = self.homes[home].exceeding(self.keeping, now)
        if not upto:
            return []

        def then(_: float) -> list[Effect]:
            if home in self.homes:
                self.homes[home].strip(upto)
            return []

        return self._log.write(Stripped(home, upto), then)

    def grow_old(self, now: float) -> list[Effect]:
        return [effect for home in sorted(self.homes) for effect in self._keep_less(home, now)]

    # --- another life

    def restore(self, record: Kept | Stripped | Owed | Tables, now: float) -> None:
        match record:
            case Kept():
                check_rows(record)
                self._place(record)
                self._line_up(record, now)
            case Stripped(home, upto):
                if home in self.homes:
                    self.homes[home].strip(upto)
            case Owed(home, custody):
                assert custody is not None
                self.homes[home].add(custody, now)
                self.homes[home].stripped += bool(len(custody.missed))
            case Tables():
                self.last = record.last
                self._publishers.restore(record.publishers, record.gaps, self.keeping.passing_publishers)
                for name, (base, chained) in record.homes.items():
                    self.homes[name].base, self.homes[name].chained = base, chained

    def interests(self) -> Iterator[DurableInterest]:
        """For a checkpoint: the version of each home that is in force."""
        for name, home in sorted(self.homes.items()):
            yield DurableInterest(name, 0, home.version, self._interests[name])

    def owed(self) -> Iterator[Owed]:
        for name, home in sorted(self.homes.items()):
            yield from (Owed(name, custody) for custody in home.waiting)

    def tables(self) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]], dict[str, list[tuple[int, int]]]]:
        """Publishers, homes, and the numbers of publishers that were not accepted."""
        homes = {name: (home.base, home.chained) for name, home in sorted(self.homes.items())}
        return self._publishers.table(), homes, self._publishers.gaps()

    @property
    def nbytes(self) -> int:
        return sum(home.nbytes for home in self.homes.values())

    def started(self, now: float) -> list[Effect]:
        """What is restored is on disk."""
        self.last = max(self.last, before_life(self._incarnation))
        effects: list[Effect] = []
        for name, home in sorted(self.homes.items()):
            home.synced_version = home.version
            effects += self._send(name, now)
        return effects

    # --- looking inside

    def sizes(self) -> dict[str, int]:
        return {"kept": sum(len(each.waiting) for each in self.homes.values())}

    def state(self) -> dict[str, Any]:
        return {
            "last": self.last,
            "publishers": self._publishers.numbers(),
            "homes": {
                name: {"version": home.version, "base": home.base, "waiting": [each.position for each in home.waiting]}
                for name, home in sorted(self.homes.items())
            },
        }


def _size(custody: Custody) -> int:
    pairs = 16 * len(custody.ids) + 8 * len(custody.missed)
    return pairs + (batch_bytes(custody.publish.events) if custody.publish is not None else 0)
