"""A gateway between a LAN and a network of brokers: wants of one side become wants of the other, and events cross once.

    LAN                                gateway                              brokers
    somebody wants price < 10     ->   subscribes there: price < 10    ->
                                  <-   publishes on the LAN            <-   an event, price 9
                                  <-   subscribes here: issue = 'SAP'  <-   somebody wants issue = 'SAP'
    an event, issue SAP           ->   publishes there                 ->

It is a server of the LAN and a client of a broker. Eide et al. 2003, section 7, leave wide-area networks to SIENA's brokers.

Several gateways may join the same LAN and the same brokers. They hear each other in a space of their own on the LAN. Of those
that are connected to a broker, the one with the smallest name carries events, the others watch. The next one takes over when
the first says that it has lost its broker, or was not heard for AWAY_AFTER_S.
Events keep their ids on both sides, and a gateway remembers the ids that it has seen on either. So what has crossed does not
cross again, neither back nor by another way. While one gateway takes over from another, events may fail to cross.

Rights hold: the gateway is an identity at the broker, with the right `gateway` and whatever it may publish and subscribe.
What the broker has accepted is as safe as the broker is; on the LAN the gateway asks for `reliable` delivery.
Rule: an event crosses only if somebody on the other side wants it, and at most once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from contentcast.language import parse_predicate, print_predicate
from contentcast.live.client.client import Client
from contentcast.live.client.subscribing import Subscription
from contentcast.live.errors import NotConnected
from contentcast.live.lan.client import LanClient
from contentcast.live.lan.client import Taken as LanSubscription
from contentcast.live.lan.gateway_beats import AWAY_AFTER_S, BEAT_EVERY_S, GATEWAYS
from contentcast.live.looking.wanted import general
from contentcast.model import ContentcastError, EventBatch, Predicate, Space
from contentcast.routing.multicast.mapping import RELIABLE

LOOK_EVERY_S: Final = 0.2
"""How soon a want of one side is told to the other, at most."""
REMEMBERED: Final = 1_000_000
"""Ids of events; twice as many are kept before the older half is forgotten."""
MOST_WAITING: Final = 100_000
"""Events that wait for the broker; the oldest are left out, and counted."""

log = logging.getLogger("contentcast.gateway")


@dataclass(frozen=True)
class Share:
    """A space that crosses: which of its events may go to the LAN, and which to the brokers. Empty: none."""

    space: str
    to_lan: str = "TRUE"
    to_brokers: str = "TRUE"


class SeenIds:
    """Which of these events are new here? Remembers the last million or two."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._young: set[int] = set()
        self._old: set[int] = set()

    def fresh(self, events: EventBatch) -> EventBatch:
        ids = events.ids.to_pylist()
        known = self._young.intersection(ids) | self._old.intersection(ids)
        self._young.update(ids)
        if len(self._young) > self._most:
            self._young, self._old = set(), self._young
        if not known:
            return events
        return events.take(np.array([at for at, each in enumerate(ids) if each not in known], np.int64))


@dataclass
class Side:
    """What was counted in one direction."""

    wants: dict[str, list[str]] = field(default_factory=dict)
    """For each space what this side wants, as far as it was told to the other."""
    crossed: int = 0
    """Events that the broker has accepted, or that were sent on the LAN."""
    missed: int = 0


class Other(NamedTuple):
    """Another gateway: when it was last heard, its server on the LAN, and whether it has a broker."""

    heard_at: float
    server: str
    connected: bool


