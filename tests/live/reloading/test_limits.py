"""Limits and other settings that are changed while a broker runs: they count at once, or it is said that they do not."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest

import contentcast as cc
from contentcast.live.broker import Broker
from contentcast.live.errors import LiveError
from contentcast.live.looking.log import Log
from contentcast.live.settings.address import read_address
from contentcast.live.settings.config import BrokerConfig
from contentcast.live.settings.limits import Limits
from tests.live.stories import TRADE, TRADES, Net, story, until


def change(broker: Broker, **settings: Any) -> str:
    return str(broker.reload(lambda: replace(broker.config, **settings))["unchanged_until_restart"])


@story
async def test_limits_of_spaces_are_raised() -> None:
    async with Net() as net:
        a = await net.broker("a", limits=Limits(spaces=1, attributes=2))
        client = await net.client(a)
        small, wide = cc.Space("small", x="int"), cc.Space("wide", x="int", y="int", z="int")
        await client.declare(small)
        with pytest.raises(LiveError, match="limit attributes"):
            await client.declare(wide)
        assert change(a, limits=Limits(spaces=10, attributes=20)) == "nothing"
        await client.declare(wide)


@story
async def test_limits_of_links_and_messages_count_for_those_that_are_connected() -> None:
    async with Net() as net:
        a = await net.broker("a")
        b = await net.broker("b", a)
        client = await net.client(a)
        await client.declare(TRADES)
        change(a, limits=Limits(link_message_bytes=70_000, client_message_bytes=80_000, dead_after_s=60.0))
        (link,) = a.neighbours.links.values()
        assert link.connection.most_bytes == 70_000
        assert a.serving.sessions[client.name].connection.most_bytes == 80_000
        change(b, limits=Limits(dead_after_s=0.0))  # whoever was silent at all is taken for dead
        await until(lambda: "b" not in a.neighbours.links)
        await client.publish("trades", TRADE)


@story
async def test_what_counts_only_after_a_restart_is_named() -> None:
    async with Net() as net:
        a = await net.broker("a", protocol="overlay")
        told = change(a, join=(read_address("127.0.0.1:1"),), options={"leaf": 8}, http="127.0.0.1:0")
        assert told == "join, options, http"
        assert change(a) == "nothing"


@story
async def test_the_form_of_the_log_changes_at_once() -> None:
    out = io.StringIO()
    async with Broker(BrokerConfig(name="a"), log=Log("text", "a", out)) as broker:
        change(broker, log="json")
        assert json.loads(out.getvalue().splitlines()[-1])["what"] == "reloaded"
