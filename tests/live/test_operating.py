"""What an operator looks at and does: health, metrics, state, logs, a new configuration, a restart."""

from __future__ import annotations

import asyncio
import io
import json
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from rich.console import Console

import contentcast as cc
from contentcast.commands.live.top import _picture
from contentcast.live.broker import Broker
from contentcast.live.errors import LiveError
from contentcast.live.looking.http import Metrics, serve_http
from contentcast.live.looking.inspection import state
from contentcast.live.looking.log import Log, Silent
from contentcast.live.looking.meters import Meter
from contentcast.live.records import InMemory
from contentcast.live.settings.access import Access, Rights
from contentcast.live.settings.config import BrokerConfig
from contentcast.live.settings.identity import read_identity
from contentcast.routing.contract import Append
from tests.live.stories import LIMIT_S, TRADE, TRADES, Net, knows_space, story, until, wanted_at


@story
async def test_health_metrics_and_state_over_http() -> None:
    async with Net() as net:
        a = await net.broker("a")
        await net.broker("b", a)
        client = await net.client(a, name="desk-7")
        await client.declare(TRADES)
        await client.subscribe("trades", "price < 120", deliver=print)
        await client.publish("trades", [TRADE, TRADE | {"price": 500.0}])
        http = await serve_http(a, "127.0.0.1:0")
        async with aiohttp.ClientSession(http.address) as web:

            async def get(path: str) -> tuple[int, str]:
                async with web.get(path) as answer:
                    return answer.status, await answer.text()

            assert await get("/healthz") == (200, "ok\n")
            assert await get("/readyz") == (200, "ready\n")
            _, metrics = await get("/metrics")
            assert "contentcast_published_total 2.0" in metrics
            assert "contentcast_delivered_total 1.0" in metrics
            assert 'contentcast_link_bytes_out_total{link="b"}' in metrics
            assert "desk-7" not in metrics, "no label for a client"
            told = json.loads((await get("/state"))[1])
            assert told["links"].keys() == {"b"}
            assert told["clients"][0]["name"] == "desk-7"
            a.is_ready = False
            assert await get("/readyz") == (503, "not ready\n")
        await http.close()


@story
async def test_rates_and_latencies_by_space_and_link() -> None:
    async with Net() as net:
        a = await net.broker("a")
        b = await net.broker("b", a)
        near, far = await net.client(a, name="desk-7"), await net.client(b, name="desk-8")
        await near.declare(TRADES)
        await knows_space(far)
        stream = await far.events("trades", "price < 120").ready()
        await near.subscribe("trades", "price < 120", deliver=lambda event: None)
        await wanted_at(a, "b")
        await near.publish("trades", [TRADE, TRADE, TRADE | {"price": 500.0}])
        await anext(stream)
        told, there = await near.ask("state"), await far.ask("state")
        (space,) = told["by_space"].values()
        assert (space["published"]["events"], space["delivered"]["events"]) == (3, 2)
        assert 0 < space["delivered"]["p50_ms"] <= space["delivered"]["p99_ms"] < 1000 * LIMIT_S
        assert space["published"]["per_s"] > 0
        assert told["links"]["b"]["events_out"] == 2
        assert told["links"]["b"]["passing"]["p99_ms"] > 0
        assert there["by_space"]["trades"].keys() == {"delivered"}, "what clients published elsewhere is counted there"
        await until(lambda: a.witness.meters.beats["b"].events)
        assert (await near.ask("state"))["links"]["b"]["delay"]["p50_ms"] > 0
        metrics = generate_latest(_registry(a)).decode()
        assert 'contentcast_deliver_seconds_count{space="trades"} 2.0' in metrics
        assert 'contentcast_link_seconds_bucket{le="+Inf",link="b"} 2.0' in metrics
        assert "desk" not in metrics
        shown = io.StringIO()
        Console(file=shown, width=200).print(_picture(told, None))
        assert "trades" in shown.getvalue()


def _registry(broker: Broker) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(Metrics(broker))
    return registry


def test_a_meter_forgets_what_was_long_ago_and_keeps_its_sums() -> None:
    meter = Meter(now=100.0)
    meter.add(99, 0.001, 101.0)
    meter.add(1, 0.5, 101.0)
    lately = meter.lately(102.0)
    assert lately["per_s"] == 50.0
    assert 1.0 <= lately["p50_ms"] <= lately["p90_ms"] < 1.2
    assert lately["p99_ms"] < 1.2
    meter.add(100, 0.5, 112.0)
    assert 500 <= meter.lately(112.0)["p90_ms"] < 600, "the last window still counts"
    assert meter.lately(150.0) == {"per_s": 0.0}
    assert meter.events == 200
    assert meter.buckets()[-1] == ("+Inf", 200.0)
    counts = [count for _, count in meter.buckets()]
    assert counts == sorted(counts), "each bound counts all below it"
    meter.add(1, 1e9, 151.0)
    assert meter.lately(152.0)["p50_ms"] >= 10_000, "what takes longer than the last bound is told as that bound"


