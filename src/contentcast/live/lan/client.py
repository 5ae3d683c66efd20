"""The client that has no broker: SIENA's five verbs on a LAN.

    async with connect_lan("lan://239.192.10.0:6666", spaces=[trades]) as client:
        await client.subscribe("trades", "price < 120", deliver=print)
        await client.publish("trades", {"issue": "IBM", "price": 119.5})

Source: Eide et al. 2003, table 1. Clients of one process on the same LAN share one server, so that an event between them is a
call. Single events are gathered until the loop turns, or until there are MOST_GATHERED, and enter the router as one batch.
Rule: events of one client enter in the order in which they were published.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from contentcast.language import parse_predicate
from contentcast.live.lan.options import LanError, LanOptions
from contentcast.live.lan.server import LanServer
from contentcast.model import Advertisement, Constraint, EventBatch, Space, SubscriptionBatch
from contentcast.model import Subscription as Wanted
from contentcast.routing.contract import Advertised as ToldAdvertised
from contentcast.routing.contract import Published, Received, Subscribed, Unadvertised, Unsubscribed
from contentcast.routing.multicast import MappingSpecification
from contentcast.routing.multicast.agreement import proposal_of
from contentcast.routing.multicast.mapping import RELIABLE, MappingId, Quality

MOST_GATHERED: Final = 512
SPACE_WITHIN_S: Final = 3.0
"""How long a space that nobody here has declared may take to be heard of; servers tell theirs every two seconds."""
MOST_WAITING: Final = 100_000
"""Events that wait for the program, of one subscription without a callback; the oldest are left out, and counted."""

Call = Callable[[Any], Any]


class LanSubscription:
    """One subscription. Without a callback its events wait here, for `events` and `batches`."""

    def __init__(self, client: LanClient, number: int, space: str, predicate: str, deliver: Call | None, batches: bool) -> None:
        self.number, self.space, self.predicate = number, space, predicate
        self.missed = 0
        self._client = client
        self._call = deliver
        self._batches = batches
        self._waiting: deque[EventBatch] = deque()
        self._count = 0
        self._came = asyncio.Event()
        self._ended = False
        self._tasks: set[asyncio.Future[Any]] = set()

    async def unsubscribe(self) -> None:
        await self._client.unsubscribe(self)

    def hand(self, events: EventBatch) -> None:
        """Called by the server, in the thread and the turn in which the event came."""
        if self._call is None:
            self._keep(events)
            return
        for each in [events] if self._batches else events.to_dicts():
            try:
                result = self._call(each)
                if inspect.isawaitable(result):
                    task = asyncio.ensure_future(result)
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
            except Exception as reason:
                about = f"deliver of {self.space}: {self.predicate}"
                asyncio.get_running_loop().call_exception_handler({"message": about, "exception": reason})

    def _keep(self, events: EventBatch) -> None:
        self._waiting.append(events)
        self._count += len(events)
        while self._count > MOST_WAITING and len(self._waiting) > 1:
            gone = len(self._waiting.popleft())
            self._count -= gone
            self.missed += gone
        self._came.set()

    def end(self) -> None:
        self._ended = True
        self._came.set()

    async def next_batch(self) -> EventBatch | None:
        """None when it has ended."""
        while not self._waiting:
            if self._ended:
                return None
            self._came.clear()
            await self._came.wait()
        batch = self._waiting.popleft()
        self._count -= len(batch)
        return batch


@dataclass(frozen=True, slots=True)
class LanAdvertised:
    number: int
    space: str


class LanClient:
    """Made by `connect_lan`."""

    def __init__(self, server: LanServer, key: Key) -> None:
        self.server = server
        self._key = key
        self._subscriptions: dict[int, LanSubscription] = {}
        self._gathered: dict[str, list[Mapping[str, Any]]] = {}
        self._flushing = False
        self._closed = False
        self._promises: dict[int, asyncio.Task[None]] = {}
        """By advertisement: who says again and again what was promised."""

    # --- the five verbs, and declare

    async def declare(self, space: Space) -> Space:
        return self.server.declare(space)

    async def publish(self, space: str | Space, events: Any) -> None:
        """A dict, a list of dicts, an `EventBatch`, or Arrow. A dict goes out with others of the same turn of the loop."""
        self._check_open()
        name = space if isinstance(space, str) else space.name
        if isinstance(events, Mapping) and name in self._gathered:
            gathered = self._gathered[name]
            gathered.append(events)
            if len(gathered) >= MOST_GATHERED:
                self._flush(name)
            elif not self._flushing:
                self._flushing = True
                asyncio.get_running_loop().call_soon(self._flush_all)
            return
        found = await self._space(space)
        if isinstance(events, Mapping):
            self._gathered[name] = []
            await self.publish(name, events)
            return
        self._flush(name)
        self._enter(_as_batch(found, events))

    def _flush_all(self) -> None:
        self._flushing = False
        for name in self._gathered:
            self._flush(name)

    def _flush(self, name: str) -> None:
        gathered = self._gathered.get(name)
        if gathered:
            self._gathered[name] = []
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
            ids = pa.array(range(first, first + len(events)), pa.int64())
            self.server.put(Published(EventBatch(events.space, events.records, ids)))

    async def subscribe(
        self,
        space: str | Space,
        predicate: str = "TRUE",
        *,
        deliver: Call | None = None,
        batches: bool = False,
        quality: Quality | None = None,
    ) -> LanSubscription:
        """Every event that matches comes from now on, and from others as soon as they have heard of it."""
        self._check_open()
        found = await self._space(space)
        parsed = parse_predicate(found, predicate)
        number = self.server.next_number()
        made = LanSubscription(self, number, found.name, predicate, deliver, batches)
        self._subscriptions[number] = made
        subscriber = f"subscription {number}"
        self.server.hands[subscriber] = made.hand
        if quality is not None:
            self.server.router.qualities[number] = quality
        self.server.put(Subscribed(SubscriptionBatch.of(Wanted(number, parsed, subscriber))))
        return made

    async def unsubscribe(self, subscription: LanSubscription | Iterable[LanSubscription]) -> None:
        gone = [subscription] if isinstance(subscription, LanSubscription) else list(subscription)
        numbers = tuple(each.number for each in gone if self._subscriptions.pop(each.number, None) is not None)
        if numbers:
            self.server.put(Unsubscribed(numbers))
        for each in gone:
            self.server.hands.pop(f"subscription {each.number}", None)
            self.server.router.qualities.pop(each.number, None)
            each.end()

    async def advertise(
        self, space: str | Space, predicate: str = "TRUE", *, quality: Quality | None = None, rate: float | None = None
    ) -> LanAdvertised:
        """Says what this client may publish: each attribute as the predicate allows it, or absent.

        `quality`: "reliable" events reach all who want them, whatever these ask for. `rate`: bytes a second, for the planner.
        """
        found = await self._space(space)
        number = self.server.next_number()
        allowed: dict[str, tuple[Constraint, ...]] = {name: (Constraint.present(kind),) for name, kind in found.kinds.items()}
        parsed = parse_predicate(found, predicate)
        if len(parsed.conjunctions) > 1:
            raise LanError(f"an advertisement is a conjunction; advertise each alternative of {predicate!r} by itself")
        for conjunction in parsed.conjunctions:
            allowed.update({name: (constraint,) for name, constraint in conjunction.items})
        self.server.put(ToldAdvertised((Advertisement(number, found, allowed, self.server.name),)))
        advertised = LanAdvertised(number, found.name)
        if quality == RELIABLE:
            self.server.router.promised.add(number, parsed)
        if rate is not None:
            from contentcast.live.lan.watching import promise

            self._promises[number] = await promise(self, advertised, parsed, rate)
        return advertised

    async def unadvertise(self, advertised: LanAdvertised) -> None:
        self.server.put(Unadvertised((advertised.number,)))
        self.server.router.promised.remove(advertised.number)
        if (saying := self._promises.pop(advertised.number, None)) is not None:
            saying.cancel()

    # --- streams of events

    async def events(self, space: str | Space, predicate: str = "TRUE") -> AsyncIterator[dict[str, Any]]:
        """`async for event in client.events("trades", "price < 120")`: a dict each."""
        async for batch in self.batches(space, predicate):
            for each in batch.to_dicts():
                yield each

    async def batches(self, space: str | Space, predicate: str = "TRUE") -> AsyncIterator[EventBatch]:
        subscription = await self.subscribe(space, predicate)
        try:
            while (batch := await subscription.next_batch()) is not None:
                yield batch
        finally:
            await self.unsubscribe(subscription)

    # --- the mapping

    async def propose(self, mapping: MappingSpecification, within_s: float = 10.0) -> MappingId:
        """All servers of the LAN change to this mapping, or none. Waits until this server sends by it."""
        router = self.server.router
        before = router.agreement.uses
        self.server.put(Received("operator", proposal_of(mapping.renumbered(MappingId(0)))))
        await self.until(lambda: router.agreement.uses != before, within_s, "the mapping is not used yet")
        return router.agreement.uses

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
            said = f"nobody on the LAN has declared the space {space!r}; declare(Space({space!r}, ...)) does"
            await self.until(lambda: self.server.space(space) is not None, SPACE_WITHIN_S, said)
        found = self.server.space(space)
        assert found is not None
        return found

    def _check_open(self) -> None:
        if self._closed:
            raise LanError("this client was closed; connect again")

    async def close(self) -> None:
        if not self._closed:
            for saying in self._promises.values():
                saying.cancel()
            self._flush_all()
            await self.unsubscribe(list(self._subscriptions.values()))
            self._closed = True
            await _let_go(self._key)

    async def __aenter__(self) -> LanClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _as_batch(space: Space, events: Any) -> EventBatch:
    if isinstance(events, EventBatch):
        return events
    if isinstance(events, pa.RecordBatch | pa.Table):
        return EventBatch.from_arrow(space, events)
    return EventBatch.from_dicts(space, events)


# --- one server for a LAN in a process

Key = tuple[int, str, MappingId | None]
_shared: dict[Key, tuple[asyncio.Task[LanServer], int]] = {}
"""By loop, address and mapping: the server, and how many clients have it."""


class _Connecting:
    """`await connect_lan(...)` and `async with connect_lan(...)`."""

    def __init__(self, url: str, spaces: tuple[Space, ...], mapping: MappingSpecification | None) -> None:
        self._url, self._spaces, self._mapping = url, spaces, mapping
        self._options = LanOptions.of(url, mapping)
        self._client: LanClient | None = None

    def __await__(self) -> Any:
        return self._open().__await__()

    async def _open(self) -> LanClient:
        key = (id(asyncio.get_running_loop()), self._url, self._mapping.id if self._mapping is not None else None)
        self._client = LanClient(await _have(key, self._options), key)
        for each in self._spaces:
            await self._client.declare(each)
        return self._client

    async def __aenter__(self) -> LanClient:
        return await self._open()

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.close()


def connect_lan(url: str, *, spaces: Iterable[Space] = (), mapping: MappingSpecification | None = None) -> _Connecting:
    """A client on the LAN of this address (see `options`). `spaces` are declared at once."""
    return _Connecting(url, tuple(spaces), mapping)


async def _have(key: Key, options: LanOptions) -> LanServer:
    starting, users = _shared.get(key, (None, 0))
    if starting is None:
        starting = asyncio.create_task(LanServer(options).start())
    _shared[key] = (starting, users + 1)
    try:
        return await starting
    except BaseException:
        _shared.pop(key, None)
        raise


async def _let_go(key: Key) -> None:
    starting, users = _shared[key]
    if users > 1:
        _shared[key] = (starting, users - 1)
        return
    del _shared[key]
    await (await starting).stop()
