"""Commands that are interrupted, or started in odd surroundings: they end, and say what the user needs to go on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trustme

import contentcast as cc
from contentcast.commands.shared.option_words import as_options
from contentcast.live.broker import Broker
from contentcast.live.errors import NotConnected
from contentcast.live.looking.log import Silent
from contentcast.live.settings.address import read_address
from contentcast.live.settings.config import BrokerConfig
from contentcast.live.settings.tls import Tls
from contentcast.model import ContentcastError
from tests.live.stories import Net, long_story, story, until


@long_story
async def test_ctrl_c_ends_a_publisher_that_waits_for_a_line(start: Any) -> None:
    async with Net() as net:
        broker, client = await net.alone()
        publisher = start("publish", "trades", "--broker", str(broker.addresses[0]), stdin=subprocess.PIPE)
        publisher.running.stdin.write(b'{"issue": "IBM"}\n{"issue": "SAP"}\n{"issue": ')
        publisher.running.stdin.flush()
        async with client.events("trades") as events:
            await until(lambda: broker.serving.publications.published == 2, 60)
            publisher.signal(signal.SIGINT)
            assert await publisher.ended() == 130
            said = publisher.complained().splitlines()
            assert said[-1] == "contentcast: interrupted; at least the first 2 events were accepted"
            await events.aclose()


@pytest.mark.parametrize("closed", [(0,), (1,), (0, 1, 2)], ids=str)
def test_a_command_whose_streams_are_closed_is_not_aborted(closed: tuple[int, ...], start: Any) -> None:
    def close() -> None:
        for each in closed:
            os.close(each)

    @story
    async def told() -> None:
        command = start("top", "--once", "--broker", "127.0.0.1:1", before=close)
        assert await command.ended() == 2
        if 2 not in closed:
            assert "Connection refused" in command.complained()

    told()


@story
async def test_names_stand_whole_where_there_is_no_terminal(start: Any) -> None:
    long = "a-broker-with-the-name-of-its-data-centre-and-its-rack"
    async with Net() as net:
        broker = await net.broker(long)
        top = start("top", "--once", "--broker", str(broker.addresses[0]))
        assert await top.ended() == 0
        assert long in top.said()


@story
async def test_a_port_that_is_taken_is_told_with_a_way_out() -> None:
    async with Net() as net:
        broker = await net.broker("a")
        config = BrokerConfig(name="b", listen=broker.addresses)
        with pytest.raises(ContentcastError, match="another program listens there; take another port, 0 for a free one"):
            await Broker(config, log=Silent()).start()
        config = BrokerConfig(name="b", listen=(read_address("192.0.2.1:0"),), insecure=True)
        with pytest.raises(ContentcastError, match=r"192.0.2.1:0: cannot listen there: it is no address of this machine"):
            await Broker(config, log=Silent()).start()


@story
async def test_a_broker_without_tls_is_told_apart_from_none() -> None:
    async with Net() as net:
        broker = await net.broker("a")
        with pytest.raises(
            NotConnected, match="it does not speak TLS; an address without TLS begins with contentcast://"
        ) as told:
            await cc.connect(str(broker.addresses[0]).replace("contentcast:", "contentcasts:"))
        assert "starts one" not in str(told.value)


@story
async def test_what_stands_against_tls_is_told_with_a_way_out(tmp_path: Path) -> None:
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    made.cert_chain_pems[0].write_to_path(tmp_path / "a.pem")
    made.private_key_pem.write_to_path(tmp_path / "a.key")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    trusted = {"authority": str(tmp_path / "ca.pem")}
    async with Net() as net:
        tls = Tls(tmp_path / "a.pem", tmp_path / "a.key")
        broker = await net.broker("a", listen=(read_address("contentcasts://127.0.0.1:0"),), tls=tls)
        url = str(broker.addresses[0])
        for address, options, complaint in (
            (url, {}, "its certificate is not trusted: .*; the authority that signed it must be given"),
            (url.replace("127.0.0.1", "localhost"), trusted, "not valid for 'localhost'; take an address that stands in it"),
            (url.replace("contentcasts", "contentcast"), {}, "if it wants TLS, its address begins with contentcasts://"),
        ):
            with pytest.raises(NotConnected, match=complaint):
                await cc.connect(address, **options)


@story
async def test_nobody_there_is_told_with_the_command_that_starts_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NotConnected, match=r"Connection refused\. `contentcast broker` starts one"):
        await cc.connect(f"contentcast://127.0.0.1:{port}")


@story
async def test_a_space_that_is_not_declared_is_told_with_the_option_that_declares_it() -> None:
    async with Net() as net:
        _, client = await net.alone()
        with pytest.raises(ContentcastError, match="no space 'tradez' is declared; did you mean 'trades'") as told:
            await client.subscribe("tradez", deliver=print)
        assert '`subscribe` and `publish` declare one with --declare "NAME KIND, NAME KIND"' in as_options(str(told.value))
