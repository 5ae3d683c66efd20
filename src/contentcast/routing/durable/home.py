"""The part of a broker where durable subscribers are at home: it takes what origins send, numbers it, and hands it over.

    DurablySubscribed       a new version of this broker's durable interests; in the log, then told to all brokers
    Custody (9, 12] of a    continues 9, which it has: in the log, numbered for each subscription
    synced                  Have(12) to a; DeliverDurably to the clients that are here
    Acknowledged(7, 40)     numbers up to 40 of subscription 7 are dropped

Each subscription numbers its events 1, 2, 3, ... in the order of this broker's log, so a life that reads the log again gives
the same numbers. A client that comes back says the last number it has, and goes on from there.
Rule: what does not continue what it has is left; the origin sends it again, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.model import EventBatch, Space, Subscription, SubscriptionBatch
from contentcast.routing.contract import Acknowledged, Allowed, Effect, Holds, Resumed, SendTo, Timer
from contentcast.routing.durable.keeping import Keeping, part_of
from contentcast.routing.durable.lives import before_life
from contentcast.routing.durable.log import Log
from contentcast.routing.durable.patience import Patience, reached
from contentcast.routing.durable.subscribed import Batch, Subscribed
from contentcast.routing.parts.network_view import NetworkView
from contentcast.wire import Publish
from contentcast.wire.checkpoints import Dropped, Tables, Waiting
from contentcast.wire.durable import BELIEVED, Custody, DurableInterest, Have, InForce, Taken, check_rows
from contentcast.wire.fields import Ints

ASK: Final = Timer("durable ask")


class Home:
    """`brokers` gives the names of all brokers that were heard of: each may be an origin."""

    def __init__(
        self,
        broker: str,
        incarnation: int,
        view: NetworkView,
        log: Log,
        brokers: Callable[[], list[str]],
        keeping: Keeping,
    ) -> None:
        self.broker = broker
        self.version = 0
        """Of the durable interests here, over all lives."""
        self.have: dict[str, int] = {}
        """How far each origin was taken; the last may not be on disk yet."""
        self.synced: dict[str, int] = {}
        self.in_force: dict[str, tuple[int, int]] = {}
        """Origin -> the version by which it filters, and the position after which it did so when it last said so."""
        self._incarnation = incarnation
        self._view = view
        self._log = log
        self._brokers = brokers
        self.keeping = keeping
        self._synced_version = 0
        self._held: dict[int, Subscribed] = {}
        self._asked: list[tuple[int, tuple[int, ...]]] = []
        """Who waits for a `Holds`: the version, and the ids that were asked for."""
        self._patience = Patience(ASK)

    # --- subscriptions

    def subscribe(self, subscriptions: SubscriptionBatch) -> DurableInterest | None:
        """The interests after it, which are to be written; None if nothing changes."""
        wanted = {each.id: each for each in subscriptions}
        self._asked.append((0, tuple(wanted)))
        known = {number: each for number, each in self._subscriptions().items() if number in wanted}
        return None if known == wanted else self._changed({**self._subscriptions(), **wanted})

    def unsubscribe(self, ids: tuple[int, ...]) -> DurableInterest | None:
        self._asked.append((0, ids))
        if self._held.keys().isdisjoint(ids):
            return None
        return self._changed({number: each for number, each in self._subscriptions().items() if number not in ids})

    def _subscriptions(self) -> dict[int, Subscription]:
        return {number: each.subscription for number, each in self._held.items()}

    def _changed(self, wanted: dict[int, Subscription]) -> DurableInterest:
        spaces: dict[Space, list[Subscription]] = {}
        for _, each in sorted(wanted.items()):
            spaces.setdefault(each.space, []).append(each)
        batches = tuple(SubscriptionBatch.of(each) for each in spaces.values())
        version = max(self.version, before_life(self._incarnation)) + 1
        interest = DurableInterest(self.broker, self._incarnation, version, batches)
        self.hold(interest)
        return interest

    def hold(self, interest: DurableInterest) -> None:
        """These are the subscriptions from now on. One that stays keeps its numbers, also if it asks for something else."""
        self.version = interest.version
        wanted = {each.id: each for batch in interest.subscriptions for each in batch}
        for number in [each for each in self._held if each not in wanted]:
            del self._held[number]
        for number, each in wanted.items():
            if number in self._held:
                self._held[number].subscription = each
            else:
                self._held[number] = Subscribed(each, interest.version)

    # --- origins

    def take(self, origin: str, custody: Custody, now: float) -> list[Effect]:
        check_rows(custody)
        # The base is above what was taken when the origin has dropped what lies below: it has forgotten this broker in between,
        # or this broker had it, and its folder was brought back from an older copy.
        have = self.have[origin] = max(self.have.get(origin, 0), custody.base)
        if not self.continues(custody, have):
            return [SendTo(origin, Have(0, self.synced.get(origin, 0)))]
        wanted, missed = (self._are_for(each, custody.version) for each in (custody.ids, custody.missed))
        rows, ids = custody.rows[wanted], custody.ids[wanted]
        taken = Taken(origin, custody.position, rows, ids, custody.publish, custody.missed[missed])
        numbered = self._number(taken)
        return self._log.write(taken, lambda then: self._safe(taken, numbered, then))

    def continues(self, custody: Custody, have: int) -> bool:
        return custody.after <= have < custody.position

    def _are_for(self, ids: Ints, version: int) -> npt.NDArray[np.bool_]:
        """Which of these subscriptions are here, and were when this version was told."""
        known, each = np.unique(ids, return_inverse=True)
        found = [(held := self._held.get(number)) is not None and held.began <= version for number in known.tolist()]
        return np.array(found, bool)[each]

    def _number(self, taken: Taken) -> list[tuple[Subscribed, int, EventBatch | None]]:
        """The subscriptions that get something of it, the first number and the events of each.

        What an origin had to drop has numbers too, and no events: then it is the last number.
        """
        assert taken.publish is not None
        self.have[taken.origin] = taken.position
        found: list[tuple[Subscribed, int, EventBatch | None]] = []
        for number, count in zip(*(each.tolist() for each in np.unique(taken.missed, return_counts=True)), strict=True):
            held = self._held[number]
            held.numbered += count
            found.append((held, held.numbered, None))
        for number in np.unique(taken.ids).tolist():
            held = self._held[number]
            events = part_of(taken.publish.events, taken.rows[taken.ids == number])
            found.append((held, held.numbered + 1, events))
            held.numbered += len(events)
        return found

    def _safe(self, taken: Taken, numbered: list[tuple[Subscribed, int, EventBatch | None]], now: float) -> list[Effect]:
        self.synced[taken.origin] = taken.position
        effects: list[Effect] = [SendTo(taken.origin, Have(0, taken.position))]
        for held, first, events in numbered:
            held.take(first, events, now)
            effects += held.hand_over()
            if held.nbytes > self.keeping.most_bytes:
                effects += self._keep_less(held, now)
        return effects

    # --- limits

    def _keep_less(self, held: Subscribed, now: float) -> list[Effect]:
        upto = held.exceeding(self.keeping, now)
        if not upto or held.subscription.id not in self._held:
            return []

        def then(_: float) -> list[Effect]:
            held.drop(upto)
            return held.hand_over()

        return self._log.write(Dropped(held.subscription.id, upto), then)

    def grow_old(self, now: float) -> list[Effect]:
        return [effect for held in self._held.values() for effect in self._keep_less(held, now)]

    # --- in force where?

    def heard_in_force(self, origin: str, told: InForce) -> DurableInterest | None:
        """The interests, to be told again, if the origin has a later version of them than this log: it is an older copy."""
        if self.version < told.version < BELIEVED:
            self.version = told.version
            return self._changed(self._subscriptions())
        if told.version:
            self.have.setdefault(origin, told.base)
            before, _ = self.in_force.get(origin, (0, 0))
            if told.version > before:
                self.in_force[origin] = (told.version, told.last)
                self._patience.answered()
        return None

    def lacking(self, version: int | None = None) -> list[str]:
        """The brokers that have not said that they filter by this version, or by the present one."""
        wanted = self.version if version is None else version
        return [each for each in self._brokers() if self.in_force.get(each, (0, 0))[0] < wanted]

    def safe(self, version: int) -> None:
        """This version is on disk."""
        self._synced_version = max(self._synced_version, version)

    def holding(self) -> list[Effect]:
        """Answers to those whose version is on disk, and in force wherever there is a way to."""
        effects: list[Effect] = []
        waiting, self._asked = self._asked, []
        for asked, ids in waiting:
            version = asked or self.version
            lacking = self.lacking(version)
            if version <= self._synced_version and not reached(self._view, lacking):
                there = tuple(each for each in self._brokers() if each not in lacking)
                effects.append(Holds(ids, there, tuple(lacking)))
            else:
                self._asked.append((version, ids))
        return effects

    @property
    def is_asked(self) -> bool:
        return bool(self._asked)

    def subscription(self, number: int) -> Subscription | None:
        held = self._held.get(number)
        return None if held is None else held.subscription

    def place(self, number: int) -> tuple[int, int]:
        """The last number that is acknowledged, and the last that was given to an event."""
        held = self._held.get(number)
        return (0, 0) if held is None else (held.said, held.numbered)

    def kept(self, number: int) -> tuple[int, int]:
        """The first and the last number that can be handed over now."""
        return self._held[number].kept()

    @property
    def count(self) -> int:
        return len(self._held)

    def ids(self) -> list[int]:
        return sorted(self._held)

    def numbers_of(self, event: int) -> list[tuple[int, int, bool]]:
        """The subscriptions for which an event waits: id, the event's number, and whether it was handed to a client."""
        return [
            (number, batch.first + int(row), held.present and batch.first + int(row) <= held.given)
            for number, held in sorted(self._held.items())
            for batch in held.batches()
            for row in np.flatnonzero(batch.events.ids.to_numpy() == event)
            if batch.first + int(row) > held.said
        ]

    def ask_later(self, now: float) -> list[Effect]:
        """While somebody is lacking he is asked now and then: what he was told, or his answer, may be lost."""
        lacking = self.lacking()
        return [*self._patience.wait(now, bool(reached(self._view, lacking)))] if lacking else []

    def ask(self, now: float) -> list[Effect]:
        self._patience.fired()
        asked: list[Effect] = [SendTo(each, Have(0, self.synced.get(each, 0), asks=True)) for each in self.lacking()]
        return [*asked, *self.ask_later(now)]

    # --- clients

    def resume(self, resumed: Resumed) -> list[Effect]:
        held = self._held.get(resumed.subscription)
        if held is None:
            return []
        return held.resume(resumed.after, resumed.upto)

    def allow(self, allowed: Allowed) -> list[Effect]:
        held = self._held.get(allowed.subscription)
        if held is None:
            return []
        held.allowed = max(held.allowed, allowed.upto)
        return held.hand_over()

    def suspend(self, subscription: int) -> None:
        held = self._held.get(subscription)
        if held is not None:
            held.present = False

    def acknowledge(self, acknowledged: Acknowledged) -> list[Effect]:
        """It is dropped when the acknowledgement is on disk, so that no life forgets that it had it."""
        held = self._held.get(acknowledged.subscription)
        if held is None or not held.said < acknowledged.upto <= held.numbered:
            return []
        held.said = acknowledged.upto

        def then(now: float) -> list[Effect]:
            held.acknowledge(acknowledged.upto)
            return []

        return self._log.write(Have(acknowledged.subscription, acknowledged.upto), then)

    # --- another life

    def restore(self, record: Taken | Have | Dropped | Waiting | Tables, now: float) -> None:
        match record:
            case Have(subscription, upto):
                if subscription in self._held:
                    self._held[subscription].acknowledge(upto)
            case Dropped(subscription, upto):
                if subscription in self._held:
                    self._held[subscription].drop(upto)
            case Taken():
                check_rows(record)
                self.synced[record.origin] = record.position
                for held, first, events in self._number(record):
                    held.take(first, events, now)
            case Waiting(subscription, first, publish):
                assert publish is not None
                self._held[subscription].add(Batch(first, publish.events, now))
            case Tables():
                self.have, self.synced = dict(record.have), dict(record.have)
                for number, (began, numbered, acknowledged) in record.held.items():
                    held = self._held[number]
                    held.began, held.numbered, held.safe = began, numbered, numbered
                    held.acknowledge(acknowledged)

    def waiting(self) -> Iterator[Waiting]:
        """For a checkpoint: what waits, in the order of the numbers of each subscription."""
        for number, held in sorted(self._held.items()):
            for batch in held.batches():
                yield Waiting(number, batch.first, Publish(self.broker, 1, 0, batch.events))

    def table(self) -> dict[int, tuple[int, int, int]]:
        return {number: (held.began, held.numbered, held.acknowledged) for number, held in sorted(self._held.items())}

    @property
    def nbytes(self) -> int:
        return sum(held.nbytes for held in self._held.values())

    # --- looking inside

    def sizes(self) -> dict[str, int]:
        return {"durable subscriptions": len(self._held), "waiting": sum(each.waiting for each in self._held.values())}

    def state(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "have": dict(sorted(self.have.items())),
            "in force": {origin: {"version": v, "after": n} for origin, (v, n) in sorted(self.in_force.items())},
            "lacking": self.lacking(),
            "subscriptions": {
                number: {
                    "subscriber": each.subscription.subscriber,
                    "numbered": each.numbered,
                    "acknowledged": each.acknowledged,
                    "present": each.present,
                }
                for number, each in sorted(self._held.items())
            },
        }
