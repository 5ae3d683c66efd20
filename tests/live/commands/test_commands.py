"""The commands as real processes: from nothing to an event that arrives."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import contentcast as cc
from contentcast.cli import app
from contentcast.live.broker import Broker
from contentcast.live.looking.log import Silent
from contentcast.live.settings.address import read_address
from contentcast.live.settings.config import EXAMPLE, BrokerConfig, read_broker_config
from tests.live.stories import Net, long_story, story, until

DECLARE = "issue string, price float"


def readme_commands() -> list[list[str]]:
    """The words of the three commands, without `contentcast`; of the last one what it is fed with stands before."""
    text = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"tests/live/commands/test_commands.py runs them -->\n```console\n(.*?)```", text, re.DOTALL)
    return [shlex.split(line.removeprefix("$ ")) for line in block.splitlines()]


def test_from_nothing_to_an_event_in_another_terminal(start: Any, tmp_path: Path) -> None:
    """The commands of the README, at another port."""
    first, second, third = readme_commands()
    assert third[0] == "echo"
    assert third[2:4] == ["|", "contentcast"]

    @story
    async def told() -> None:
        broker = start(*first[1:], "--listen", "contentcast://127.0.0.1:0")
        address = (await broker.line("broker ")).split()[-1]
        subscriber = start(*second[1:], "--broker", address, "--count", "1")
        await until(lambda: "subscribed" in subscriber.complained())
        (tmp_path / "in.jsonl").write_text('{"issue": "SAP", "price": 121}\n' + third[1] + "\n")
        with (tmp_path / "in.jsonl").open() as given:
            publisher = start(*third[4:], "--broker", address, stdin=given)
        assert await publisher.line() == "2 events accepted\n"
        assert json.loads(await subscriber.line()) == json.loads(third[1])
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


def test_a_misspelt_file_is_told_before_anything_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.jsonl").write_text('{"issue": "IBM"}\n')
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    for words, complaint in [
        (["good.jsonl", "god.jsonl"], "there is no file god.jsonl; nothing was published"),
        (["g*.json"], "no file has a name like g*.json"),
        (["good.jsonl", "pipe.jsonl"], "pipe.jsonl is a pipe, not a file; write what comes from it into a file first"),
        (["good.jsonl", "folder"], "folder is a folder, not a file; nothing was published"),
    ]:
        told = CliRunner().invoke(app, ["publish", "trades", *words, "--broker", "contentcast://127.0.0.1:1"])
        assert (told.exit_code, told.stderr) == (2, f"contentcast: {complaint}\n")


@pytest.mark.parametrize("command", ["publish", "subscribe"])
def test_a_declaration_of_nothing_is_refused(command: str) -> None:
    told = CliRunner().invoke(app, [command, "trades", "--declare", ""])
    assert told.exit_code == 2
    assert """takes a name and a kind for each attribute, "issue string, price float", got ''""" in told.stderr


def test_a_publisher_with_a_name_goes_to_one_broker(tmp_path: Path) -> None:
    (tmp_path / "day.jsonl").write_text('{"issue": "IBM"}\n')
    words = ["publish", "trades", str(tmp_path / "day.jsonl"), "--publisher", "feed", "--broker", "127.0.0.1:1,127.0.0.1:2"]
    told = CliRunner().invoke(app, words)
    assert (told.exit_code, told.stderr) == (
        2,
        "contentcast: --publisher goes to one broker, not to several: it alone knows what it has accepted\n",
    )


def test_a_broker_open_to_other_machines_wants_tls_or_a_word() -> None:
    open_to_all = BrokerConfig(listen=(read_address("contentcast://0.0.0.0:0"),))
    with pytest.raises(cc.ContentcastError, match="--insecure"):
        open_to_all.check()
    replace(open_to_all, insecure=True).check()


def test_a_lan_needs_no_broker_and_the_error_says_what_to_use() -> None:
    with pytest.raises(cc.ContentcastError, match=r"lan://.*contentcast lan gateway"):
        BrokerConfig(protocol="multicast").check()


def test_the_example_config_works(tmp_path: Path) -> None:
    @story
    async def told() -> None:
        (tmp_path / "nyc.toml").write_text(EXAMPLE)
        config = read_broker_config(tmp_path / "nyc.toml")
        async with Broker(replace(config, listen=(read_address("127.0.0.1:0"),)), log=Silent()) as broker:
            assert broker.name == "nyc"

    told()


def test_a_signal_makes_a_broker_read_its_file_again(start: Any, tmp_path: Path) -> None:
    """A right and a space come with SIGHUP; a file that is wrong changes nothing and stands in the log."""

    @story
    async def told() -> None:
        file = tmp_path / "nyc.toml"
        cc.Space("logs", line="string").save(tmp_path / "logs.json")
        before = 'name = "nyc"\nlisten = ["contentcast://127.0.0.1:0"]\nlog = "json"\n'
        file.write_text(before + '[access.rights."*"]\nsubscribe = { "*" = "TRUE" }\n')
        broker = start("broker", "--config", str(file))
        url = re.findall(r"contentcast://\S+", await broker.line("broker nyc"))[0]
        async with cc.connect(url) as client:
            assert not await client.spaces()
            file.write_text(before + 'spaces = ["logs.json"]\n')
            broker.signal(signal.SIGHUP)

            async def reloaded() -> bool:
                return "logs" in await client.spaces()

            await until(reloaded)
            await client.publish("logs", {"line": "now it may"})
            file.write_text("name = 5")
            broker.signal(signal.SIGHUP)
            await until(lambda: "not reloaded" in broker.complained())
            await client.publish("logs", {"line": "and still may"})
        broker.signal(signal.SIGTERM)
        assert await broker.ended() == 0

    told()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_comes_while_a_broker_starts(start: Any, tmp_path: Path, number: signal.Signals) -> None:
    """It has asked somebody who does not answer through whom it may join. SIGHUP counts when it runs, the others at once."""

    @long_story
    async def told() -> None:
        calls: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        silent = await asyncio.start_server(lambda _, writer: calls.put_nowait(writer), "127.0.0.1", 0)
        nobody = f"contentcast://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        async with Net() as net:
            there = await net.broker("there", protocol="overlay")
            joins = ("--join", nobody, "--join", str(there.addresses[0]), "--protocol", "overlay")
            broker = start("broker", "--name", "nyc", "--listen", "contentcast://127.0.0.1:0", *joins)
            call = await calls.get()
            broker.signal(number)
            if number == signal.SIGHUP:
                call.close()
                await broker.line("broker nyc")
                await until(lambda: " reloaded" in broker.complained())
                broker.signal(signal.SIGTERM)
            assert await broker.ended() == 0, broker.complained()
            assert " stopped" in broker.complained()
            assert (number == signal.SIGHUP) == ("broker nyc" in broker.said())
            call.close()
        silent.close()

    told()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('nam = "nyc"', "there is no setting 'nam'; did you mean 'name'?"),
        ('listen = ["http://x"]', "there is no scheme http://"),
        ("[limits]\nclient_queue = 5", "there is no limit 'client_queue'; did you mean 'client_queue_bytes'?"),
        ('on_slow = "wait"', "on_slow is one of pause, skip, disconnect"),
        ('[tls]\ncertificate = "x"', "[tls] lacks key"),
        ("[access.rights.x]\npublish = 5", "publish says a predicate for each space"),
    ],
)
def test_what_is_wrong_in_a_config_is_said_with_its_file(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "nyc.toml").write_text(text)
    with pytest.raises(cc.ContentcastError) as wrong:
        read_broker_config(tmp_path / "nyc.toml")
    assert str(wrong.value).startswith(f"{tmp_path / 'nyc.toml'}: ")
    assert complaint in str(wrong.value)


def test_a_network_file_goes_up_and_down(start: Any, tmp_path: Path) -> None:
    @long_story
    async def told() -> None:
        (tmp_path / "lab.edges").write_text("a b\nb c\n")
        up = start("network", "up", str(tmp_path / "lab.edges"), "--json")
        assert await up.ended() == 0, up.complained()
        brokers = json.loads(up.said())
        try:
            assert {name: each["links"] for name, each in brokers.items()} == {"a": ["b"], "b": ["a", "c"], "c": ["b"]}
            addresses = ",".join(each["address"] for each in brokers.values())
            for words in (("--broker", addresses), ("--network", str(tmp_path / "lab.edges"))):
                looked = start("top", "--once", "--json", *words)
                assert await looked.ended() == 0, looked.complained()
                assert [json.loads(line)["broker"] for line in looked.said().splitlines()] == ["a", "b", "c"]
            up = start("network", "up", str(tmp_path / "lab.edges"))
            assert await up.ended() == 2
            assert "is up" in up.complained()
            os.kill(brokers["b"]["pid"], signal.SIGKILL)
            other = start("network", "up", str(tmp_path / "lab.edges"), "--protocol", "flooding")
            assert await other.ended() == 2
            assert "another protocol" in other.complained()
            again = start("network", "up", str(tmp_path / "lab.edges"), "--json")
            assert await again.ended() == 0, again.complained()
            there = json.loads(again.said())
            assert {name: each["links"] for name, each in there.items()} == {"a": ["b"], "b": ["a", "c"], "c": ["b"]}
            assert {name: each["address"] for name, each in there.items()} == {
                name: each["address"] for name, each in brokers.items()
            }
            assert [name for name in there if there[name]["pid"] != brokers[name]["pid"]] == ["b"]
        finally:
            down = start("network", "down", str(tmp_path / "lab.edges"))
            assert await down.ended() == 0
        assert down.said() == "3 brokers stopped\n"
        status = start("network", "status", str(tmp_path / "lab.edges"))
        assert await status.ended() == 2
        assert "network up" in status.complained()

    told()


def test_top_goes_on_when_a_broker_goes(start: Any) -> None:
    @story
    async def told() -> None:
        async with Net() as net:
            a, b, _, _ = await net.pair()
            addresses = f"{a.addresses[0]},{b.addresses[0]}"
            top = start("top", "--json", "--every", "0.1", "--broker", addresses)
            await top.line('{"broker": "b"')
            await b.stop()
            gone = json.loads(await top.line('{"url"'))
            assert gone["url"] == str(b.addresses[0])
            assert gone["problem"]
            seen = len(top.said())
            await until(lambda: '{"broker": "a"' in top.said()[seen:])

    told()


def test_top_shows_those_that_are_up_and_names_the_one_that_is_down(start: Any) -> None:
    down = "contentcast://127.0.0.1:1"

    @story
    async def told() -> None:
        async with Net() as net:
            up = str((await net.broker("a")).addresses[0])
            read = start("top", "--once", "--json", "--broker", f"{down},{up}")
            assert await read.ended() == 0, read.complained()
            gone, state = map(json.loads, read.said().splitlines())
            assert (gone["url"], state["broker"]) == (down, "a")
            assert "no broker answers" in gone["problem"]
            seen = start("top", "--once", "--broker", f"{down},{up}")
            assert await seen.ended() == 0, seen.complained()
            assert f"{down}: no broker answers" in seen.said()
            assert "published/s" in seen.said()
        nobody = start("top", "--once", "--broker", f"{down},127.0.0.1:2")
        assert await nobody.ended() == 2
        assert nobody.said() == ""
        assert "127.0.0.1:1" in nobody.complained()
        assert "127.0.0.1:2" in nobody.complained()

    told()


def test_a_subscriber_says_by_which_id_one_asks_why(start: Any) -> None:
    @story
    async def told() -> None:
        async with Net() as net:
            a, publisher = await net.alone()
            url = str(a.addresses[0])
            subscriber = start("subscribe", "trades", "price < 120", "--broker", url, "--count", "1")
            await until(lambda: "subscribed to trades where price < 120 (subscription " in subscriber.complained())
            id = re.findall(r"\(subscription (\d+)\)", subscriber.complained())[0]
            why = start("why", "trades", "--subscription", id, "--event", '{"price": 121.0}', "--broker", url)
            assert await why.ended() == 1, why.complained()
            assert "wants price < 120.0" in why.said()
            await publisher.publish("trades", {"price": 119.0})
            assert await subscriber.ended() == 0

    told()


def test_an_id_that_no_subscription_can_have_is_refused() -> None:
    told = CliRunner().invoke(app, ["why", "trades", "--subscription", "9" * 20, "--event", "{}"])
    complaint = f"contentcast: --subscription is an id from 0 to 9223372036854775807, got {'9' * 20}\n"
    assert (told.exit_code, told.stderr) == (2, complaint)


def test_the_end_of_a_durable_subscription_that_is_not_there_is_no_success(start: Any, tmp_path: Path) -> None:
    @story
    async def told() -> None:
        async with Net() as net:
            a = await net.broker("a", data=tmp_path / "a")
            client = await net.client(a)
            await client.subscribe(cc.Space("trades", price="float"), durable="desk-7", deliver=print)
            words = ["subscribe", "trades", "--end", "--broker", str(a.addresses[0]), "--durable"]
            misspelt, right = start(*words, "desk7"), start(*words, "desk-7")
            assert await misspelt.ended() == 2
            assert misspelt.complained() == "contentcast: broker a keeps no durable subscription 'desk7'; none has ended\n"
            assert await right.ended() == 0
            assert right.said() == "the durable subscription desk-7 has ended\n"

    told()


def test_what_means_nothing_to_a_durable_subscription_is_refused() -> None:
    told = CliRunner().invoke(app, ["subscribe", "trades", "--durable", "desk-7", "--on-slow", "foo"])
    assert (told.exit_code, told.stderr) == (
        2,
        "contentcast: --on-slow is for what is not durable: what a durable subscriber has not taken waits on disk\n",
    )
