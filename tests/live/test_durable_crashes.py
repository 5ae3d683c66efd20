"""Nothing accepted is lost or doubled: brokers killed in turn and together, links cut, clients killed, disks full."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.live.ledger import Brokers, Desk, Feed
from tests.live.stories import LIMIT_S, Process, long_story, until

LINE = {"a": [], "b": ["a"], "c": ["b"]}


@asynccontextmanager
async def a_network(folder: Path) -> AsyncIterator[tuple[Brokers, list[Feed], list[Desk]]]:
    """Three brokers in a line, feeds at both ends, desks at all; judged at the end."""
    brokers = Brokers(folder, LINE)
    desks: list[Desk] = []
    try:
        await brokers.start_all()
        for name, broker, below in (("one", "a", 50.0), ("two", "b", 100.0), ("three", "c", 20.0), ("four", "c", 100.0)):
            desk = Desk(name, brokers.addresses[broker], below)
            await desk.begin()
            desks.append(desk)
        feeds = [Feed("left", brokers.addresses["a"]), Feed("right", brokers.addresses["c"])]
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
