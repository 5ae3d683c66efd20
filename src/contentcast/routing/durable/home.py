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

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from contentcast.model import EventBatch, Space, Subscription, SubscriptionBatch
from contentcast.routing.contract import Acknowledged, Allowed, DeliverDurably, Effect, Holds, Resumed, SendTo, Timer
from contentcast.routing.durable.log import Log
from contentcast.routing.durable.patience import Patience, reached
from contentcast.routing.parts.network_view import NetworkView
from contentcast.wire.durable import Custody, DurableInterest, Have, InForce, Taken, check_rows

ASK: Final = Timer("durable ask")


@dataclass(slots=True)
class Subscribed:
    """One durable subscription: its events from the first that was not acknowledged."""

    subscription: Subscription
    began: int
    """The version of the interests with which it began; what older versions asked for is not for it."""
    numbered: int = 0
    acknowledged: int = 0
    said: int = 0
    """The last number that its client has acknowledged, which may not be on disk yet."""
    handed: deque[tuple[int, EventBatch]] = field(default_factory=deque)
    """Batches that were handed to the client that is here, each with the number of its first event."""
    ahead: deque[tuple[int, EventBatch]] = field(default_factory=deque)
    """Batches that are on disk and were not handed over."""
    present: bool = False
    given: int = 0
    """The last number handed over since the client is here."""
    allowed: int = 0

    def resume(self, after: int, upto: int) -> list[Effect]:
        self.present, self.allowed = True, upto
        self.given = max(after, self.said)
        self.ahead.extendleft(reversed(self.handed))
        self.handed.clear()
        return self.hand_over()

    def hand_over(self) -> list[Effect]:
        effects: list[Effect] = []
        while self.present and self.ahead and self.ahead[0][0] <= self.allowed:
            first, events = self.ahead.popleft()
            self.handed.append((first, events))
            end = first + len(events)
            if end - 1 > self.given:
                skipped = max(0, self.given + 1 - first)
                rest = events.slice(skipped) if skipped else events
                first += skipped
                missed = first - self.given - 1
                effects.append(DeliverDurably(self.subscription.id, self.subscription.subscriber, first, rest, missed))
                self.given = end - 1
        return effects

    def acknowledge(self, upto: int) -> None:
        self.acknowledged = max(self.acknowledged, upto)
        self.said = max(self.said, upto)
        for batches in (self.handed, self.ahead):
            while batches and batches[0][0] + len(batches[0][1]) - 1 <= self.acknowledged:
                batches.popleft()
            if batches:
                return

    @property
    def waiting(self) -> int:
        """Events that are on disk and not acknowledged, up to the batch that the last acknowledgement lies in."""
        return sum(len(events) for batches in (self.handed, self.ahead) for _, events in batches)


class Home:
    """`brokers` gives the names of all brokers that were heard of: each may be an origin."""

    def __init__(self, broker: str, incarnation: int, view: NetworkView, log: Log, brokers: Callable[[], list[str]]) -> None:
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
        interest = DurableInterest(self.broker, self._incarnation, self.version + 1, batches)
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
        have = self.have.setdefault(origin, custody.base)
        if not self.continues(custody, have):
            return [SendTo(origin, Have(0, self.synced.get(origin, 0)))]
        wanted = np.array([self._is_for(each, custody.version) for each in custody.ids.tolist()], bool)
        taken = Taken(origin, custody.position, custody.rows[wanted], custody.ids[wanted], custody.publish)
        numbered = self._number(taken)
        return self._log.write(taken, lambda then: self._safe(taken, numbered))

    def continues(self, custody: Custody, have: int) -> bool:
        return custody.after <= have < custody.position

    def _is_for(self, number: int, version: int) -> bool:
        held = self._held.get(number)
        return held is not None and held.began <= version

    def _number(self, taken: Taken) -> list[tuple[Subscribed, int, EventBatch]]:
        """The subscriptions that get something of it, the first number and the events of each."""
        assert taken.publish is not None
        self.have[taken.origin] = taken.position
        found: list[tuple[Subscribed, int, EventBatch]] = []
        for number in np.unique(taken.ids).tolist():
            held = self._held[number]
            events = taken.publish.events.take(taken.rows[taken.ids == number])
            found.append((held, held.numbered + 1, events))
            held.numbered += len(events)
        return found

    def _safe(self, taken: Taken, numbered: list[tuple[Subscribed, int, EventBatch]]) -> list[Effect]:
        self.synced[taken.origin] = taken.position
        effects: list[Effect] = [SendTo(taken.origin, Have(0, taken.position))]
        for held, first, events in numbered:
            held.ahead.append((first, events))
            effects += held.hand_over()
        return effects

    # --- in force where?

    def heard_in_force(self, origin: str, told: InForce) -> None:
        if told.version:
            self.have.setdefault(origin, told.base)
            before, _ = self.in_force.get(origin, (0, 0))
            if told.version > before:
                self.in_force[origin] = (told.version, told.last)
                self._patience.answered()

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
                effects.append(Holds(ids, tuple(lacking)))
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

    @property
    def count(self) -> int:
        return len(self._held)

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

    def restore(self, record: Taken | Have) -> None:
        if isinstance(record, Have):
            if record.subscription in self._held:
                self._held[record.subscription].acknowledge(record.upto)
            return
        check_rows(record)
        self._safe(record, self._number(record))

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
