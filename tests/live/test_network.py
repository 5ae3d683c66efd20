"""Brokers in one process over real sockets: an event arrives where somebody wants it, and only there."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

import contentcast as cc
from contentcast.catalog import PROTOCOLS
from contentcast.live.looking.log import Silent
from contentcast.routing.contract import LinkUp
from contentcast.wire.client import Beat
from tests.live.stories import TRADE, TRADES, Net, knows_space, story, until, wanted_at


@story
async def test_an_event_arrives_at_another_broker() -> None:
    async with Net() as net:
        a, _, publisher, subscriber = await net.pair()
        got: list[dict[str, Any]] = []
        await subscriber.subscribe("trades", "issue = 'IBM' AND price < 120", deliver=got.append)
        await wanted_at(a, "b")
        receipt = await publisher.publish("trades", [TRADE, TRADE | {"price": 121.0}, {"issue": "SAP", "price": 1.0}])
        assert receipt.events == 3
        await until(lambda: got)
        assert got == [TRADE]


@story
async def test_a_broker_that_is_told_to_be_its_own_neighbour_says_so_once() -> None:
    async with Net() as net:
        broker = await net.broker("self")
        (address,) = broker.addresses
        broker.neighbours.keep([address])
        await until(lambda: broker.neighbours._tasks[address].done())
        assert isinstance(broker.log, Silent)
        why = "this is the broker's own address; give it the address of another broker, or leave it out"
        assert broker.neighbours.dialled[address] == why
        told = [(what, facts.get("reason")) for what, facts in broker.log.notes if what not in ("started", "warming")]
        assert told == [("link not made", why)]
        assert not broker.reception.strangers


@story
async def test_a_broker_does_not_join_through_itself() -> None:
    async with Net() as net:
        broker = await net.broker("self")
        with pytest.raises(cc.ContentcastError, match="a broker cannot join through itself; name another broker, or none if"):
            await broker.neighbours.ask_names(broker.addresses)
        other = await net.broker("other")
        assert await broker.neighbours.ask_names((*broker.addresses, *other.addresses)) == ("other",)


@story
async def test_what_nobody_wants_crosses_no_link() -> None:
    async with Net() as net:
        a, b, publisher, subscriber = await net.pair()
        stream = await subscriber.events("trades", "price < 10").ready()
        await wanted_at(a, "b")
        for price in (11.0, 12.0, 9.0):
            await publisher.publish("trades", {"issue": "IBM", "price": price})
        assert await anext(stream) == {"issue": "IBM", "price": 9.0}
        assert b.deliveries.events == 1
        # Three batches were published; one of them came over the link.
        assert b.router.state()["links"] == {"a": 0.001}
        origins = b.router.publishing._seen._origins
        assert [serial for each in origins.values() for serial in each.batches] == [3]


# Multicast needs groups of a LAN, and no brokers.
@pytest.mark.parametrize("protocol", [each for each in PROTOCOLS if each != "multicast"])
def test_every_protocol_of_the_catalog_runs_live(protocol: str) -> None:
    """Four brokers in a ring with a tail; a client at each, and each publishes."""

    @story
    async def told() -> None:
        async with Net() as net:
            a = await net.broker("a", protocol=protocol)
            b = await net.broker("b", a, protocol=protocol)
            c = await net.broker("c", a, b, protocol=protocol)
            d = await net.broker("d", c, protocol=protocol)
            clients = [await net.client(each) for each in (a, b, c, d)]
            await clients[0].declare(TRADES)
            got: list[list[float]] = [[] for _ in clients]
            for at, client in enumerate(clients):
                await knows_space(client)
                await client.subscribe(
                    "trades", f"price < {10 * (at + 1)}", deliver=lambda each, at=at: got[at].append(each["price"])
                )
            sent = [5.0, 15.0, 25.0, 35.0]
            # Interests need a moment to be everywhere: everybody publishes until everybody has got what it wants.
            expected = [sent[: at + 1] for at in range(4)]

            async def all_came() -> bool:
                for each in got:
                    each.clear()
                for client, price in zip(clients, sent, strict=True):
                    await client.publish("trades", {"price": price})
                for _ in range(60):
                    if [sorted(each) for each in got] == expected:
                        return True
                    await asyncio.sleep(0.005)
                return False

            await until(all_came)

    told()


@story
async def test_a_broker_that_comes_later_hears_of_everything() -> None:
    async with Net() as net:
        a, one = await net.alone()
        got: list[dict[str, Any]] = []
        await one.subscribe("trades", "price < 120", deliver=got.append)
        b = await net.broker("b", a)
        c = await net.broker("c", b)
        late = await net.client(c)
        await knows_space(late)
        await wanted_at(c, "a")
        await late.publish("trades", TRADE)
        await until(lambda: got == [TRADE])
        assert set(c.neighbours.addresses) == {"a", "b"}, "c has learnt where a listens, though it never met it"


@story
async def test_a_pair_of_brokers_that_dial_each_other_keeps_one_connection() -> None:
    async with Net() as net:
        a = await net.broker("a")
        b = await net.broker("b", a)
        a.neighbours.keep(list(b.addresses))
        await until(lambda: all(how == "linked to b" for how in a.neighbours.dialled.values()))
        await until(lambda: len(a.reception.connections) == len(b.reception.connections) == 1)
        assert set(a.neighbours.links) == {"b"}
        assert set(b.neighbours.links) == {"a"}


@story
async def test_another_delay_of_a_link_is_told_to_the_router_and_not_to_the_log() -> None:
    async with Net() as net:
        a, *_ = await net.pair()
        link, told, put = a.neighbours.links["b"], [], a.put
        a.put = lambda input: (told.append(input), put(input))[1]  # type: ignore[method-assign]
        link.rtt_s = math.inf
        a.neighbours.beaten(link, Beat(heard=1.0), 1.5)
        assert LinkUp("b", 0.256) in told
        assert isinstance(a.log, Silent)
        assert [what for what, _ in a.log.notes].count("link up") == 1


@story
async def test_a_broker_that_stops_and_one_that_is_silent_are_noticed() -> None:
    async with Net() as net:
        a = await net.broker("a")
        b = await net.broker("b", a)
        c = await net.broker("c", a)
        await b.stop()
        await until(lambda: set(a.neighbours.links) == {"c"})
        # From here on c says nothing more, and its sockets stay open.
        assert c._watch is not None
        c._watch.cancel()
        c.neighbours.beaten = lambda *_: None  # type: ignore[method-assign]
        begun = asyncio.get_running_loop().time()
        await until(lambda: not a.neighbours.links)
        assert asyncio.get_running_loop().time() - begun < 3.0


@story
async def test_a_space_gains_an_attribute_while_events_pass() -> None:
    async with Net() as net:
        a, _, publisher, subscriber = await net.pair()
        stream = await subscriber.events("trades").ready()
        await wanted_at(a, "b")
        await publisher.publish("trades", TRADE)
        assert await anext(stream) == TRADE
        wider = await publisher.declare(cc.Space("trades", issue="string", price="float", volume="int", side="string"))
        assert "side" in wider
        await publisher.publish("trades", TRADE | {"side": "buy"})
        assert await anext(stream) == TRADE | {"side": "buy"}