class Gateway:
    """`run` carries events until it is cancelled. `network`: a name for the brokers, the same at all gateways to them.

    `address`: where programs of the LAN reach the broker, for durable delivery (see `durable`).
    """

    def __init__(
        self,
        lan: LanClient,
        broker: Client,
        shares: Iterable[Share],
        *,
        name: str = "",
        network: str = "brokers",
        address: str = "",
    ) -> None:
        self.lan, self.broker = lan, broker
        self.shares = {each.space: each for each in shares}
        self.name = name or lan.server.name
        self.network = network
        self.address = address
        self._is_first = False
        self.to_lan, self.to_brokers = Side(), Side()
        self._seen = SeenIds()
        self._others: dict[str, Other] = {}
        self._since: float | None = None
        """Since when it has been connected to a broker."""
        self._at_broker: dict[tuple[str, str], Subscription] = {}
        self._on_lan: dict[tuple[str, str], LanSubscription] = {}
        self._waiting: deque[EventBatch] = deque()
        self._waiting_events = 0
        self._under_way = 0
        """Events that were sent to the broker, and that it has not accepted yet."""
        self._came = asyncio.Event()
        self._refused: set[str] = set()

    @staticmethod
    def client_name(network: str, name: str) -> str:
        """Of a gateway's client at its broker; by its beginning the brokers know whom not to count (see `looking.wanted`)."""
        return f"gateway {network} {name}"

    async def run(self) -> None:
        await self.lan.declare(GATEWAYS)
        hearing = await self.lan.subscribe(GATEWAYS, f"brokers = '{_quoted(self.network)}'", deliver=self._hear)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._beat())
                tasks.create_task(self._tell_wants())
                tasks.create_task(self._carry())
        finally:
            self._is_first = False
            await hearing.unsubscribe()

    # --- which gateway carries

    @property
    def is_active(self) -> bool:
        """Does it carry events? Only with a broker to carry them to."""
        return self._is_first and self.broker.is_connected

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        named = {"brokers": self.network, "gateway": self.name, "server": self.lan.server.name, "address": self.address}
        said = ""
        while True:
            connected = self.broker.is_connected
            await self.lan.publish(GATEWAYS, named | {"connected": connected})
            now = loop.time()
            self._others = {name: each for name, each in self._others.items() if each.heard_at + AWAY_AFTER_S > now}
            self._since = None if not connected else now if self._since is None else self._since
            # Whoever has just come, or come back, first listens for as long as another may be silent.
            listened = self._since is not None and now - self._since >= AWAY_AFTER_S
            self._is_first = listened and not any(each.connected and name <= self.name for name, each in self._others.items())
            says = "carries events" if self.is_active else "watches another" if connected else "has no broker, and gives way"
            if says != said and (said or self.is_active):
                log.info("gateway %s %s", self.name, says)
            said = says
            await asyncio.sleep(BEAT_EVERY_S)

    def _hear(self, beat: dict[str, Any]) -> None:
        if beat["server"] != self.lan.server.name:
            now = asyncio.get_running_loop().time()
            self._others[beat["gateway"]] = Other(now, beat["server"], beat.get("connected") is not False)

    # --- wants

    async def _tell_wants(self) -> None:
        while True:
            for share in self.shares.values():
                try:
                    space = await self._same_space(share.space)
                    if space is not None:
                        await self._tell_brokers(space, share)
                        await self._tell_lan(space, share)
                except NotConnected:
                    pass  # the client connects again by itself, and says everything again
                except ContentcastError as reason:
                    self._say_once(f"{share.space}: {reason}")
            await asyncio.sleep(LOOK_EVERY_S)

    async def _same_space(self, name: str) -> Space | None:
        """The space as both sides have it; whoever lacks it, or some attributes of it, is told."""
        here, there = self.lan.server.space(name), (await self.broker.spaces()).get(name)
        if here is None and there is None:
            return None
        if there is None or (here is not None and here != there and here.extends(there)):
            assert here is not None
            there = await self.broker.declare(here)
        return here if here == there else await self.lan.declare(there)

    async def _tell_brokers(self, space: Space, share: Share) -> None:
        members = self.lan.server.router.members.members
        gateways = {each.server for each in self._others.values()}
        batches = (batch for name, each in members.items() if name not in gateways for _, batch in each.record.blocks)
        wanted = _within(space, share.to_lan, general(batches, space))
        self.to_lan.wants[space.name] = wanted
        for text in wanted:
            if (space.name, text) not in self._at_broker:
                self._at_broker[space.name, text] = await self.broker.subscribe(
                    space.name, text, deliver=self._from_brokers, batches=True
                )
        for key in _gone(self._at_broker, space.name, wanted):
            await self._at_broker.pop(key).unsubscribe()

    async def _tell_lan(self, space: Space, share: Share) -> None:
        but = self.client_name(self.network, "")
        answer = await self.broker.ask("wanted", space=space.name, but=but)
        wanted = _within(space, share.to_brokers, [parse_predicate(space, each) for each in answer["predicates"]])
        self.to_brokers.wants[space.name] = wanted
        for text in wanted:
            if (space.name, text) not in self._on_lan:
                self._on_lan[space.name, text] = await self.lan.subscribe(
                    space.name, text, deliver=self._from_lan, batches=True, quality=RELIABLE
                )
        for key in _gone(self._on_lan, space.name, wanted):
            await self._on_lan.pop(key).unsubscribe()

    # --- events

    def _from_brokers(self, events: EventBatch) -> None:
        fresh = self._seen.fresh(events)
        if len(fresh) and self.is_active:
            self.to_lan.crossed += len(fresh)
            self.lan.relay(fresh)

    def _from_lan(self, events: EventBatch) -> None:
        fresh = self._seen.fresh(events)
        if not len(fresh) or not self.is_active:
            return
        self._waiting.append(fresh)
        self._waiting_events += len(fresh)
        while self._waiting_events > MOST_WAITING and len(self._waiting) > 1:
            gone = len(self._waiting.popleft())
            self._waiting_events -= gone
            self.to_brokers.missed += gone
        self._came.set()

    async def _carry(self) -> None:
        """To the broker in the order in which events came; it slows down as the broker does.

        What came before the broker was lost waits for it: the broker may have it on its disk already (see `Conversation`).
        """
        while True:
            while not self._waiting:
                self._came.clear()
                await self._came.wait()
            events = self._waiting.popleft()
            self._waiting_events -= len(events)
            try:
                accepted = await self.broker.publish(events.space.name, events, wait=False, keep_ids=True)
            except ContentcastError as reason:
                self.to_brokers.missed += len(events)
                self._say_once(f"{events.space.name}: {reason}")
            else:
                self._under_way += len(events)
                accepted.add_done_callback(partial(self._accepted, len(events)))

    def _accepted(self, events: int, accepted: asyncio.Future[Any]) -> None:
        self._under_way -= events
        if accepted.cancelled():
            return
        if (reason := accepted.exception()) is None:
            self.to_brokers.crossed += events
        else:
            self.to_brokers.missed += events
            self._say_once(str(reason))

    # --- looking inside

    def _say_once(self, what: str) -> None:
        """A refusal that comes with every event is said once."""
        if what not in self._refused:
            self._refused.add(what)
            log.warning("%s", what)

    def state(self) -> dict[str, Any]:
        return {
            "gateway": self.name,
            "network": self.network,
            "carries": self.is_active,
            "others": sorted(self._others),
            "connected": self.broker.is_connected,
            "to the LAN": _shown(self.to_lan),
            "to the brokers": _shown(self.to_brokers) | {"waiting": self._waiting_events + self._under_way},
            "refused": sorted(self._refused),
        }


def _within(space: Space, allowed: str, wanted: list[Predicate] | None) -> list[str]:
    """Texts of what is wanted and may cross; None: too much to tell, so all that may cross."""
    if not allowed:
        return []
    bound = parse_predicate(space, allowed)
    both = [bound] if wanted is None else [each.intersect(bound) for each in wanted]
    return sorted({print_predicate(each) for each in both if not each.is_nothing})


def _gone(told: dict[tuple[str, str], Any], space: str, wanted: list[str]) -> list[tuple[str, str]]:
    return [key for key in told if key[0] == space and key[1] not in wanted]


def _shown(side: Side) -> dict[str, Any]:
    return {"wants": side.wants, "crossed": side.crossed, "missed": side.missed}


def _quoted(text: str) -> str:
    return text.replace("'", "''")
