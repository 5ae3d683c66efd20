"""Messages to any broker (`SendTo`): addresses are learnt from others, connections are made when they are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import contentcast as cc
from contentcast.live.broker import Broker
from contentcast.live.looking.log import Silent
from contentcast.live.settings.address import read_address
from contentcast.live.settings.config import BrokerConfig
from contentcast.routing.contract import DIRECT, Effect, Input, Received, SendTo, Started, Via
from contentcast.routing.setup import Setup
from contentcast.routing.skeleton import Skeleton
from contentcast.wire import Known
from tests.live.stories import TRADE, TRADES, Net, knows_space, story, until, wanted_at


class Whisper(Skeleton):
    """Keeps what comes directly, and greets whom it was told to join through."""

    def __init__(self, broker: str, setup: Setup) -> None:
        super().__init__(broker, setup)
        self.came: list[tuple[str, Via]] = []

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Started():
                return [SendTo(each, Known({})) for each in self.setup.contacts]
            case Received(sender, Known(), via) if via == DIRECT:
                self.came.append((sender, via))
                return []
        return super().handle(input, now)


WHISPER = "tests.live.test_direct:Whisper"


def whisper(from_: Broker, to: str) -> None:
    from_._how[SendTo](SendTo(to, Known({})))


def came(broker: Broker) -> list[Any]:
    router: Any = broker.router
    return [sender for sender, _ in router.came]


@story
async def test_a_message_to_a_broker_that_is_no_neighbour() -> None:
    async with Net() as net:
        a = await net.broker("a", protocol=WHISPER)
        b = await net.broker("b", a, protocol=WHISPER)
        c = await net.broker("c", b, protocol=WHISPER)
        await until(lambda: "c" in a.neighbours.addresses)
        whisper(a, "c")
        await until(lambda: came(c) == ["a"])
        assert "c" in a.neighbours.directs
        whisper(c, "a")
        await until(lambda: came(a) == ["c"])
        assert len(c.neighbours.directs) == 1, "the answer takes the same connection"
        whisper(a, "b")
        await until(lambda: came(b) == ["a"])
        assert "b" not in a.neighbours.directs, "to a neighbour it goes over the link's connection"
        whisper(a, "nobody")
        assert a.neighbours.lost_messages == 1
        assert set(a.neighbours.links) == {"b"}, "a direct connection is no link"


@story
async def test_joining_needs_one_address() -> None:
    async with Net() as net:
        a = await net.broker("a", protocol=WHISPER)
        b = await net.broker("b", protocol=WHISPER, join=a.addresses)
        await until(lambda: came(a) == ["b"])
        assert not b.neighbours.links


@story
async def test_a_node_of_the_overlay_needs_nothing_but_an_address() -> None:
    """No links at all: spaces, subscriptions and events find their way over the ring; one that comes later hears of all."""
    async with Net() as net:
        a = await net.broker("a", protocol="overlay")
        b = await net.broker("b", protocol="overlay", join=a.addresses)
        c = await net.broker("c", protocol="overlay", join=b.addresses)
        feed, desk = await net.client(a), await net.client(c)
        await feed.declare(TRADES)
        await knows_space(desk)
        await feed.declare(cc.Space("trades", venue="string"))

        async def knows_more(client: Any) -> bool:
            return "venue" in (await client.spaces())["trades"]

        await until(lambda: knows_more(desk))
        d = await net.broker("d", protocol="overlay", join=c.addresses)
        late = await net.client(d)
        await knows_space(late)
        await until(lambda: knows_more(late))
        got: dict[str, list[Any]] = {"c": [], "d": []}
        await desk.subscribe("trades", "price < 120 AND venue = 'x'", deliver=got["c"].append)
        await late.subscribe("trades", "price < 120", deliver=got["d"].append)

        async def came() -> bool:
            await feed.publish("trades", TRADE | {"venue": "x"})
            return bool(got["c"] and got["d"])

        await until(came)
        assert not any(each.neighbours.links for each in net.brokers.values())


@story
async def test_a_node_that_is_gone_is_one_line_in_the_log() -> None:
    """The others of an overlay ask for it twice a second, for it may come back; each wrote a line every time."""
    async with Net() as net:
        a = await net.broker("a", protocol=WHISPER)
        b = await net.broker("b", protocol=WHISPER, join=a.addresses)
        await until(lambda: came(a) == ["b"])
        await b.stop()
        await until(lambda: not a.neighbours.directs)
        for number in range(1, 4):
            whisper(a, "b")
            await until(lambda number=number: a.neighbours.lost_messages == number)
        assert isinstance(a.log, Silent)
        assert [what for what, _ in a.log.notes].count("direct connection not made") == 1


def test_joining_is_for_protocols_without_fixed_links() -> None:
    with pytest.raises(cc.ContentcastError, match="say --neighbour for each"):
        BrokerConfig(join=(read_address("127.0.0.1:7411"),)).check()


def test_a_broker_that_starts_again_is_linked_again(tmp_path: Path) -> None:
    """The same name, the same port, the next life: links come back, and clients too."""

    @story
    async def told() -> None:
        async with Net() as net:
            a = await net.broker("a", data=tmp_path / "a")
            config = BrokerConfig(name="b", neighbours=a.addresses, data=tmp_path / "b")
            first = Broker(config, log=Silent())
            await first.start()
            client = await net.client(first)
            await client.declare(TRADES)
            got: list[Any] = []
            await client.subscribe("trades", "price < 120", deliver=got.append)
            await wanted_at(a, "b")
            port = first.addresses[0].port
            await first.stop()
            await until(lambda: not a.neighbours.links)
            listen = (read_address(f"127.0.0.1:{port}"),)
            again = BrokerConfig(name="b", neighbours=a.addresses, data=tmp_path / "b", listen=listen)
            second = await net.enter_async_context(Broker(again, log=Silent()))
            assert second.incarnation > first.incarnation
            await until(lambda: client.is_connected and client.reconnections == 1 and "b" in a.neighbours.links)
            publisher = await net.client(a)
            await knows_space(publisher)
            await until(lambda: len(second.deliveries) == 1)
            await wanted_at(a, "b")
            await publisher.publish("trades", TRADE)
            await until(lambda: got == [TRADE])

    told()
