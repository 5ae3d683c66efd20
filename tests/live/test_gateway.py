"""A LAN and a network of brokers with gateways between them: real sockets, both ways, once, and no loops."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

import contentcast as cc
from contentcast.commands.live.options import DEFAULT_BROKER
from contentcast.live.broker import Broker
from contentcast.live.lan.gateway import Gateway, SeenIds, Share
from contentcast.live.lan.gateway_config import gateway_config, read_gateway_config
from contentcast.live.looking.log import Silent
from contentcast.live.settings.access import Access, Rights
from contentcast.live.settings.config import BrokerConfig
from contentcast.model import EventBatch
from tests.lan.loopback import Lan
from tests.live.stories import TRADE, TRADES, Net, Process, Proxy, knows_space, story, until

SAP = TRADE | {"issue": "SAP"}


class Bridge:
    """A gateway of one story; it ends with it."""

    def __init__(self, net: Net, lan: Lan) -> None:
        self._net, self._lan = net, lan

    async def open(
        self,
        broker: Broker,
        name: str,
        *shares: Share,
        instead: tuple[Broker, ...] = (),
        url: str = "",
        reached_at: str | None = None,
        **options: Any,
    ) -> Gateway:
        url = url or ",".join(str(each.addresses[0]) for each in (broker, *instead))
        connecting = cc.connect(url, name=Gateway.client_name("brokers", name), **options)
        client = await self._net.enter_async_context(connecting)
        lan = await self._lan.client(spaces=())
        address = str(broker.addresses[0]) if reached_at is None else reached_at
        made = Gateway(lan, client, shares or (Share("trades"),), name=name, address=address)
        self._net.push_async_callback(_cancel, asyncio.create_task(made.run(), name=f"gateway {name}"))
        return made


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def wants(gateway: Gateway) -> tuple[list[str], list[str]]:
    return gateway.to_lan.wants.get("trades", []), gateway.to_brokers.wants.get("trades", [])


@story
async def test_events_cross_both_ways_once_and_only_where_they_are_wanted() -> None:
    async with Net() as net, Lan() as lan:
        a = await net.broker("a")
        b = await net.broker("b", a)
        far, near = await net.client(b), await lan.client(spaces=())
        await far.declare(TRADES)
        gateway = await Bridge(net, lan).open(a, "g1")
        got_far: list[Any] = []
        got_near: list[Any] = []
        await far.subscribe("trades", "issue = 'SAP'", deliver=got_far.append)
        await until(lambda: near.server.space("trades") is not None)  # the gateway has told the LAN of it
        await near.subscribe("trades", "price < 120", deliver=got_near.append)
        await until(lambda: gateway.is_active and wants(gateway) == (["price < 120.0"], ["issue = 'SAP'"]))
        await far.publish("trades", [TRADE, TRADE | {"price": 500.0}])
        await until(lambda: got_near)
        assert got_near == [TRADE]
        await near.publish("trades", [SAP, TRADE])  # each goes to whom it belongs, on its own side too
        await until(lambda: got_far and len(got_near) == 3)
        assert got_far == [SAP]
        # SAP is wanted on the LAN too: the broker brings it back to the gateway, and it goes no further.
        await far.publish("trades", SAP)
        await until(lambda: len(got_far) == 2 and len(got_near) == 4)
        assert gateway.to_lan.crossed == 2
        assert gateway.to_brokers.crossed == 1


@story
async def test_of_two_gateways_one_carries_and_the_other_takes_over() -> None:
    async with Net() as net, Lan() as lan:
        a = await net.broker("a")
        b = await net.broker("b", a)
        far, near = await net.client(b), await lan.client(spaces=())
        await far.declare(TRADES)
        bridge = Bridge(net, lan)
        first, second = await bridge.open(a, "g1"), await bridge.open(b, "g2")
        await until(lambda: near.server.space("trades") is not None)
        got_far: list[Any] = []
        got_near: list[Any] = []
        await far.subscribe("trades", "volume > 0", deliver=got_far.append)
        await near.subscribe("trades", "volume > 0", deliver=got_near.append)
        both = (["volume >= 1"], ["volume >= 1"])
        await until(lambda: first.is_active and not second.is_active and wants(first) == wants(second) == both)
        for number in range(1, 6):
            await far.publish("trades", TRADE | {"volume": number})
            await near.publish("trades", TRADE | {"volume": -number} if number > 3 else TRADE | {"volume": 100 + number})
        await until(lambda: len(got_near) == 8 and len(got_far) == 8)
        assert first.to_lan.crossed == 5
        assert first.to_brokers.crossed == 3
        (carrying,) = [each for each in asyncio.all_tasks() if each.get_name() == "gateway g1"]
        await _cancel(carrying)
        await until(lambda: second.is_active)
        await far.publish("trades", TRADE | {"volume": 6})
        await near.publish("trades", TRADE | {"volume": 106})
        await until(lambda: len(got_near) == 10 and len(got_far) == 10)
        assert sorted(each["volume"] for each in got_near) == [1, 2, 3, 4, 5, 6, 101, 102, 103, 106]
        assert sorted(each["volume"] for each in got_far) == [1, 2, 3, 4, 5, 6, 101, 102, 103, 106]


@story
async def test_a_gateway_that_waits_for_its_broker_gives_way(tmp_path: Path) -> None:
    """g1 has two addresses. It has published to a, so only a may hear the rest: g2 takes over, and gives way when a is back."""
    async with Net() as net, Lan() as lan:
        a = await net.broker("a", data=tmp_path / "a")
        b = await net.broker("b", a, data=tmp_path / "b")
        far, near = await net.client(b), await lan.client()
        await far.declare(TRADES)
        bridge = Bridge(net, lan)
        first, second = await bridge.open(a, "g1", instead=(b,)), await bridge.open(b, "g2")
        got: list[int] = []
        await far.subscribe("trades", deliver=lambda event: got.append(event["volume"]))
        await until(lambda: first.is_active and wants(first)[1] == wants(second)[1] == ["TRUE"])
        await until(lambda: near.server.space("trades") == TRADES)
        await near.publish("trades", TRADE | {"volume": 1})
        await until(lambda: got == [1] and first.to_brokers.crossed == 1)
        await a.stop()
        await until(lambda: second.is_active)
        assert not first.state()["carries"]
        assert not first.state()["connected"]
        await near.publish("trades", TRADE | {"volume": 2})
        await until(lambda: got == [1, 2])
        assert (first.to_brokers.crossed, second.to_brokers.crossed) == (1, 1)
        await net.enter_async_context(Broker(BrokerConfig(name="a", listen=a.addresses, data=tmp_path / "a"), log=Silent()))
        await until(lambda: first.is_active and not second.is_active)
        await near.publish("trades", TRADE | {"volume": 3})
        await until(lambda: (first.to_brokers.crossed, second.to_brokers.crossed) == (2, 1))


@story
async def test_what_the_broker_has_not_accepted_waits_and_has_not_crossed() -> None:
    async with Net() as net, Lan() as lan:
        a = await net.broker("a")
        far, near = await net.client(a), await lan.client()
        await far.declare(TRADES)
        async with Proxy(a) as proxy:
            gateway = await Bridge(net, lan).open(a, "g1", url=proxy.url)
            await far.subscribe("trades", deliver=print)
            await until(lambda: gateway.is_active and wants(gateway)[1] == ["TRUE"])
            await until(lambda: near.server.space("trades") == TRADES)
            proxy.answers = False
            await near.publish("trades", TRADE)
            await until(lambda: gateway.state()["to the brokers"]["waiting"] == 1)
            assert gateway.to_brokers.crossed == 0
            proxy.cut()
            await until(lambda: not gateway.is_active)
            proxy.answers = True
            await until(lambda: gateway.to_brokers.crossed == 1)
            assert gateway.state()["to the brokers"]["waiting"] == 0


@story
async def test_what_is_no_longer_wanted_ceases_to_cross() -> None:
    async with Net() as net, Lan() as lan:
        a = await net.broker("a")
        far, near = await net.client(a), await lan.client()  # here the LAN has the space first
        gateway = await Bridge(net, lan).open(a, "g1", Share("trades", to_lan="issue = 'IBM'", to_brokers=""))
        await near.declare(TRADES)
        await knows_space(far)
        wanted = await near.subscribe("trades", "price < 120", deliver=print)
        await until(lambda: wants(gateway) == (["issue = 'IBM' AND price < 120.0"], []))
        await wanted.unsubscribe()
        await until(lambda: wants(gateway) == ([], []))
        await until(lambda: a.router.state()["subscribed"] == [])


@story
async def test_rights_hold_beyond_the_gateway() -> None:
    within = Rights({"trades": "price < 200"}, {"trades": "issue = 'IBM'"}, declare=True, gateway=True)
    everything = Rights({"*": "TRUE"}, {"*": "TRUE"}, declare=True)
    access = Access(rights={"*": within})
    async with Net() as net, Lan() as lan:
        a = await net.broker("a", access=access)
        near = await lan.client(spaces=(TRADES,))
        gateway = await Bridge(net, lan).open(a, "g1")
        got: list[Any] = []
        await near.subscribe("trades", "price > 0", deliver=got.append)
        await until(lambda: gateway.to_lan.wants.get("trades"))
        far = await net.client(a)
        await far.subscribe("trades", "volume > 0", deliver=print)
        # What the brokers want is told as far as the gateway may publish it.
        await until(lambda: wants(gateway)[1])
        assert "price < 200.0" in wants(gateway)[1][0]
        a.serving.access = Access(rights={"*": everything})
        with pytest.raises(cc.ContentcastError, match="right gateway"):
            await far.ask("wanted", space="trades")
        batch = EventBatch.from_dicts(TRADES, [TRADE], ids=[7])
        with pytest.raises(cc.ContentcastError, match="right gateway"):
            await far.publish("trades", batch, keep_ids=True)


@story
async def test_a_protocol_that_does_not_know_everybody_wants_everything() -> None:
    async with Net() as net, Lan() as lan:
        a = await net.broker("a", protocol="flooding")
        far = await net.client(a)
        await far.declare(TRADES)
        gateway = await Bridge(net, lan).open(a, "g1")
        await until(lambda: wants(gateway) == ([], ["TRUE"]))


@story
async def test_durable_brokers_want_what_their_subscribers_want_durable_or_not(tmp_path: Path) -> None:
    async with Net() as net, Lan() as lan:
        a = await net.broker("a", data=tmp_path / "a")
        b = await net.broker("b", a, data=tmp_path / "b")
        far = await net.client(b)
        await far.declare(TRADES)
        gateway = await Bridge(net, lan).open(a, "g1")
        await until(lambda: wants(gateway) == ([], []))
        await far.subscribe("trades", "price < 5", deliver=print)
        await far.subscribe("trades", "issue = 'SAP'", durable="desk-7", deliver=print)
        await until(lambda: sorted(wants(gateway)[1]) == ["issue = 'SAP'", "price < 5.0"])


@pytest.mark.parametrize(
    ("told", "reached_at"),
    [
        ({}, "contentcast://127.0.0.1:1"),
        ({"lan": "lan://239.192.10.0:6666?interface=10.1.2.3&insecure=yes"}, ""),  # nobody else gets there
        ({"lan": "lan://239.192.10.0:6666?interface=10.1.2.3&insecure=yes", "broker": "10.1.2.4"}, "10.1.2.4"),
        ({"address": "contentcast://broker.example:1"}, "contentcast://broker.example:1"),
    ],
)
def test_a_gateway_says_how_its_broker_is_reached_unless_others_could_not(told: dict[str, str], reached_at: str) -> None:
    config = gateway_config({"broker": "contentcast://127.0.0.1:1", "share": [{"space": "t"}], **told})
    assert config.reached_at() == reached_at


def test_seen_ids_forget_the_oldest_and_keep_the_last() -> None:
    seen = SeenIds(4)

    def fresh(*ids: int) -> list[int]:
        batch = EventBatch.from_dicts(TRADES, [TRADE] * len(ids), ids=list(ids))
        return seen.fresh(batch).ids.to_pylist()

    assert fresh(1, 2, 3) == [1, 2, 3]
    assert fresh(2, 4, 5) == [4, 5]
    assert fresh(5, 6) == [6]
    assert fresh(1, 6, 7, 8, 9, 10) == [7, 8, 9, 10]
    assert fresh(1, 2) == [2]  # 1 was seen again just now, 2 only long ago


@story
async def test_a_gateway_is_one_command(tmp_path: Path) -> None:
    async with Net() as net, Lan() as lan:
        a = await net.broker("a")
        far, near = await net.client(a), await lan.client(spaces=())
        await far.declare(TRADES)
        example = Process(tmp_path, "lan", "gateway", "--example-config")
        await until(lambda: example.running.poll() == 0)
        text = example.said().replace("lan://239.192.10.0:6666", lan.url()).replace(DEFAULT_BROKER, str(a.addresses[0]))
        (tmp_path / "gateway.toml").write_text(text)
        running = Process(tmp_path, "lan", "gateway", "--config", str(tmp_path / "gateway.toml"), "--every", "0.1")
        await until(lambda: near.server.space("trades") is not None)
        got: list[Any] = []
        await near.subscribe("trades", "price < 120", deliver=got.append)
        await until(
            lambda: (states := lines(running)) and states[-1]["carries"] and states[-1]["to the LAN"]["wants"]["trades"]
        )
        await far.publish("trades", [TRADE, TRADE | {"price": 500.0}])
        await until(lambda: got)
        assert got == [TRADE]
        running.running.send_signal(signal.SIGTERM)
        await until(lambda: running.running.poll() is not None)
        assert running.running.returncode == 0, running.complained()
        assert lines(running)[-1]["to the LAN"]["crossed"] == 1


def lines(process: Process) -> list[dict[str, Any]]:
    return [json.loads(each) for each in process.said().splitlines(keepends=True) if each.endswith("}\n")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "say which broker"),
        ('broker = "contentcast://127.0.0.1:1"', r"one \[\[share\]\]"),
        ('broker = "contentcast://127.0.0.1:1"\n[[share]]\nspace = "t"\nto_lna = "TRUE"', "did you mean 'to_lan'"),
        ('brokr = "contentcast://127.0.0.1:1"', "did you mean 'broker'"),
        ('broker = "http://127.0.0.1:1"\n[[share]]\nspace = "t"', "there are contentcast, contentcasts"),
        ('broker = "contentcast://127.0.0.1:1"\n[[share]]\nspace = "t"\n[[share]]\nspace = "t"', "two"),
        ("broker = 7", "broker is a text"),
        ("broker = ", "is no TOML"),
    ],
)
def test_a_file_that_is_wrong_says_where(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(text)
    with pytest.raises(cc.ContentcastError, match=said) as failed:
        read_gateway_config(path)
    assert str(path) in str(failed.value)
