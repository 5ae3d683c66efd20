"""The client that has no broker: SIENA's five verbs on a LAN.

    async with connect_lan("lan://239.192.10.0:6666", spaces=[trades]) as client:
        await client.subscribe("trades", "price < 120", deliver=print)
        await client.publish("trades", {"issue": "IBM", "price": 119.5})

Source: Eide et al. 2003, table 1. Clients of one process on the same LAN share one server, so that an event between them is a
call. Single events are gathered until the loop turns, or until there are MOST_GATHERED, and enter the router as one batch.
Each is checked before it is gathered, so that the call that made a mistake raises, and the others go out.
Rule: events of one client enter in the order in which they were published.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import numpy as np
import pyarrow as pa

from contentcast.language import parse_predicate
from contentcast.live.client.publishing import Receipt
from contentcast.live.client.subscribing import UNREAD, Batches, Events, Subscription
from contentcast.live.lan.durable import DURABLE, Keeper
from contentcast.live.lan.options import LanError
from contentcast.live.lan.server import LanServer
from contentcast.live.lan.subscribing import Call, LanSubscription
from contentcast.model import Advertisement, Constraint, EventBatch, EventError, Space, SubscriptionBatch
from contentcast.model import Subscription as Wanted
from contentcast.model.errors import nearest
from contentcast.model.events.rows import Rejection, RowChecker
from contentcast.routing.contract import Advertised as ToldAdvertised
from contentcast.routing.contract import Published, Received, Subscribed, Unadvertised, Unsubscribed
from contentcast.routing.multicast import MappingSpecification
from contentcast.routing.multicast.agreement import proposal_of
from contentcast.routing.multicast.mapping import BEST_EFFORT, RELIABLE, MappingId

MOST_GATHERED: Final = 512
SPACE_WITHIN_S: Final = 3.0
"""How long a space that nobody here has declared may take to be heard of; servers tell theirs every two seconds."""

REPAIRED_WITHIN_S: Final = 30.0
"""How long a client that closes waits for readers that still ask for what was sent reliably."""

log = logging.getLogger("contentcast.lan")
LanQuality = Literal["best effort", "reliable", "durable"]
QUALITIES: Final = (BEST_EFFORT, RELIABLE, DURABLE)
Taken = LanSubscription | Subscription
"""What `subscribe` gives: a durable one stands at a broker."""


@dataclass(frozen=True, slots=True)
class LanAdvertised:
    number: int
    space: str


class LanClient:
    """Made by `connect_lan`."""

    def __init__(self, server: LanServer, let_go: Callable[[], Awaitable[None]]) -> None:
        self.server = server
        self._let_go = let_go
        self._keeper = Keeper(self)
        self._subscriptions: dict[int, LanSubscription] = {}
        self._gathered: dict[str, list[Mapping[str, Any]]] = {}
        self._checkers: dict[str, RowChecker] = {}
        """For each space of which single events were published."""
        self._flushing = False
        self._closed = False
        self._promises: dict[int, asyncio.Task[None]] = {}
        """By advertisement: who says again and again what was promised."""

    @property
    def name(self) -> str:
        """Of its server, which all clients of this process and address share."""
        return self.server.name

    # --- the five verbs, and declare

    async def declare(self, space: Space) -> Space:
        return self.server.declare(space)

    async def space(self, name: str) -> Space:
        """As it is declared on the LAN; an error if nobody declares it within SPACE_WITHIN_S."""
        return await self._space(name)

    async def spaces(self) -> dict[str, Space]:
        """All that were heard of."""
        return dict(self.server.router.spaces.named())

    async def publish(
        self, space: str | Space, events: Any, *, wait: bool = True, publisher: str = "", number: int = 0
    ) -> Receipt | asyncio.Future[Receipt] | None:
        """A dict, a list of dicts, an `EventBatch`, or Arrow. A dict goes out with others of the same turn of the loop.

        Events under a durable advertisement go to the broker, and the receipt says that they are on its disk; `wait`,
        `publisher` and `number` as for a client of that broker. For all others there is none to accept them: no receipt, and
        nothing to wait for.
        """
        self._check_open()
        name = space if isinstance(space, str) else space.name
        if name in self._keeper.promises:
            accepted = await self._publish_durably(name, events, publisher, number)
            return accepted if accepted is None or not wait else await accepted
        if publisher or number:
            raise LanError(f"a broker numbers what it accepts: advertise({name!r}, ..., quality='durable') before")
        if isinstance(events, Mapping) and name in self._checkers:
            gathered = self._gathered.setdefault(name, [])
            gathered.append(self._checked(name, events))
            if len(gathered) >= MOST_GATHERED:
                self._flush(name)
            elif not self._flushing:
                self._flushing = True
                asyncio.get_running_loop().call_soon(self._flush_all)
            return None
        found = await self._space(space)
        if isinstance(events, Mapping):
            self._checkers[name] = RowChecker(found)
            return await self.publish(name, events)
        self._flush(name)
        self._enter(_as_batch(found, events))
        return None

    async def _publish_durably(self, name: str, events: Any, publisher: str, number: int) -> asyncio.Future[Receipt] | None:
        found = await self._space(name)
        batch = _as_batch(found, [events] if isinstance(events, Mapping) else events)
        self._flush(name)
        rest, accepted = await self._keeper.publish(batch, publisher, number)
        self._enter(rest)
        return accepted

    async def flush(self) -> None:
        """Everything that was published so far has left this process, or is on the broker's disk where that was promised."""
        self._check_open()
        self._flush_all()
        await self._keeper.flush()

    def _checked(self, name: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
        values = self._checkers[name].check(0, event)
        if isinstance(values, Rejection) and (space := self.server.space(name)) not in (None, self._checkers[name].space):
            assert space is not None  # it has more attributes by now
            self._checkers[name] = RowChecker(space)
            values = self._checkers[name].check(0, event)
        if isinstance(values, Rejection):
            raise EventError(str(values))
        return values

    def _flush_all(self) -> None:
        self._flushing = False
        for name in list(self._gathered):
            self._flush(name)

    def _flush(self, name: str) -> None:
        gathered = self._gathered.pop(name, None)
        if gathered:
            found = self.server.space(name)
            assert found is not None  # it was there when the first event was published
            self._enter(EventBatch.from_dicts(found, gathered))

    def relay(self, events: EventBatch) -> None:
        """Events from elsewhere, which keep their ids: what a gateway brings."""
        if len(events):
            self.server.put(Published(events))

    def _enter(self, events: EventBatch) -> None:
        if len(events):
            first = self.server.event_ids(len(events))
            ids = pa.array(np.arange(first, first + len(events), dtype=np.int64))
            self.server.put(Published(EventBatch(events.space, events.records, ids)))

    async def subscribe(
        self,
        space: str | Space,
        predicate: str = "TRUE",
        *,
        deliver: Call | None = None,
        batches: bool = False,
        quality: LanQuality | None = None,
        durable: str = "",
        on_missed: Call | None = None,
        **more: Any,
    ) -> Taken:
        """Every event that matches comes from now on, and from others as soon as they have heard of it.

        `durable`: the name of a subscription that the broker behind the LAN's gateway keeps, also while nobody is there for it;
        `after` and `acknowledge` as for a client of that broker. `on_missed` is called with a `Gap` when something that was
        sent reliably can no longer be had, and for a durable one with a `Missed`.
        """
        if deliver is None and not durable and quality != DURABLE:
            raise LanError(UNREAD)
        return await self._make_subscription(space, predicate, deliver, batches, quality, durable, on_missed, **more)

    async def _make_subscription(
        self,
        space: str | Space,
        predicate: str,
        deliver: Call | None = None,
        batches: bool = False,
        quality: LanQuality | None = None,
        durable: str = "",
        on_missed: Call | None = None,
        **more: Any,
    ) -> Taken:
        self._check_open()
        _check_quality(quality)
        found = await self._space(space)
        parsed = parse_predicate(found, predicate)
        if durable or quality == DURABLE:
            options = {"deliver": deliver, "batches": batches, "on_missed": on_missed, **more}
            return await self._keeper.subscribe(found, predicate, durable, **options)
        for name in more:
            raise LanError(f"only a durable subscription has {name!r}; add durable='NAME'")
        number = self.server.next_number()
        made = LanSubscription(self, number, parsed, deliver, batches, on_missed)
        self._subscriptions[number] = made
        subscriber = f"subscription {number}"
        self.server.hands[subscriber] = made.hand
        self.server.told_gaps[subscriber] = made.miss
        if quality is not None:
            self.server.router.qualities[number] = quality
        self.server.put(Subscribed(SubscriptionBatch.of(Wanted(number, parsed, subscriber))))
        return made

    async def unsubscribe(self, subscription: Taken | str | Iterable[Taken]) -> None:
        """It ends; a durable one for good, with all that waits for it. A text is the name of a durable one."""
        given = [subscription] if isinstance(subscription, LanSubscription | Subscription | str) else list(subscription)
        for kept in given:
            if not isinstance(kept, LanSubscription):
                await self._keeper.unsubscribe(kept)
        gone = [each for each in given if isinstance(each, LanSubscription)]
        numbers = tuple(each.number for each in gone if self._subscriptions.pop(each.number, None) is not None)
        if numbers:
            self.server.put(Unsubscribed(numbers))
        for each in gone:
            self.server.hands.pop(f"subscription {each.number}", None)
            self.server.told_gaps.pop(f"subscription {each.number}", None)
            self.server.router.qualities.pop(each.number, None)
            each.end()

    async def advertise(
        self, space: str | Space, predicate: str = "TRUE", *, quality: LanQuality | None = None, rate: float | None = None
    ) -> LanAdvertised:
        """Says what this client may publish: each attribute as the predicate allows it, or absent.

        `quality`: "reliable" events reach all who want them, whatever these ask for; "durable" ones go to the broker behind the
        LAN's gateway, and `publish` waits until they are on its disk. `rate`: bytes a second, for the planner.
        """
        self._check_open()
        _check_quality(quality)
        if rate is not None and not rate > 0:
            raise LanError(f"a rate is in bytes a second and above 0, got {rate!r}")
        found = await self._space(space)
        number = self.server.next_number()
        allowed: dict[str, tuple[Constraint, ...]] = {name: (Constraint.present(kind),) for name, kind in found.kinds.items()}
        parsed = parse_predicate(found, predicate)
        if len(parsed.conjunctions) > 1:
            raise LanError(f"an advertisement is a conjunction; advertise each alternative of {predicate!r} by itself")
        for conjunction in parsed.conjunctions:
            allowed.update({name: (constraint,) for name, constraint in conjunction.items})
        if quality == DURABLE:
            await self._keeper.advertise(number, parsed, predicate)
        if quality == RELIABLE:
            self.server.router.promised.add(number, parsed)
        self.server.put(ToldAdvertised((Advertisement(number, found, allowed, self.server.name),)))
        advertised = LanAdvertised(number, found.name)
        if rate is not None:
            from contentcast.live.lan.watching import promise

            self._promises[number] = await promise(self, advertised, parsed, rate)
        return advertised

    async def unadvertise(self, advertised: LanAdvertised) -> None:
        self.server.put(Unadvertised((advertised.number,)))
        self.server.router.promised.remove(advertised.number)
        await self._keeper.unadvertise(advertised.number)
        if (saying := self._promises.pop(advertised.number, None)) is not None:
            saying.cancel()

    # --- streams of events

    def events(self, space: str | Space, predicate: str = "TRUE", **options: Any) -> Events:
        """`async for event in client.events("trades", "price < 120")`: a dict each. `options` as for `subscribe`."""
        return Events(lambda: self._subscribe_for_stream(space, predicate, options))

    def batches(self, space: str | Space, predicate: str = "TRUE", **options: Any) -> Batches:
        """`async for batch in client.batches(...)`: an `EventBatch` each. `options` as for `subscribe`."""
        return Batches(lambda: self._subscribe_for_stream(space, predicate, options))

    async def _subscribe_for_stream(self, space: str | Space, predicate: str, options: dict[str, Any]) -> Subscription:
        # A subscription of the LAN has what a stream asks for: next_batch, at, done and leave.
        return cast(Subscription, await self._make_subscription(space, predicate, **options))

    # --- the mapping

    async def propose(self, mapping: MappingSpecification, within_s: float = 10.0) -> MappingId:
        """All servers of the LAN change to this mapping, or none. Waits until this server sends by it."""
        agreement = self.server.router.agreement
        self.server.put(Received("operator", proposal_of(mapping.renumbered(MappingId(0)))))
        mine = max(each.id for each in agreement.honoured() if each.id.proposer == self.server.name)
        await self.until(lambda: agreement.uses >= mine, within_s, "the mapping is not used yet")
        if agreement.uses != mine:
            raise LanError(f"the servers use the mapping {agreement.uses}, which came at the same moment; propose yours again")
        return mine

    async def until(self, fact: Callable[[], bool], within_s: float = 10.0, what: str = "it did not come true") -> None:
        """Waits for something that the server knows: asked again whenever it has handled something."""
        changed = asyncio.Event()
        before, self.server.changed = self.server.changed, changed.set
        end = asyncio.get_running_loop().time() + within_s
        try:
            while not fact():
                changed.clear()
                try:
                    async with asyncio.timeout_at(end):
                        await changed.wait()
                except TimeoutError:
                    state = self.server.router.state()
                    raise LanError(
                        f"{what} after {within_s:g} s: {state['mapping']}, members {sorted(state['members'])}"
                    ) from None
        finally:
            self.server.changed = before

    # --- life

    async def _space(self, space: str | Space) -> Space:
        if isinstance(space, Space):
            found = self.server.space(space.name)
            return found if found is not None and (found == space or found.extends(space)) else self.server.declare(space)
        if self.server.space(space) is None:
            try:
                await self.until(lambda: self.server.space(space) is not None, SPACE_WITHIN_S)
            except LanError:
                known = self.server.router.spaces.named()
                near = nearest(space, known, "there are") if known else ""
                declaring = f"declare(Space({space!r}, ...)), on the command line --space FILE, declares it"
                raise LanError(
                    f"nobody on the LAN has declared the space {space!r} within {SPACE_WITHIN_S:g} s{near}; {declaring}"
                ) from None
        found = self.server.space(space)
        assert found is not None
        return found

    def _check_open(self) -> None:
        if self._closed:
            raise LanError("this client was closed; connect again")

    async def repaired(self, within_s: float = REPAIRED_WITHIN_S) -> bool:
        """Waits until no reader asks any more for what was sent to it reliably; False: one still does, and is told of a gap."""
        self._flush_all()
        is_quiet = await self.server.repaired(within_s)
        if not is_quiet:
            log.warning("after %g s a reader still asks for what was sent reliably; it is told of a gap", within_s)
        return is_quiet

    async def close(self) -> None:
        """Whoever was to get something reliably has it then; see `repaired`."""
        await self._close(REPAIRED_WITHIN_S)

    async def _close(self, repaired_within_s: float) -> None:
        if not self._closed:
            for saying in self._promises.values():
                saying.cancel()
            try:
                self._flush_all()
                await self.unsubscribe(list(self._subscriptions.values()))
                self._closed = True
                await self._keeper.close()
                if repaired_within_s:
                    await self.repaired(repaired_within_s)
            finally:
                self._closed = True
                await self._let_go()

    async def __aenter__(self) -> LanClient:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self._close(REPAIRED_WITHIN_S if kind is None else 0.0)


def _as_batch(space: Space, events: Any) -> EventBatch:
    if isinstance(events, EventBatch):
        return events
    if isinstance(events, pa.RecordBatch | pa.Table):
        return EventBatch.from_arrow(space, events)
    return EventBatch.from_dicts(space, events)


def _check_quality(quality: str | None) -> None:
    if quality is not None and quality not in QUALITIES:
        raise LanError(f"the quality of service is {', '.join(map(repr, QUALITIES))}{nearest(quality, QUALITIES, 'not')}")
