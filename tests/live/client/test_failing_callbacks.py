"""A callback that raises: other events come all the same, and no durable one is acknowledged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import contentcast as cc
from contentcast.live.client.durable import DurableSubscription
from tests.live.stories import TRADES, Net, story, until


@pytest.mark.parametrize("acknowledge", [True, False])
def test_a_durable_subscription_stops_at_the_event_that_failed(acknowledge: bool, tmp_path: Path) -> None:
    @story
    async def told() -> None:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
        changes: list[tuple[str, str]] = []
        got: list[int] = []
        async with Net() as net:
            a = await net.broker("a", data=tmp_path / "a")
            client = await net.client(a, on_change=lambda *each: changes.append(each))
            await client.declare(TRADES)

            def work(event: dict[str, Any]) -> None:
                if event["volume"] == 3:
                    raise OSError("the disk of the program is full")
                got.append(event["volume"])
                if not acknowledge:
                    subscription.acknowledge()

            options = {"durable": "desk-7", "acknowledge": acknowledge}
            subscription = await client.subscribe("trades", deliver=work, **options)
            assert isinstance(subscription, DurableSubscription)
            await client.publish("trades", [{"volume": each} for each in range(1, 6)])
            await until(lambda: not a.serving.sessions[client.name].subscriptions)
            assert got == [1, 2]
            assert [str(each["exception"]) for each in complaints] == ["the disk of the program is full"]
            ((what, about),) = changes
            assert what == "failed"
            assert about.startswith("desk-7: its callback failed at number 3")
            assert about.endswith("the disk of the program is full")
            await client.publish("trades", {"volume": 6})
            assert (await client.place("desk-7")).acknowledged == 2

            async with client.events("trades", durable="desk-7") as again:
                assert [(await anext(again))["volume"] for _ in range(4)] == [3, 4, 5, 6]
            async with cc.connect(str(a.addresses[0])) as other:
                assert (await other.place("desk-7")).acknowledged == 5

    told()


@story
async def test_any_other_subscription_goes_on() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    async with Net() as net:
        _, client = await net.alone()
        got: list[int] = []

        def work(event: dict[str, Any]) -> None:
            got.append(event["volume"])
            raise OSError("at every event")

        await client.subscribe("trades", deliver=work)
        await client.publish("trades", [{"volume": 1}, {"volume": 2}])
        await until(lambda: got == [1, 2])
