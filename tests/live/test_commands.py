"""The commands as real processes: from nothing to an event that arrives."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.stories import Process, story, until

DECLARE = "issue string, price float"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    running: list[Process] = []

    def begin(*words: str, **options: Any) -> Process:
        running.append(Process(tmp_path, *words, **options))
        return running[-1]

    yield begin
    for each in running:
        each.end()


def test_from_nothing_to_an_event_in_another_terminal(start: Any, tmp_path: Path) -> None:
    @story
    async def told() -> None:
        broker = start("broker", "--listen", "contentcast://127.0.0.1:0")
        address = (await broker.line("broker ")).split()[-1]
        subscriber = start("subscribe", "trades", "price < 120", "--declare", DECLARE, "--broker", address, "--count", "1")
        await until(lambda: "subscribed" in subscriber.complained())
        (tmp_path / "in.jsonl").write_text('{"issue": "SAP", "price": 121}\n{"issue": "IBM", "price": 119.5}\n')
        with (tmp_path / "in.jsonl").open() as given:
            publisher = start("publish", "trades", "--broker", address, stdin=given)
        assert await publisher.line() == "2 events accepted\n"
        assert json.loads(await subscriber.line()) == {"issue": "IBM", "price": 119.5}
        assert await subscriber.ended() == 0
        broker.signal(signal.SIGTERM)
        assert await broker.ended() == 0

    told()


def test_a_mistake_ends_with_2_and_shows_its_place(start: Any) -> None:
    @story
    async def told() -> None:
        broker = start("broker", "--listen", "contentcast://127.0.0.1:0", "--json")
        address = json.loads(await broker.line())["listen"][0]
        wrong = start("subscribe", "trades", "prise < 120", "--declare", DECLARE, "--broker", address)
        assert await wrong.ended() == 2
        assert wrong.complained().splitlines()[-3:] == [
            "contentcast: line 1, column 1: trades has no attribute 'prise'; did you mean 'price'?",
            "    prise < 120",
            "    ^",
        ]
        nobody = start("publish", "trades", "--broker", "127.0.0.1:1", stdin=subprocess.DEVNULL)
        assert await nobody.ended() == 2
        assert "no broker answers" in nobody.complained()

    told()


def test_a_broker_open_to_other_machines_wants_tls_or_a_word(start: Any) -> None:
    @story
    async def told() -> None:
        broker = start("broker", "--listen", "contentcast://0.0.0.0:0")
        assert await broker.ended() == 2
        assert "--insecure" in broker.complained()

    told()


def test_the_example_config_works(start: Any, tmp_path: Path) -> None:
    @story
    async def told() -> None:
        example = start("broker", "--example-config")
        assert await example.ended() == 0
        (tmp_path / "nyc.toml").write_text(example.said())
        broker = start("broker", "--config", str(tmp_path / "nyc.toml"), "--listen", "contentcast://127.0.0.1:0")
        assert (await broker.line("broker ")).startswith("broker nyc listens on contentcast://127.0.0.1:")

    told()
