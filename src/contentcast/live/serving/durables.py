"""The durable subscriptions of clients: who is here for which one, what it is handed, and who waits to hear that it holds.

    Subscribe "desk-7"     DurablySubscribed, Resumed     Done when it holds at every broker that can be reached (`Holds`)
    DeliverDurably                                        DurableDelivery, as fast as the client reads
    Acknowledge            Acknowledged
    the client goes        Suspended                      what is for it waits on disk

A durable subscription belongs to the identity that made it and to the broker where it was made. One client at a time is there
for it: one that comes later takes its place, and the earlier one is told.
Rule: what was not acknowledged can be handed over again, so a queue that is full costs nothing but time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from contentcast.language import print_predicate
from contentcast.live.errors import LiveError
from contentcast.live.looking.witness import Witness
from contentcast.live.serving.numbering import durable_id, owned
from contentcast.live.serving.sessions import Session, Standing
from contentcast.live.settings.limits import LimitError, Limits
from contentcast.model import ContentcastError, Subscription, SubscriptionBatch
from contentcast.routing.contract import (
    Acknowledged,
    Allowed,
    DeliverDurably,
    DurablySubscribed,
    DurablyUnsubscribed,
    Holds,
    Input,
    Resumed,
    Suspended,
)
from contentcast.routing.durable import Durable
from contentcast.wire import frame
from contentcast.wire.client import Done, Failed, encode_durable_delivery

WINDOW_EVENTS: Final = 20_000
"""How far a client is handed events ahead of what its connection has taken."""

_DURABLE_DELIVERY: Final = bytes([80])


class Host(Protocol):
    name: str

    def handle(self, input: Input) -> None: ...

    def put(self, input: Input) -> None: ...

    @property
    def durable(self) -> Durable | None: ...

    def where(self, broker: str) -> str:
        """The addresses of a broker, for a message."""
        ...


@dataclass(eq=False)
class Present:
    """A client that is here for a durable subscription."""

    session: Session
    number: int
    name: str
    sent: int
    allowed: int
    held_back: bool = False
    """The connection is full: what comes meanwhile is handed over again later."""


class Durables:
    def __init__(self, host: Host, limits: Limits, witness: Witness) -> None:
        self.limits = limits
        self._witness = witness
        self._host = host
        self._present: dict[int, Present] = {}
        self._asked: dict[tuple[int, ...], deque[tuple[Session, int, dict[str, Any]]]] = {}
        self.events = 0
        """Events handed to durable subscribers."""

    def _durable(self, name: str) -> Durable:
        found = self._host.durable
        if found is None:
            raise LiveError(
                f"broker {self._host.name} keeps nothing on disk, so there is no durable subscription {name!r}; start it with "
                "--data FOLDER and a protocol that is durable",
                "no-data",
            )
        return found

    # --- subscribing

    def subscribe(
        self, session: Session, request: int, number: int, name: str, after: int, wanted: Subscription, narrowed: dict[int, str]
    ) -> None:
        """`wanted` has the id and the subscriber that `identify` gave."""
        router = self._durable(name)
        self._check(router, name, wanted)
        id = wanted.id
        acknowledged, numbered = router.home.place(id)
        if after > numbered:
            raise ContentcastError(
                f"the client has {after} events of the durable subscription {name!r}, and broker {self._host.name} has given "
                f"{numbered}; its data folder is not the one that the client knows"
            )
        there = self._present.get(id)
        if there is not None and there.session is not session:
            told = f"{session.name} has taken the durable subscription {name!r} of {there.session.name}"
            there.session.connection.send(Failed(0, "taken-over", told, text=name))
            self._leave(id)
        self._wait_for((id,), session, request, {"ids": [id], "narrowed": narrowed, "after": acknowledged})
        self._host.handle(DurablySubscribed(SubscriptionBatch.of(wanted)))
        begin = acknowledged if after < 0 else max(after, acknowledged)
        present = Present(session, number, name, begin, begin + WINDOW_EVENTS)
        self._present[id] = present
        session.subscriptions[number] = Standing(
            session, number, id, wanted.space, print_predicate(wanted.predicate), bool(narrowed), name, self._witness.clock()
        )
        session.connection.on_drained = self._drained
        self._host.handle(Resumed(id, begin, present.allowed))

    def identify(self, session: Session, name: str) -> tuple[int, str]:
        """The id of a durable subscription, and its name in the network."""
        whole = owned(session.identity, name)
        return durable_id(self._host.name, whole), whole

    def _check(self, router: Durable, name: str, wanted: Subscription) -> None:
        known = router.home.subscription(wanted.id)
        if known is None:
            if router.home.count >= self.limits.durable_subscriptions:
                raise LimitError("durable_subscriptions", f"broker {self._host.name} keeps all that it may, and not {name!r}")
            for home, interest in router.interests.known.items():
                if home != self._host.name and any(wanted.subscriber in batch.subscribers for batch in interest.subscriptions):
                    at = self._host.where(home)
                    raise ContentcastError(f"the durable subscription {name!r} is kept by broker {home}; connect to {at}")
        elif known.space.name != wanted.space.name:
            raise ContentcastError(
                f"the durable subscription {name!r} is of the space {known.space.name}, not of {wanted.space.name}; take "
                "another name, or end it first"
            )

    def place(self, session: Session, name: str, acknowledge: int) -> dict[str, Any]:
        """Where a durable subscription stands, for one who need not be there for it; it may acknowledge as well."""
        home = self._durable(name).home
        id, _ = self.identify(session, name)
        known = home.subscription(id)
        if known is None:
            raise LiveError(f"broker {self._host.name} keeps no durable subscription {name!r}; subscribe first", "no-durable")
        if acknowledge:
            self._host.handle(Acknowledged(id, acknowledge))
        (acknowledged, numbered), (first, last) = home.place(id), home.kept(id)
        return {
            "space": known.space.name,
            "predicate": print_predicate(known.predicate),
            "acknowledged": acknowledged,
            "numbered": numbered,
            "first": first,
            "last": last,
        }

    def _wait_for(self, ids: tuple[int, ...], session: Session, request: int, document: dict[str, Any]) -> None:
        self._asked.setdefault(ids, deque()).append((session, request, document))

    def holds(self, effect: Holds) -> None:
        waiting = self._asked.get(effect.subscriptions)
        if not waiting:
            return
        session, request, document = waiting.popleft()
        if not waiting:
            del self._asked[effect.subscriptions]
        session.connection.send(Done(request, {**document, "holds_at": list(effect.brokers), "lacking": list(effect.lacking)}))

    # --- going

    def lost(self, session: Session) -> None:
        """The client is gone; what is for it waits."""
        for id in [each for each, present in self._present.items() if present.session is session]:
            self._leave(id)

    def end_presence(self, id: int, code: str, reason: str) -> None:
        """Its client, if it is there, may no longer be there for it."""
        present = self._present.get(id)
        if present is not None:
            present.session.connection.send(Failed(0, code, reason, text=present.name))
            self._leave(id)

    def narrow(self, id: int, code: str, text: str) -> None:
        """It asks for less from now on."""
        present = self._present.get(id)
        if present is not None:
            standing = present.session.subscriptions[present.number]
            present.session.subscriptions[present.number] = replace(standing, text=text, narrowed=True)
            reason = f"the rights have changed: the durable subscription {present.name!r} is narrowed to {text}"
            present.session.connection.send(Failed(0, code, reason))

    def _leave(self, id: int) -> None:
        present = self._present.pop(id)
        present.session.subscriptions.pop(present.number, None)
        self._host.handle(Suspended(id))

    def leave(self, session: Session, numbers: tuple[int, ...]) -> int:
        mine = [each.id for number in numbers if (each := session.subscriptions.get(number)) is not None and each.durable]
        for id in mine:
            self._leave(id)
        return len(mine)

    def end(self, session: Session, request: int, ids: list[int], names: tuple[str, ...]) -> bool:
        """Durable subscriptions end, with all that waits for them; answered when that is on disk. False: there are none."""
        for name in names:
            self._durable(name)
        ending = tuple(dict.fromkeys([*ids, *(self.identify(session, name)[0] for name in names)]))
        if not ending:
            return False
        for id in ending:
            if id in self._present:
                self._leave(id)
        self._wait_for(ending, session, request, {"withdrawn": len(ending)})
        self._host.handle(DurablyUnsubscribed(ending))
        return True

    # --- handing over

    def deliver(self, effect: DeliverDurably) -> None:
        present = self._present.get(effect.subscription)
        if present is None or present.held_back:
            return
        connection = present.session.connection
        if connection.queued > self.limits.client_queue_bytes:
            present.held_back = True
            return
        connection.name_spaces([effect.events.space])
        payload = encode_durable_delivery(present.number, effect.first, effect.missed, effect.events)
        connection.send_frame(frame(_DURABLE_DELIVERY + payload))
        self._witness.handed_durably(effect, connection)
        count = len(effect.events)
        self.events += count
        present.session.delivered += count
        present.session.missed += effect.missed
        present.sent = effect.first + count - 1
        if not connection.is_full:
            self._allow(effect.subscription, present)

    def _allow(self, id: int, present: Present) -> None:
        if present.allowed - present.sent <= WINDOW_EVENTS // 2:
            present.allowed = present.sent + WINDOW_EVENTS
            self._host.put(Allowed(id, present.allowed))

    def _drained(self, connection: object) -> None:
        """The client has read what waited for it."""
        for id, present in self._present.items():
            if present.session.connection is not connection:
                continue
            if present.held_back:
                present.held_back = False
                present.allowed = present.sent + WINDOW_EVENTS
                self._host.put(Resumed(id, present.sent, present.allowed))
            else:
                self._allow(id, present)

    def acknowledge(self, session: Session, numbers: tuple[int, ...], upto: tuple[int, ...]) -> None:
        for number, last in zip(numbers, upto, strict=False):
            standing = session.subscriptions.get(number)
            if standing is not None and standing.durable:
                self._host.handle(Acknowledged(standing.id, last))
