"""A broker goes and comes back: who waits for it, what others say meanwhile, and what nobody waits for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import contentcast as cc
from contentcast.live.errors import LiveError
from tests.live.stories import TRADE, TRADES, Net, Process, Proxy, story, until
from tests.live.test_durable import Durably


@story
async def test_who_waits_for_its_broker_does_not_mind_that_another_refuses_it(tmp_path: Path) -> None:
    """A namesake is at broker b, which could not serve the client anyway."""
    async with Durably(tmp_path) as net:
        a, b = await net.broker("a"), await net.broker("b")
        await net.client(b, name="desk")
        changes: list[tuple[str, str]] = []
        urls = [str(a.addresses[0]), str(b.addresses[0])]
        desk = await net.enter_async_context(cc.connect(urls, name="desk", on_change=lambda *each: changes.append(each)))
        await desk.declare(TRADES)
        await desk.publish("trades", TRADE)
        await a.stop()
        await until(
            lambda: any(what == "trying" and "another client is connected as 'desk'" in about for what, about in changes)
        )
        await net.again(a)
        assert (await desk.publish("trades", TRADE)).events == 1
        assert desk.broker == "a"


@story
async def test_nobody_waits_for_a_broker_that_is_away_in_order_to_leave_it(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        a, client = await net.alone()
        plain = await client.subscribe("trades", "price < 1", deliver=print)
        many = await client.subscribe_many("trades", ["price < 2", "price < 3"])
        advertised = await client.advertise("trades")
        durable = await client.subscribe("trades", durable="desk-7", deliver=print)
        async with Proxy(a) as proxy, cc.connect(proxy.url) as other:
            during = await other.subscribe("trades", "price < 4", deliver=print)
            proxy.answers = False
            leaving = asyncio.create_task(during.unsubscribe())
            await until(lambda: not a.serving.sessions[other.name].subscriptions)
            assert not leaving.done(), "the answer does not come"
            proxy.answers = True
            proxy.cut()
            await leaving
        await a.stop()
        await until(lambda: not client.is_connected)
        await plain.unsubscribe()
        await many.unsubscribe()
        await client.unadvertise(advertised)
        await durable.leave()
        assert client.reconnections == 0
        a = await net.again(a)
        await until(lambda: client.is_connected)
        await client.space("trades")
        assert not a.serving.sessions[client.name].subscriptions
        assert (await client.place("desk-7")).predicate == "TRUE", "it stays"


@story
async def test_the_end_of_a_durable_subscription_reaches_a_broker_that_was_away(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        a, client = await net.alone()
        subscription = await client.subscribe("trades", durable="desk-7", deliver=print)
        await a.stop()
        await until(lambda: not client.is_connected)
        ending = asyncio.create_task(subscription.unsubscribe())
        await net.again(a)
        await ending
        with pytest.raises(LiveError, match="keeps no durable subscription 'desk-7'"):
            await client.place("desk-7")


def test_a_signal_ends_a_subscriber_whose_broker_is_away(tmp_path: Path) -> None:
    @story
    async def told() -> None:
        async with Net() as net:
            a, _ = await net.alone()
            subscriber = Process(tmp_path, "subscribe", "trades", "--broker", str(a.addresses[0]))
            await until(lambda: "subscribed to" in subscriber.complained())
            await a.stop()
            await until(lambda: "lost: a" in subscriber.complained())
            subscriber.signal()
            try:
                await subscriber.ended()
            finally:
                subscriber.end()

    told()
