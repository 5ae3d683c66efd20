"""Quality `durable` on a LAN: a broker with a disk behind a gateway, and programs that stay away and come back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from contentcast.live.lan import LanClient
from contentcast.live.lan import durable as lan_durable
from contentcast.live.lan.options import LanError, LanOptions
from contentcast.live.settings.access import Access, Rights
from tests.lan.loopback import Lan
from tests.live.stories import TRADE, TRADES, Net, Process, long_story, story, until
from tests.live.test_gateway import Bridge, _cancel, lines, wants

SPACES = (TRADES,)


def trades(*volumes: int) -> list[dict[str, Any]]:
    return [TRADE | {"volume": each} for each in volumes]


async def carrying(net: Net, lan: Lan, broker: Any, name: str = "g1", **options: Any) -> Any:
    gateway = await Bridge(net, lan).open(broker, name, **options)
    await until(lambda: gateway.is_active)
    return gateway


async def take(client: LanClient, name: str, count: int) -> list[int]:
    """The volumes of the next events of a durable subscription; then the client leaves it."""
    found: list[int] = []
    async with client.events("trades", "volume > 0", durable=name) as events:
        while len(found) < count:
            found.append((await anext(events))["volume"])
        events.acknowledge()
    return found


@story
async def test_every_accepted_event_comes_once_also_to_who_was_away(tmp_path: Path) -> None:
    async with Net() as net, Lan() as lan:
        a = await net.broker("a", data=tmp_path / "a")
        await carrying(net, lan, a)
        camera, desk = await lan.client(spaces=SPACES), await lan.client(spaces=SPACES)
        assert await take(desk, "desk-7", 0) == []
        await camera.advertise("trades", "volume > 0", quality="durable")
        receipt = await camera.publish("trades", trades(1, 2))
        assert receipt is not None
        assert receipt.position > 0  # on the broker's disk
        await desk.close()  # nobody is there for desk-7
        for volume in (3, 4):
            await camera.publish("trades", TRADE | {"volume": volume})
        again = await lan.client(spaces=SPACES)
        assert await take(again, "desk-7", 3) == [1, 2, 3]
        assert await take(again, "desk-7", 1) == [4]
        place = await (await again._keeper.client()).place("desk-7")
        assert (place.acknowledged, place.numbered) == (4, 4)  # each once


@story
async def test_who_is_not_durable_on_the_lan_gets_durable_events_over_groups(tmp_path: Path) -> None:
    async with Net() as net, Lan() as lan:
        a = await net.broker("a", data=tmp_path / "a")
        gateway = await carrying(net, lan, a)
        camera, screen = await lan.client(spaces=SPACES), await lan.client(spaces=SPACES)
        got: list[int] = []
        await screen.subscribe("trades", "volume > 0", deliver=lambda each: got.append(each["volume"]))
        await camera.advertise("trades", "volume BETWEEN 1 AND 10", quality="durable")
        await until(lambda: wants(gateway) == (["volume >= 1"], []))
        await until(lambda: len(camera.server.router.members.audience(TRADES)) == 1)
        assert await camera.publish("trades", trades(1, 20)) is not None  # 20 is not under the advertisement: a datagram
        await until(lambda: len(got) == 2)
        await camera.publish("trades", trades(2))
        await until(lambda: len(got) == 3)
        assert sorted(got) == [1, 2, 20]
        assert (gateway.to_lan.crossed, gateway.to_brokers.crossed) == (2, 0)  # nothing goes round


@story
async def test_what_others_publish_on_the_lan_is_accepted_when_the_gateway_has_brought_it(tmp_path: Path) -> None:
    async with Net() as net, Lan() as lan:
        a = await net.broker("a", data=tmp_path / "a")
        gateway = await carrying(net, lan, a)
        publisher, desk = await lan.client(spaces=SPACES), await lan.client(spaces=SPACES)
        assert await take(desk, "desk-7", 0) == []
        await until(lambda: wants(gateway)[1])
        await until(lambda: len(publisher.server.router.members.audience(TRADES)) == 1)
        for volume in range(1, 31):
            await publisher.publish("trades", TRADE | {"volume": volume})
        assert await take(desk, "desk-7", 30) == list(range(1, 31))


@story
async def test_two_gateways_bring_nothing_twice(tmp_path: Path) -> None:
    """The first gateway is gone while events flow: what was accepted comes once, and durable events miss nothing."""
    async with Net() as net, Lan() as lan:
        a = await net.broker("a", data=tmp_path / "a")
        first = await carrying(net, lan, a, "g1")
        second = await Bridge(net, lan).open(a, "g2")
        camera, desk = await lan.client(spaces=SPACES), await lan.client(spaces=SPACES)
        assert await take(desk, "desk-7", 0) == []
        await camera.advertise("trades", "volume > 0", quality="durable")
        for volume in range(1, 41):
            await camera.publish("trades", TRADE | {"volume": volume})
            if volume == 20:
                assert not second.is_active
                (running,) = [each for each in asyncio.all_tasks() if each.get_name() == f"gateway {first.name}"]
                await _cancel(running)
        await until(lambda: second.is_active)
        await camera.publish("trades", trades(41))
        assert await take(desk, "desk-7", 41) == list(range(1, 42))


@long_story
async def test_a_broker_that_is_killed_while_events_flow_loses_none_of_those_it_accepted(tmp_path: Path) -> None:
    """A real broker and a real gateway; the camera goes on by itself when the broker is back, and nothing comes twice."""
    async with Lan() as lan:
        words = ["broker", "--name", "a", "--data", str(tmp_path / "a"), "--json"]
        broker = Process(tmp_path, *words, "--listen", "127.0.0.1:0")
        address = str(json.loads(await broker.line("{"))["listen"][0])
        config = tmp_path / "gateway.toml"
        config.write_text(f'name = "g1"\nlan = "{lan.url()}"\nbroker = "{address}"\n[[share]]\nspace = "trades"\n')
        gateway = Process(tmp_path, "lan", "gateway", "--config", str(config), "--every", "0.1")
        try:
            await until(lambda: (states := lines(gateway)) and states[-1]["carries"], 60)
            camera, desk = await lan.client(spaces=SPACES), await lan.client(spaces=SPACES)
            assert await take(desk, "desk-7", 0) == []
            await camera.advertise("trades", "volume > 0", quality="durable")
            for volume in range(1, 21):
                await camera.publish("trades", TRADE | {"volume": volume})
            broker.signal(9)
            await broker.ended()
            publishing = asyncio.create_task(camera.publish("trades", trades(*range(21, 31))))
            broker = Process(tmp_path, *words, "--listen", address.removeprefix("contentcast://"))
            assert (await publishing) is not None
            assert await take(desk, "desk-7", 30) == list(range(1, 31))
        finally:
            gateway.end()
            broker.end()


# --- where it cannot be had


@story
async def test_without_a_gateway_the_error_says_what_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lan_durable, "HEARD_WITHIN_S", 0.2)
    said = r"no gateway to one was heard.*contentcast broker --data FOLDER, and contentcast lan gateway --config FILE"
    async with Lan() as lan:
        client = await lan.client(spaces=SPACES)
        with pytest.raises(LanError, match=said):
            await client.subscribe("trades", durable="desk-7")
        with pytest.raises(LanError, match=said):
            await client.advertise("trades", quality="durable")
        with pytest.raises(LanError, match="has a name, by which it is found again: durable='desk-7'"):
            await client.subscribe("trades", quality="durable")
        with pytest.raises(LanError, match="did you mean 'durable'"):
            await client.subscribe("trades", quality="durabel", deliver=print)  # type: ignore[arg-type]
        with pytest.raises(LanError, match="only a durable subscription has 'after'"):
            await client.subscribe("trades", after=7, deliver=print)
        with pytest.raises(LanError, match="quality='durable'"):
            await client.publish("trades", trades(1), publisher="feed", number=1)


@story
async def test_a_broker_without_a_disk_is_named() -> None:
    async with Net() as net, Lan() as lan:
        await carrying(net, lan, await net.broker("a"))
        client = await lan.client(spaces=SPACES)
        with pytest.raises(LanError, match=r"broker a keeps nothing on disk.*--data FOLDER.*behind the gateway g1"):
            await client.subscribe("trades", durable="desk-7")


@story
async def test_a_gateway_that_does_not_say_where_its_broker_is(tmp_path: Path) -> None:
    async with Net() as net, Lan() as lan:
        a = await net.broker("a", data=tmp_path / "a")
        await carrying(net, lan, a, reached_at="")
        client = await lan.client(spaces=SPACES)
        with pytest.raises(LanError, match=r"gateway g1 does not say.*broker=contentcast://host:7411"):
            await client.subscribe("trades", durable="desk-7")
        named = await lan.client(f"broker={a.addresses[0]}", spaces=SPACES)
        assert await take(named, "desk-7", 0) == []


@story
async def test_rights_of_the_broker_hold_for_programs_of_the_lan(tmp_path: Path) -> None:
    rights = Rights({"trades": "price < 200"}, {"trades": "TRUE"}, declare=True, gateway=True)
    async with Net() as net, Lan() as lan:
        a = await net.broker("a", data=tmp_path / "a", access=Access(rights={"*": rights}))
        await carrying(net, lan, a)
        camera = await lan.client(spaces=SPACES)
        await camera.advertise("trades", "volume > 0", quality="durable")
        assert await camera.publish("trades", trades(1)) is not None
        with pytest.raises(Exception, match="may publish to trades only where price < 200"):
            await camera.publish("trades", TRADE | {"price": 500.0})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("quality=durable", "has a name, so it is asked for where it is made"),
        ("token=desk.jwt", "a broker that you name"),
        ("broker=http://x", "there is no scheme http"),
    ],
)
def test_an_address_that_cannot_be_is_refused(more: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        LanOptions.of(f"lan://239.192.10.0?{more}")
