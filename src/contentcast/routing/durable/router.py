"""Any router of brokers, with durable delivery around it: what is accepted reaches every durable subscription exactly once.

A router around a router. Publications without a publisher's name and subscriptions that are not durable go to the inside as
before. A durable publication is accepted (`origin`), and the inside routes it for everybody else once it is on disk. Durable
subscribers are the matter of `home`. Every broker is both, and sends to itself without a message.

    p -> a    Published(events, "p", 7)     a: Kept in the log, synced: Accepted("p", 7, position 12)
    a -> c    Custody (9, 12]               c: Taken in the log, synced: DeliverDurably, numbers 31 and 32 of subscription 5
    c -> a    Have 12                       a drops 12 when all homes have it

Brokers tell each other their durable interests over the topic `durable interests`. `docs/internals/durable.md` says why all
this holds.
Rule: the inside knows nothing of it; this router is the only one that writes to the log.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Any, Final, Protocol

from contentcast.model import ContentcastError, EventBatch, SpaceError
from contentcast.model.errors import nearest
from contentcast.routing.contract import (
    Acknowledged,
    Allowed,
    Declared,
    DurablySubscribed,
    DurablyUnsubscribed,
    Effect,
    Forgotten,
    Input,
    LinkLost,
    LinkUp,
    Published,
    Received,
    Resumed,
    Router,
    SendTo,
    SetTimer,
    Sizes,
    Started,
    Suspended,
    Synced,
    Timer,
    TimerFired,
)
from contentcast.routing.durable.home import ASK, Home
from contentcast.routing.durable.keeping import Keeping
from contentcast.routing.durable.log import Log
from contentcast.routing.durable.origin import RESEND, Origin
from contentcast.routing.durable.patience import reached
from contentcast.routing.parts.network_view import NetworkView
from contentcast.routing.parts.spaces import SpaceRegister
from contentcast.routing.parts.versions import Versions
from contentcast.routing.setup import Setup
from contentcast.wire import DeclaredSpaces, Mark, Message, Told
from contentcast.wire.checkpoints import Dropped, Owed, Stripped, Tables, Waiting
from contentcast.wire.durable import GONE, Custody, DurableInterest, Have, InForce, Kept, Taken
from contentcast.wire.fields import WireError

FAMILY: Final = (Custody, Have, InForce)
AGE: Final = Timer("durable age")
AGE_PARTS: Final = 10
"""How often within the longest age it is looked for what is too old."""


class Knowing(Router, Protocol):
    """A router made on `routing.skeleton`."""

    versions: Versions
    view: NetworkView
    spaces: SpaceRegister


class DurableInterests:
    """The topic: the durable subscriptions of every broker, as far as heard. `fresh` is what the origin has not seen yet."""

    topic = DurableInterest.topic

    def __init__(self) -> None:
        self.known: dict[str, DurableInterest] = {}
        self.fresh: list[DurableInterest] = []

    def hear(self, told: DurableInterest) -> None:
        self.known[told.origin] = told
        self.fresh.append(told)

    def forget(self, origin: str) -> None:
        """A durable subscription outlives its broker's life."""

    def tell(self, origin: str, mark: Mark, since: int) -> DurableInterest:
        return self.known[origin]