@story
async def test_a_log_has_a_line_for_each_thing() -> None:
    out = io.StringIO()
    async with Broker(BrokerConfig(name="a", log="json"), log=Log("json", "a", out)):
        pass
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [each["what"] for each in lines] == ["started", "stopped"]
    assert lines[0]["broker"] == "a"


@story
async def test_a_new_configuration_counts_at_once() -> None:
    async with Net() as net:
        a, b = await net.broker("a"), await net.broker("b")
        client = await net.client(a)
        await client.declare(TRADES)
        closed = Access((), {"*": Rights(subscribe={"*": "TRUE"})})
        a.reload(lambda: replace(a.config, neighbours=b.addresses, spaces=(cc.Space("logs", line="string"),)))
        await until(lambda: "b" in a.neighbours.links)
        assert sorted(await client.spaces()) == ["logs", "trades"]
        a.reload(lambda: replace(a.config, neighbours=()))
        await until(lambda: not a.neighbours.links)
        a.reload(lambda: replace(a.config, access=closed))
        with pytest.raises(LiveError, match="may not publish"):
            await client.publish("trades", TRADE)
        a.reload(lambda: replace(a.config, access=Access()))
        await client.publish("trades", TRADE)

        def broken() -> BrokerConfig:
            raise cc.ContentcastError("line 3 is no TOML")

        with pytest.raises(cc.ContentcastError):
            a.reload(broken)
        assert isinstance(a.log, Silent)
        assert a.log.notes[-1] == ("not reloaded", {"reason": "line 3 is no TOML"})


def test_a_broker_keeps_its_name_and_each_life_has_a_greater_number(tmp_path: Path) -> None:
    @story
    async def told() -> None:
        config = BrokerConfig(name="nyc", data=tmp_path)
        numbers = []
        for name in ("nyc", "nyc", "nyc", ""):
            async with Broker(replace(config, name=name), log=Silent()) as broker:
                assert broker.name == "nyc"
                numbers.append(broker.incarnation)
        assert numbers == sorted(set(numbers))
        ahead = json.loads((tmp_path / "identity.json").read_text()) | {"incarnation": numbers[-1] + 10**6}
        (tmp_path / "identity.json").write_text(json.dumps(ahead))
        async with Broker(config, log=Silent()) as broker:
            assert broker.incarnation == numbers[-1] + 10**6 + 1, "the clock has gone back"
        known = read_identity(tmp_path)
        assert known is not None
        assert known.lives == 5
        with pytest.raises(cc.ContentcastError, match="belongs to the broker nyc"):
            Broker(replace(config, name="lon"))
        for log in tmp_path.glob("*.log"):
            log.unlink()
        with pytest.raises(cc.ContentcastError, match=r"has no \.log file: the records of broker nyc are gone"):
            Broker(config)
        (tmp_path / "identity.json").write_text("{")
        with pytest.raises(cc.ContentcastError, match="is damaged"):
            Broker(config)

    told()


@story
async def test_records_of_the_router_are_appended_and_answered() -> None:
    """The seam for durable delivery: `Append` goes to the records, `Synced` comes back, `Started` brings what was kept."""
    kept = (b"one", b"two")

    class Kept(InMemory):
        def restored(self) -> tuple[tuple[bytes, ...], int]:
            return kept, 0

    heard: list[object] = []
    broker = Broker(BrokerConfig(name="a"), log=Silent(), make_records=Kept)
    real = broker.handle
    broker.handle = lambda input: (heard.append(input), real(input))[1]  # type: ignore[method-assign]
    async with broker:
        broker._how[Append](Append(b"three"))
        await until(lambda: any(getattr(each, "upto", 0) == 1 for each in heard))
        assert getattr(heard[0], "restored", None) == kept


@story
async def test_publishers_wait_while_a_link_is_full() -> None:
    """The other broker reads nothing: what waits for the link stays within its limit, and so does what the publisher sends."""
    from contentcast.live.settings.limits import Limits

    limits = Limits(link_queue_bytes=4 * 2**20, window_bytes=2**20, dead_after_s=60.0)
    async with Net() as net:
        a = await net.broker("a", limits=limits)
        b = await net.broker("b", a, limits=limits)
        publisher, subscriber = await net.client(a), await net.client(b)
        await publisher.declare(TRADES)
        await until(lambda: "trades" in b.spaces.present)
        await subscriber.subscribe("trades", "TRUE", deliver=lambda event: None)
        await until(lambda: "b" in a.router.state()["subscriptions"])
        b.neighbours.links["a"].connection.pause_reading()
        big = [{"issue": "x" * 10_000, "price": 1.0}] * 50

        async def pour() -> None:
            while True:
                await publisher.publish("trades", big, wait=False)

        pouring = asyncio.create_task(pour())
        await until(lambda: a.throttle.held)
        stopped_at = a.serving.published
        for _ in range(20):
            await asyncio.sleep(0.01)
            assert state(a)["links"]["b"]["queued_bytes"] < 2 * limits.link_queue_bytes
        assert a.serving.published == stopped_at, "nothing more is taken from the publisher"
        b.neighbours.links["a"].connection.resume_reading()
        await until(lambda: a.serving.published > stopped_at + 1000)
        pouring.cancel()
        assert "b" in a.neighbours.links
