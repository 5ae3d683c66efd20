"""Quality of service `durable` on a LAN: through a broker that keeps events on disk, to which a gateway leads.

    camera    advertise(quality="durable")    its events go to the broker; publish returns when they are on its disk
    broker, gateway, LAN                      whoever wants them on the LAN gets them over groups, from the gateway
    desk      subscribe(durable="desk-7")     a durable subscription at the broker: numbered, acknowledged, kept while away

What others publish on the LAN without it is a datagram, which nobody has accepted. It is accepted when the gateway has brought
it to the broker, and from then on a durable subscription does not miss it.

Source: quality of service in subscriptions and advertisements is announced in Eide et al. 2003, section 7. Sending a durable
event over a group as well as to the broker was left out: a gateway would bring the broker a second copy of it.
Rule: an event is accepted when the broker has said so, and every accepted event comes to a durable subscription once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from contentcast.live.client.client import Advertised, Client
from contentcast.live.client.connecting import connect, token_in
from contentcast.live.client.publishing import Receipt
from contentcast.live.client.subscribing import Subscription
from contentcast.live.errors import LiveError
from contentcast.live.lan.gateway_beats import AWAY_AFTER_S, BEAT_EVERY_S, GATEWAYS
from contentcast.live.lan.options import LanError
from contentcast.model import EventBatch, Predicate, Space
from contentcast.routing.multicast.promised import Promised

if TYPE_CHECKING:
    from contentcast.live.lan.client import LanClient

DURABLE: Final = "durable"
HEARD_WITHIN_S: Final = AWAY_AFTER_S + BEAT_EVERY_S
NO_GATEWAY: Final = (
    "durable delivery needs a broker that keeps events on its disk, and no gateway to one was heard on this LAN within {:g} s; "
    "start both: contentcast broker --data FOLDER, and contentcast lan gateway --config FILE (--example-config prints one)"
)
NO_ADDRESS: Final = (
    "gateway {} does not say where its broker is reached from other computers; set `address` in its file, or add "
    "broker=contentcast://host:7411 to the address of the LAN"
)
BEHIND: Final = "{}; that broker stands behind the gateway {}"


class Keeper:
    """The broker that keeps what is durable, as one client of the LAN sees it. It is looked for at the first use."""

    def __init__(self, lan: LanClient) -> None:
        self._lan = lan
        self._client: Client | None = None
        self._opening = asyncio.Lock()
        self._promised = Promised()
        self._advertised: dict[int, Advertised] = {}
        self.promises: frozenset[str] = frozenset()
        """The spaces of which something is to be published durably."""

    # --- the broker

    async def client(self) -> Client:
        async with self._opening:
            if self._client is None:
                self._client = await self._open()
            return self._client

    async def _open(self) -> Client:
        gateway, address = await self._hear()
        options = self._lan.server.options
        where = options.broker or address
        if not where:
            raise LanError(NO_ADDRESS.format(gateway))
        token = token_in(options.token_file) if options.token_file else ""
        made = await connect(where, token=token, authority=options.authority or None)
        try:
            await made.place("any name")  # a broker without a disk says so whatever the name is
        except LiveError as reason:
            if reason.code != "no-durable":
                await made.close()
                raise LanError(BEHIND.format(reason, gateway)) from None
        return made

    async def _hear(self) -> tuple[str, str]:
        """The gateway that carries events, which is the one with the smallest name, and its broker's address."""
        heard: dict[str, str] = {}
        came = asyncio.Event()

        def hear(beat: dict[str, Any]) -> None:
            if beat.get("connected") is False:
                return  # it waits for its broker, and another gateway takes over
            heard[beat["gateway"]] = beat.get("address") or ""
            came.set()

        await self._lan.declare(GATEWAYS)
        listening = await self._lan.subscribe(GATEWAYS, deliver=hear)
        try:
            async with asyncio.timeout(HEARD_WITHIN_S):
                await came.wait()
            await asyncio.sleep(BEAT_EVERY_S)  # all that live have been heard then
        except TimeoutError:
            raise LanError(NO_GATEWAY.format(HEARD_WITHIN_S)) from None
        finally:
            await listening.unsubscribe()
        return min(heard.items())

    async def _declared(self, space: Space) -> Client:
        client = await self.client()
        known = (await client.spaces()).get(space.name)
        if known is None or not (known == space or known.extends(space)):
            await client.declare(space)
        return client

    # --- the verbs

    async def subscribe(self, space: Space, predicate: str, name: str, **options: Any) -> Subscription:
        if not name:
            raise LanError("a durable subscription has a name, by which it is found again: durable='desk-7'")
        client = await self._declared(space)
        return await client.subscribe(space.name, predicate, durable=name, **options)

    async def unsubscribe(self, gone: Subscription | str) -> None:
        await (await self.client()).unsubscribe(gone)

    async def advertise(self, number: int, predicate: Predicate, text: str) -> None:
        client = await self._declared(predicate.space)
        self._advertised[number] = await client.advertise(predicate.space.name, text)
        self._promised.add(number, predicate)
        self._note_promises()

    async def unadvertise(self, number: int) -> None:
        self._promised.remove(number)
        made = self._advertised.pop(number, None)
        self._note_promises()
        if made is not None:
            await (await self.client()).unadvertise(made)

    def _note_promises(self) -> None:
        self.promises = frozenset(each.space for each in self._advertised.values())

    async def publish(
        self, events: EventBatch, publisher: str, number: int
    ) -> tuple[EventBatch, asyncio.Future[Receipt] | None]:
        """Those that no durable advertisement covers; and, when the broker has room for the others, a future of its receipt."""
        mask = self._promised.of(events)
        rest = events.take(np.flatnonzero(~mask))
        if publisher and len(rest):
            raise LanError(f"{len(rest)} of these events are under no durable advertisement, so no broker numbers them")
        if not mask.any():
            return rest, None
        mine = events if mask.all() else events.take(np.flatnonzero(mask))
        client = await self.client()
        future = await client.publish(events.space.name, mine, wait=False, publisher=publisher, number=number)
        return rest, future

    async def flush(self) -> None:
        if self._client is not None:
            await self._client.flush()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