class Durable:
    def __init__(self, router: Knowing, setup: Setup, keeping: Keeping | None = None) -> None:
        self.broker = router.broker
        self.router = router
        self.keeping = keeping or Keeping()
        self.log = Log(router.broker)
        self.home = Home(router.broker, setup.incarnation, router.view, self.log, self._brokers, self.keeping)
        self.origin = Origin(
            router.broker,
            setup.incarnation,
            router.view,
            router.spaces,
            self.log,
            self._route,
            self.keeping,
            count_steps=setup.count_steps,
        )
        self._held_back: deque[Input] | None = None
        """What would write while the log is about to be trimmed, and what follows it; None: it is not."""
        self._ahead: dict[str, int] = {}
        """The highest number of each publisher that is held back."""
        self._trim_at = self.keeping.trim_bytes
        """The log is looked at again when it has so many bytes since its last checkpoint."""
        self.gone: dict[str, int] = {}
        """Brokers that were forgotten, and the last life that is meant."""
        self.interests = DurableInterests()
        router.versions.take(self.interests)

    def keep(self, keeping: Keeping) -> None:
        """From now on these limits hold."""
        self.keeping = self.origin.keeping = self.home.keeping = keeping
        self._trim_at = min(self._trim_at, keeping.trim_bytes)

    def handle(self, input: Input, now: float) -> list[Effect]:
        if self._held_back is not None and _waits(input):
            if isinstance(input, Published):
                self._check(input)
            self._held_back.append(input)
            return []
        effects = self._handle(input, now)
        if self._held_back is not None or self.log.bytes > self._trim_at:
            effects = [*effects, *self._trim(now)]
        return [*effects, *self.home.holding()] if self.home.is_asked else effects

    def _check(self, published: Published) -> None:
        """What will be refused is refused now, while its publisher can be told."""
        publisher, number = published.publisher, published.number
        ahead = self._ahead.get(publisher, 0)
        if number > ahead or (publisher, number) not in {_number(each) for each in self._held_back or ()}:
            self.origin.check(publisher, number, ahead)
        self._ahead[publisher] = max(ahead, number)

    def _handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Started(restored, trimmed):
                return [*self._delivered_here(self._start(restored, trimmed, now), now), *self._grow_old_later(now)]
            case Synced(upto):
                return self._delivered_here([*self.log.synced(upto, now), *self.router.handle(input, now)], now)
            case Published() if input.publisher:
                return self.origin.accept(input, now)
            case DurablySubscribed(subscriptions):
                return self._write(self.home.subscribe(subscriptions))
            case DurablyUnsubscribed(ids):
                return self._write(self.home.unsubscribe(ids))
            case Resumed():
                return self.home.resume(input)
            case Allowed():
                return self.home.allow(input)
            case Declared(space):
                return [*self.router.handle(input, now), *self.log.declare(space)]
            case Suspended(subscription):
                self.home.suspend(subscription)
                return []
            case Acknowledged():
                return self.home.acknowledge(input)
            case Received(sender, message) if isinstance(message, FAMILY):
                return self._delivered_here(self._hear(sender, message, now), now)
            case TimerFired(Timer(part, home)) if part == RESEND:
                return self._delivered_here(self.origin.fired(home, now), now)
            case TimerFired(timer) if timer == AGE:
                return [*self.origin.grow_old(now), *self.home.grow_old(now), *self._grow_old_later(now)]
            case TimerFired(timer) if timer == ASK:
                return self._delivered_here(self.home.ask(now), now)
            case Forgotten(broker):
                return self._forget(broker, now)
            case Received(_, Told()) | LinkUp() | LinkLost():
                # What was heard is written when the log is trimmed, if it is about to be.
                return [*self.router.handle(input, now), *(self._learn(now) if self._held_back is None else [])]
            case _:
                return self.router.handle(input, now)

    def _hear(self, sender: str, message: Message, now: float) -> list[Effect]:
        match message:
            case Custody():
                return self.home.take(sender, message, now)
            case Have():
                return self.origin.heard_have(sender, message, now)
            case InForce():
                return self._write(self.home.heard_in_force(sender, message))
        return []

    def _delivered_here(self, effects: list[Effect], now: float) -> list[Effect]:
        """What this broker's origin sends to its own home, and back, is handled at once."""
        found: list[Effect] = []
        for effect in effects:
            if isinstance(effect, SendTo) and effect.broker == self.broker:
                found += self._delivered_here(self._hear(self.broker, effect.message, now), now)
            else:
                found.append(effect)
        return found

    def _learn(self, now: float) -> list[Effect]:
        """The view of the network or somebody's interests may have changed."""
        effects: list[Effect] = []
        fresh, self.interests.fresh = self.interests.fresh, []
        for told in fresh:
            self._note_gone(told)
            effects += self.origin.hear(told, now)
        return [*effects, *self.origin.network_changed(now), *self.home.ask_later(now)]

    def _route(self, events: EventBatch, now: float) -> list[Effect]:
        return self.router.handle(Published(events), now)

    def _brokers(self) -> list[str]:
        """Also those of an earlier life that were not heard of in this one."""
        known = {*self.router.versions.marks(), *self.origin.homes, *self.home.have}
        return sorted(each for each in known if self.router.versions.mark(each).incarnation > self.gone.get(each, -1))

    # --- brokers that are gone for ever

    def _forget(self, broker: str, now: float) -> list[Effect]:
        """Told on like news of that broker itself, so that those who are down hear of it when they are back."""
        if broker == self.broker:
            raise ContentcastError(f"broker {broker} cannot forget itself")
        if broker not in self._brokers():
            raise ContentcastError(f"broker {self.broker} knows no broker {broker!r}{nearest(broker, self._brokers())}")
        if reached(self.router.view, [broker]):
            raise ContentcastError(f"broker {broker} is there; one that is to be forgotten must be stopped first")
        versions = self.router.versions
        told = DurableInterest(broker, max(1, versions.mark(broker).incarnation), GONE)
        versions.preset(broker, told.topic, told.incarnation, GONE)
        self.interests.known[broker] = told
        self._note_gone(told)
        return [*self.origin.hear(told, now), *versions.tell(told)]

    def _note_gone(self, told: DurableInterest) -> None:
        if told.version == GONE:
            self.gone[told.origin] = told.incarnation
        else:
            self.gone.pop(told.origin, None)

    # --- this broker's interests

    def _write(self, interest: DurableInterest | None) -> list[Effect]:
        """One record for both parts: this broker's own interests are in force here from their place in the log."""
        if interest is None:
            return []
        self.origin.force(interest)
        return self.log.write(interest, lambda then: self._tell(interest, then))

    def _tell(self, interest: DurableInterest, now: float) -> list[Effect]:
        versions = self.router.versions
        self.interests.known[self.broker] = interest
        self.home.safe(interest.version)
        versions.preset(self.broker, interest.topic, versions.incarnation, interest.version)
        told: list[Effect] = versions.tell(interest)
        return [*told, *self.origin.forced(interest, now), *self.home.ask_later(now)]

    # --- limits and trimming

    def _grow_old_later(self, now: float) -> list[Effect]:
        age_s = self.keeping.most_age_s
        return [SetTimer(AGE, now + age_s / AGE_PARTS, background=True)] if age_s else []

    def _trim(self, now: float) -> list[Effect]:
        """When nothing is on its way to the disk, the state is what the log says: then it is written down as a whole.

        Until then, what would write waits. That takes as long as a few syncs.
        """
        if self._held_back is None:
            self._trim_at = self.keeping.trim_bytes + 2 * (self.origin.nbytes + self.home.nbytes)
            if self.log.bytes <= self._trim_at:
                return []
            self._held_back = deque()
        if self.log.waiting:
            return []
        held_back, self._held_back = self._held_back, None
        self._ahead.clear()
        publishers, homes, gaps = self.origin.tables()
        have = dict(sorted(self.home.synced.items()))
        tables = Tables(self.origin.last, publishers, homes, have, self.home.table(), gaps)
        state = (*self.origin.interests(), tables, *self.origin.owed(), *self.home.waiting())
        effects = [*self.log.checkpoint(state), *self._learn(now)]
        self._trim_at = self.log.bytes + self.keeping.trim_bytes
        for input in held_back:
            with suppress(ContentcastError):  # a message that makes no sense is as good as lost
                effects += self._handle(input, now)
        return effects

    # --- another life

    def _start(self, restored: tuple[bytes, ...], trimmed: int, now: float) -> list[Effect]:
        effects = self.router.handle(Started(), now)
        mine: DurableInterest | None = None
        for number, record in enumerate(self.log.restore(restored, trimmed), 1):
            match record:
                case DurableInterest():
                    self._note_gone(record)
                    self.origin.force(record)
                    if record.origin == self.broker:
                        self.home.hold(record)
                        mine = record
                case DeclaredSpaces(spaces=spaces):
                    for space in spaces:
                        with suppress(SpaceError):  # an older version that the network could not keep
                            effects += self.router.handle(Declared(space), now)
                case Tables():
                    self.origin.restore(record, now)
                    self.home.restore(record, now)
                case Kept() | Stripped() | Owed():
                    self.origin.restore(record, now)
                case Taken() | Have() | Dropped() | Waiting():
                    self.home.restore(record, now)
                case _:
                    raise WireError(f"broker {self.broker}: record {number} of its log is a {type(record).__name__}")
        if mine is not None:
            incarnation = self.router.versions.incarnation
            again = DurableInterest(self.broker, incarnation, mine.version, mine.subscriptions)
            effects += self._tell(again, now)
        return [*effects, *self.origin.started(now)]

    # --- looking inside

    def sizes(self) -> Sizes:
        return {**self.router.sizes(), **self.origin.sizes(), **self.home.sizes()}

    def state(self) -> dict[str, Any]:
        log = {"records": self.log.written, "unsynced": self.log.waiting, "bytes since checkpoint": self.log.bytes}
        return {**self.router.state(), "durable": {"origin": self.origin.state(), "home": self.home.state(), "log": log}}


def _number(input: Input) -> tuple[str, int] | None:
    return (input.publisher, input.number) if isinstance(input, Published) else None


def _waits(input: Input) -> bool:
    """Until the log is trimmed."""
    match input:
        case Published():
            return bool(input.publisher)
        case DurablySubscribed() | DurablyUnsubscribed() | Acknowledged() | Forgotten():
            return True
        case Resumed() | Suspended() | Allowed():  # they write nothing, and follow the subscription that they are about
            return True
        case Received(_, message):
            return isinstance(message, FAMILY)
        case TimerFired(timer):
            return timer.part == RESEND or timer == AGE
    return False
