"""Nothing accepted is lost or doubled: brokers killed in turn and together, links cut, clients killed, disks full."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from contentcast.live.broker import Broker
from contentcast.live.looking.log import Silent
from contentcast.live.settings.config import BrokerConfig
from tests.live.ledger import Brokers, Desk, Feed, Gate
from tests.live.stories import LIMIT_S, Net, Process, long_story, until

LINE = {"a": [], "b": ["a"], "c": ["b"]}


async def _holds_everywhere(desk: Desk) -> bool:
    """Before anything is published. On a busy machine a link may be lost meanwhile; then the desk asks again."""
    await desk.end()
    await desk.begin()
    return desk.holds_at == set(LINE)


@asynccontextmanager
async def a_network(folder: Path) -> AsyncIterator[tuple[Brokers, list[Feed], list[Desk]]]:
    """Three brokers in a line, feeds at both ends that know a second address, desks at all; judged at the end."""
    brokers = Brokers(folder, LINE)
    desks: list[Desk] = []
    try:
        await brokers.start_all()
        for name, broker, below in (("one", "a", 50.0), ("two", "b", 100.0), ("three", "c", 20.0), ("four", "c", 100.0)):
            desks.append(Desk(name, brokers.addresses[broker], below))
            await until(partial(_holds_everywhere, desks[-1]), LIMIT_S)
        ways = {"left": ("a", "b"), "right": ("c", "a")}
        feeds = [Feed(name, ",".join(brokers.addresses[each] for each in way)) for name, way in ways.items()]
        yield brokers, feeds, desks
        for feed in feeds:
            await feed.stop()
        for desk in desks:
            await desk.judge(feeds)
    finally:
        for desk in desks:
            await desk.end()
        brokers.end()


@long_story
async def test_every_broker_is_killed_in_turn_and_then_all_at_once(tmp_path: Path) -> None:
    async with a_network(tmp_path) as (brokers, feeds, desks):
        for victim in ("b", "a", "c"):
            for feed in feeds:
                await feed.reached(50)
            brokers.kill(victim)
            await brokers.start(victim)
        for feed in feeds:
            await feed.reached(50)
        brokers.kill("a", "b", "c")
        await brokers.start("a", "b", "c")
        for feed in feeds:
            await feed.reached(50)
    assert sum(len(desk.got) for desk in desks) > 400


@long_story
async def test_while_the_broker_between_is_down_both_sides_accept_and_later_get_it_all(tmp_path: Path) -> None:
    async with a_network(tmp_path) as (brokers, feeds, desks):
        for feed in feeds:
            await feed.reached(20)
        brokers.kill("b")
        for feed in feeds:
            await feed.reached(200)
        await brokers.start("b")
        await until(lambda: all(desk.lacks(feeds) < 100 for desk in desks), LIMIT_S)


@long_story
async def test_a_killed_subscriber_goes_on_behind_the_last_number_that_it_has_written(tmp_path: Path) -> None:
    """Its own output is its memory: the numbers in it have no gap, and no number stands twice."""
    async with a_network(tmp_path) as (brokers, feeds, _):
        lines: list[dict[str, object]] = []
        for _life in range(3):
            last = [] if not lines else ["--after", str(lines[-1]["number"])]
            words = ["subscribe", "orders", "price < 100", "--durable", "tail", "--json", "--broker", brokers.addresses["b"]]
            tail = Process(tmp_path, *words, *last)
            brokers.begun.append(tail)
            await until(lambda tail=tail: tail.said().count("\n") > 20)
            tail.end()
            # What it was writing when it was killed is cut; a number that is not written was not taken.
            lines += [json.loads(each) for each in tail.said().splitlines(keepends=True) if each.endswith("\n")]
        for feed in feeds:
            await feed.stop()
    assert [line["number"] for line in lines] == list(range(1, len(lines) + 1))
    for feed in feeds:
        got = [line["event"]["number"] for line in lines if line["event"]["feed"] == feed.name]  # type: ignore[index]
        assert got == list(range(got[0], got[0] + len(got)))


@pytest.mark.parametrize("how", ["cut", "fall_silent"])
def test_a_network_that_is_cut_in_two_accepts_on_both_sides_and_later_all_get_all(tmp_path: Path, how: str) -> None:
    """Every way between the two brokers goes through a gate, also the one that a direct message would take."""

    @long_story
    async def told() -> None:
        async with Net() as net, Gate() as gate_a, Gate() as gate_b:
            a = await net.broker("a", data=tmp_path / "a", advertise=(gate_a.address,))
            gate_a.target = ("127.0.0.1", a.addresses[0].port)
            settings = {"data": tmp_path / "b", "advertise": (gate_b.address,)}
            config = BrokerConfig(name="b", neighbours=(gate_a.address,), **settings)  # type: ignore[arg-type]
            b = await net.enter_async_context(Broker(config, log=Silent()))
            gate_b.target = ("127.0.0.1", b.addresses[0].port)
            await until(lambda: a.neighbours.links and b.neighbours.links)
            desks = [Desk("left", str(a.addresses[0]), 100.0), Desk("right", str(b.addresses[0]), 30.0)]
            for desk in desks:
                await desk.begin()
                assert desk.holds_at == {"a", "b"}
            feeds = [Feed("one", str(a.addresses[0])), Feed("two", str(b.addresses[0]))]
            for _round in range(2):
                for feed in feeds:
                    await feed.reached(50)
                for gate in (gate_a, gate_b):
                    getattr(gate, how)()
                await until(lambda: not a.neighbours.links and not b.neighbours.links)
                for feed in feeds:
                    await feed.reached(50)
                for gate in (gate_a, gate_b):
                    gate.mend()
                await until(lambda: a.neighbours.links and b.neighbours.links)
            for feed in feeds:
                await feed.stop()
            for desk in desks:
                await desk.judge(feeds)
                await desk.end()

    told()


@long_story
async def test_a_full_disk_stops_the_broker_with_the_reason_and_loses_nothing_that_was_accepted(tmp_path: Path) -> None:
    """No file may be larger than some kilobytes: the log is full after some hundred events."""

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    brokers = Brokers(tmp_path, {"a": []})
    try:
        await brokers.start("a", before=small_files)
        desk = Desk("desk", brokers.addresses["a"], 100.0)
        await desk.begin()
        feed = Feed("feed", brokers.addresses["a"])
        full = brokers.running["a"]
        assert await full.ended() == 2
        assert "writing failed: [Errno 27] File too large" in full.complained()
        assert "make room, and start it again" in full.complained()
        accepted = len(feed.accepted)
        assert accepted > 50
        await brokers.start("a")
        await feed.reached(50)
        await feed.stop()
        await desk.judge([feed])
        await desk.end()
    finally:
        brokers.end()


def test_a_damaged_log_stops_the_start_with_the_place_and_is_found_by_verify(tmp_path: Path) -> None:
    @long_story
    async def told() -> None:
        brokers = Brokers(tmp_path, {"a": []})
        try:
            await brokers.start("a")
            feed = Feed("feed", brokers.addresses["a"], in_flight=1)  # many groups in the log
            await feed.reached(50)
            await feed.stop()
            brokers.kill("a")
            (log,) = (tmp_path / "a").glob("*.log")
            whole = log.read_bytes()
            found = Process(tmp_path, "broker", "verify", str(tmp_path / "a"), "--json")
            brokers.begun.append(found)
            assert await found.ended() == 0
            assert json.loads(found.said())["last"] >= 13
            damaged = bytearray(whole)
            damaged[len(whole) // 2] ^= 1
            log.write_bytes(damaged)
            for words in (["verify", str(tmp_path / "a")], ["--data", str(tmp_path / "a"), "--listen", "127.0.0.1:0"]):
                process = Process(tmp_path, "broker", *words)
                brokers.begun.append(process)
                assert await process.ended() == 2
                assert re.search(r"damaged at byte \d+: .*bring the folder back from a copy", process.complained())
            assert log.read_bytes() == damaged, "nothing was changed"
        finally:
            brokers.end()

    told()
