"""What was published with `wait=False` and refused: told once, by its future, by `flush`, or by the end of the client."""

from __future__ import annotations

import asyncio

import pytest

import contentcast as cc
from contentcast.live.errors import NotConnected
from tests.live.stories import TRADE, Net, Proxy, knows_space, story, until

WRONG = {"price": "cheap"}


@story
async def test_the_end_of_the_client_raises_what_nobody_has_looked_at() -> None:
    async with Net() as net:
        a, _ = await net.alone()

        async def program() -> None:
            async with cc.connect(str(a.addresses[0])) as client:
                await client.publish("trades", WRONG, wait=False)
                await client.publish("trades", TRADE, wait=False)

        with pytest.raises(cc.EventError, match="'cheap' is a string"):
            await program()
        assert a.serving.published == 1
        client = await cc.connect(str(a.addresses[0]))
        await client.publish("trades", WRONG, wait=False)
        with pytest.raises(cc.EventError, match="'cheap' is a string"):
            await client.close()
        await client.close()


@story
async def test_an_error_that_is_on_its_way_is_not_replaced() -> None:
    async with Net() as net:
        a, _ = await net.alone()

        async def program() -> None:
            async with cc.connect(str(a.addresses[0])) as client:
                await client.publish("trades", WRONG, wait=False)
                raise KeyError("of the program")

        with pytest.raises(KeyError, match="of the program"):
            await program()


@story
async def test_who_looks_at_the_future_is_told_there_and_nowhere_else() -> None:
    async with Net() as net:
        _, client = await net.alone()
        for look in (asyncio.gather, lambda sent: sent):
            sent = await client.publish("trades", WRONG, wait=False)
            with pytest.raises(cc.EventError, match="'cheap' is a string"):
                await look(sent)
            await client.flush()
        await client.close()


@story
async def test_what_was_under_way_to_a_broker_that_is_away_is_not_dropped_in_silence() -> None:
    async with Net() as net:
        a, _ = await net.alone()
        async with Proxy(a) as proxy:
            client = await cc.connect(proxy.url)
            await knows_space(client)
            proxy.answers = False
            await client.publish("trades", [TRADE] * 3, wait=False)
            waiting = asyncio.create_task(client.publish("trades", TRADE))
            proxy.cut()
        await until(lambda: not client.is_connected)
        with pytest.raises(NotConnected, match="closed before broker a, which is away, had accepted 4 events"):
            await client.close()
        with pytest.raises(NotConnected, match="closed before broker a"):
            await waiting


def test_without_async() -> None:
    @story
    async def told() -> None:
        async with Net() as net:
            a, _ = await net.alone()

            def use() -> None:
                with cc.connect_sync(str(a.addresses[0])) as client:
                    sent = client.publish("trades", WRONG, wait=False)
                    with pytest.raises(cc.EventError, match="'cheap' is a string"):
                        sent.result(30)
                    assert client.publish("trades", TRADE, wait=False).result(30).events == 1
                with (
                    pytest.raises(cc.EventError, match="'cheap' is a string"),
                    cc.connect_sync(str(a.addresses[0])) as client,
                ):
                    client.publish("trades", WRONG, wait=False)

            await asyncio.to_thread(use)

    told()
