"""Why an event arrives or does not: hop by hop, with the test that fails, and nothing is delivered."""

from __future__ import annotations

from typing import Any

import pytest

from contentcast.commands.live.why import ARRIVES, NO_MATCH, NOT_REACHED, UNKNOWN, _ask, _lines
from contentcast.live.client.tracing import Tracer
from tests.live.stories import TRADE, TRADES, Net, knows_space, story, wanted_at

PROTOCOLS = ["link-matching", "hybrid", "flooding", "match-first", "two-tier"]


async def line(net: Net, protocol: str = "link-matching") -> Any:
    """a - b - c and b - d; desk-7 at c wants cheap trades."""
    a = await net.broker("a", protocol=protocol)
    b = await net.broker("b", a, protocol=protocol)
    c = await net.broker("c", b, protocol=protocol)
    await net.broker("d", b, protocol=protocol)
    publisher, desk = await net.client(a), await net.client(c, name="desk-7")
    await publisher.declare(TRADES)
    await knows_space(desk)
    subscription = await desk.subscribe("trades", "issue = 'IBM' AND price < 120")
    if protocol != "flooding":
        await wanted_at(a, "c")
        await wanted_at(b, "c")
    return str(a.addresses[0]), subscription


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_dry_run_follows_the_event_and_delivers_nothing(protocol: str) -> None:
    @story
    async def told() -> None:
        async with Net() as net:
            url, subscription = await line(net, protocol)
            async with Tracer(url) as tracer:
                await tracer.open()
                trace = await tracer.follow("trades", TRADE)
            assert trace.gets == [{"broker": "c", "client": "desk-7", "subscription": subscription.id}]
            assert trace.taken[:2] == [("a", "b"), ("b", "c")]
            if protocol != "flooding":
                assert trace.not_taken == [("b", "d")]
            assert not trace.unreachable
            assert net.brokers["c"].deliveries.events == 0

    told()


@story
async def test_the_very_test_that_fails_is_named() -> None:
    async with Net() as net:
        url, subscription = await line(net)
        code, told = await _ask(url, "trades", TRADE | {"price": 121.0}, subscription.id, {})
        assert code == NO_MATCH
        assert told["judged"]["failed"] == [{"test": "price < 120.0", "value": 121.0}]
        assert "fails: price < 120.0, and the event has 121.0" in _lines(code, told)
        code, told = await _ask(url, "trades", TRADE, subscription.id, {})
        assert code == ARRIVES
        assert told["links"] == ["a > b", "b > c"]
        assert (await _ask(url, "trades", TRADE, 5, {}))[0] == UNKNOWN


@story
async def test_a_cut_way_is_seen() -> None:
    async with Net() as net:
        url, subscription = await line(net)
        b, c = net.brokers["b"], net.brokers["c"]
        c.neighbours.keep([])
        from tests.live.stories import until

        await until(lambda: "c" not in b.neighbours.links)
        code, _ = await _ask(url, "trades", TRADE, subscription.id, {})
        assert code == NOT_REACHED


@story
async def test_a_broker_counts_what_each_subscription_accepts() -> None:
    async with Net() as net:
        a = await net.broker("a")
        client = await net.client(a, name="desk-7")
        await client.declare(TRADES)
        await client.subscribe("trades", "price < 120")
        await client.subscribe("trades", "price < 0")
        await client.publish("trades", [TRADE, TRADE])
        await client.publish("trades", TRADE)
        counted = (await client.ask("subscriptions"))["subscriptions"]
        assert [(each["predicate"], each["accepted"]) for each in counted] == [("price < 120", 3), ("price < 0", 0)]
