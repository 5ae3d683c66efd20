"""A broker goes and comes back: who waits for it, what others say meanwhile, and what nobody waits for."""

from __future__ import annotations

from pathlib import Path

import contentcast as cc
from tests.live.stories import TRADE, TRADES, story, until
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
