"""Streams that the program leaves: what they have not read keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from contentcast.model import ContentcastError
from tests.live.stories import TRADES, Net, story, until

SMALL = 100
"""Events that may wait in a client."""
EVENTS = [{"issue": "IBM", "volume": each} for each in range(2 * SMALL)]


@story
async def test_what_a_closed_stream_has_not_read_is_forgotten() -> None:
    async with Net() as net:
        broker, publisher = await net.alone()
        client = await net.client(broker, most_waiting=SMALL)
        for _ in range(3):
            async with client.batches("trades") as batches:
                await publisher.publish("trades", EVENTS)
                assert batches.subscription is not None
                await until(lambda batches=batches: batches.subscription._waiting)
        got: list[Any] = []
        await client.subscribe("trades", deliver=got.append)
        await publisher.publish("trades", EVENTS)
        await until(lambda: len(got) == len(EVENTS))


@pytest.mark.parametrize("durable", ["", "desk-7"])
def test_a_program_that_waits_for_answers_while_it_reads_goes_on(durable: str, tmp_path: Path) -> None:
    """The answer stands behind the events that it has not read yet."""

    @story
    async def told() -> None:
        async with Net() as net:
            broker = await net.broker("a", data=tmp_path / "a" if durable else None)
            publisher = await net.client(broker)
            await publisher.declare(TRADES)
            client = await net.client(broker, most_waiting=SMALL)
            got: list[int] = []
            wanted = {"durable": durable} if durable else {}
            async with client.events("trades", "issue = 'IBM'", **wanted) as events:
                assert events.subscription is not None
                for begin in range(20):
                    await publisher.publish("trades", [{"issue": "IBM", "volume": 100 * begin + each} for each in range(100)])
                while len(got) + events.subscription.missed < 2_000:
                    got.append((await anext(events))["volume"])
                    if len(got) < 30:
                        await client.publish("trades", {"issue": "seen"})
                assert client._waiting <= 3 * SMALL
            assert got == sorted(set(got))
            assert not durable or len(got) == 2_000

    told()


@story
async def test_a_loop_that_is_left_ends_its_subscription() -> None:
    async with Net() as net:
        broker, publisher = await net.alone()
        client = await net.client(broker, most_waiting=SMALL)
        begun = asyncio.Event()

        async def first() -> Any:
            stream = client.events("trades")
            await stream.ready()
            begun.set()
            async for event in stream:
                return event

        reading = asyncio.ensure_future(first())
        await begun.wait()
        await publisher.publish("trades", EVENTS)
        assert (await reading)["volume"] == 0
        gc.collect()
        await until(lambda: not client._subscriptions)
        got: list[Any] = []
        await client.subscribe("trades", deliver=got.append)
        await publisher.publish("trades", EVENTS)
        await until(lambda: len(got) == len(EVENTS))


@story
async def test_a_client_comes_back_although_its_program_fails_to_hear_of_it() -> None:
    failures: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: failures.append(told["exception"]))
    async with Net() as net:
        broker, _ = await net.alone()

        def told(what: str, about: str) -> None:
            raise OSError(what)

        client = await net.client(broker, on_change=told)
        assert client._connection is not None
        client._connection.abort()
        await until(lambda: client.reconnections)
        assert list(await client.spaces()) == ["trades"]
        assert {str(each) for each in failures} == {"lost", "connected"}


@story
async def test_what_can_never_work_is_refused_at_once() -> None:
    async with Net() as net:
        _, client = await net.alone()
        with pytest.raises(ContentcastError, match="deliver= is a function that is called with what comes, got 5"):
            await client.subscribe("trades", deliver=5)  # type: ignore[arg-type]
        for wrong in (None, 5):
            with pytest.raises(ContentcastError, match="a predicate is a text, 'TRUE' for every event; got"):
                await client.subscribe("trades", wrong, deliver=print)  # type: ignore[arg-type]
            with pytest.raises(ContentcastError, match="a predicate is a text"):
                await client.subscribe_many("trades", [wrong])  # type: ignore[list-item]
            with pytest.raises(ContentcastError, match="a predicate is a text"):
                await client.advertise("trades", wrong)  # type: ignore[arg-type]
            with pytest.raises(ContentcastError, match=r"a space is its name or a cc\.Space, got"):
                await client.publish(wrong, {"issue": "IBM"})  # type: ignore[call-overload]
            with pytest.raises(ContentcastError, match=r"a space is its name or a cc\.Space, got"):
                await client.subscribe(wrong, deliver=print)  # type: ignore[arg-type]
        subscription = await client.subscribe("trades", deliver=print)
        with pytest.raises(ContentcastError, match="a predicate is a text"):
            await subscription.change(None)  # type: ignore[arg-type]
