"""Whom multicast reaches, on one computer whose groups are made to lose what goes from one server to another."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from contentcast.live.datagrams import Sender
from contentcast.live.lan import LanClient, reach
from contentcast.live.lan import server as lan_server
from contentcast.live.lan.options import LanError
from contentcast.live.lan.packets import HEADER, Assembler, Whole
from tests.lan.loopback import Lan, heard, run, trades


def test_a_network_that_swallows_multicast_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sending = Sender.send

    def swallowed(self: Sender, data: bytes, to: tuple[str, int]) -> None:
        if not to[0].startswith("239."):
            sending(self, data, to)

    monkeypatch.setattr(Sender, "send", swallowed)

    async def story(lan: Lan) -> None:
        with pytest.raises(LanError, match=r"multicast does not work on 127\.0\.0\.1.*peer=host:port"):
            await lan.client()

    run(story)


def test_auto_sends_a_copy_to_each_peer_where_multicast_is_swallowed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each hears itself through the group, but a network between them carries none: seen because peers are heard alone."""
    sending = Sender.send
    monkeypatch.setattr(reach, "PEERS_CHECKED_S", 0.2)
    caplog.set_level(logging.WARNING)

    async def story(lan: Lan) -> None:
        ports = [lan.port + 1, lan.port + 2]
        peers = [f"port={ports[0]}&peer=127.0.0.1:{ports[1]}", f"port={ports[1]}&peer=127.0.0.1:{ports[0]}"]

        def by_pairs(self: Sender, data: bytes, to: tuple[str, int]) -> None:
            # A group's datagram reaches nobody but its own sender: that is what a switch that swallows multicast does.
            if to[0].startswith("239."):
                whole = [each for each in (one, other) if each and each[0]._sender is self]
                for each in whole:
                    for group, (_, assembler) in each[0]._receivers.items():
                        if group.startswith(f"udp_ipm://{to[0]}:"):
                            assembler.take(memoryview(data))
                return
            sending(self, data, to)

        one: list[Any] = []
        other: list[Any] = []
        made: list[Any] = []
        starting = lan_server.LanServer.start

        async def noted(self: lan_server.LanServer) -> lan_server.LanServer:
            (one if not one else other).append(self)
            return await starting(self)

        monkeypatch.setattr(lan_server.LanServer, "start", noted)
        monkeypatch.setattr(Sender, "send", by_pairs)
        made = [await lan.client(each) for each in peers]
        got: list[Any] = []
        await made[0].until(lambda: made[0].server.mode == "fanout", 5)
        await made[1].subscribe("trades", "price < 3", deliver=got.append)
        await heard(made[0])
        await made[0].publish("trades", trades(5))
        await made[1].until(lambda: len(got) == 3)
        assert "the network swallows multicast" in caplog.text

    run(story)


def test_fan_out_needs_no_multicast() -> None:
    async def story(lan: Lan) -> None:
        ports = [lan.port + 1, lan.port + 2]
        one = await lan.client(f"mode=fanout&port={ports[0]}&peer=127.0.0.1:{ports[1]}")
        other = await lan.client(f"mode=fanout&port={ports[1]}&peer=127.0.0.1:{ports[0]}")
        got: list[Any] = []
        await other.subscribe("trades", "price < 3", deliver=got.append)
        await heard(one)
        await one.publish("trades", trades(5))
        await other.until(lambda: len(got) == 3)
        assert (one.server.mode, one.server.state()["datagrams"]["groups"]) == ("fanout", {})
        alone = other.server.state()["datagrams"]["alone"]
        assert (alone["received"] > 0, alone["missing"]) == (True, 0), "copies are counted"

    run(story)


# --- a network that swallows some of it while the servers run


class Switch:
    """Its groups carry nothing from the first to the second of each pair of servers."""

    def __init__(self) -> None:
        self.swallows: set[tuple[int, int]] = set()

    def swallow(self, sender: LanClient, receiver: LanClient) -> None:
        self.swallows.add((sender.server.sender_id, receiver.server.sender_id))


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch) -> Switch:
    made = Switch()
    take = Assembler.take

    def take_through_switch(self: Assembler, data: memoryview) -> Whole | None:
        sender = HEADER.unpack_from(data)[3]
        return None if self.group and (sender, self._own) in made.swallows else take(self, data)

    monkeypatch.setattr(Assembler, "take", take_through_switch)
    monkeypatch.setattr(reach, "PEERS_CHECKED_S", 0.5)
    monkeypatch.setattr(reach, "LOOK_EVERY_S", 0.2)
    monkeypatch.setattr(reach, "SILENT_AFTER_S", 2.0)
    return made


async def three(lan: Lan, mode: str = "auto") -> list[LanClient]:
    ports = [lan.port + at for at in (1, 2, 3)]
    made = []
    for mine in ports:
        peers = [f"peer=127.0.0.1:{each}" for each in ports if each != mine]
        made.append(await lan.client(f"mode={mode}", f"port={mine}", *peers))
    return made


def unreached(client: LanClient) -> set[int]:
    return client.server.reach.unreached()


def ids(*clients: LanClient) -> set[int]:
    return {each.server.sender_id for each in clients}


def test_a_peer_that_sends_copies_because_of_a_third_one_is_reached(switch: Switch, caplog: pytest.LogCaptureFixture) -> None:
    """left and right do not hear each other, so each sends copies; those come to middle, which both reach over the group."""
    caplog.set_level(logging.WARNING)

    async def story(lan: Lan) -> None:
        left, middle, right = await three(lan)
        got: list[Any] = []
        await middle.subscribe("trades", deliver=got.append)
        switch.swallow(left, right)
        switch.swallow(right, left)
        await left.until(lambda: left.server.mode == "fanout")
        await right.until(lambda: right.server.mode == "fanout")
        await heard(left)
        await left.publish("trades", trades(3))
        await middle.until(lambda: len(got) == 3)
        await asyncio.sleep(1.0)
        assert (unreached(left), unreached(middle), unreached(right)) == (ids(right), set(), ids(left))
        assert middle.server.mode == "multicast"
        assert len(got) == 3
        assert caplog.text.count("1 peers are not reached") == 2
        assert "2 peers are not reached" not in caplog.text

    run(story)


def test_one_direction_is_noticed_by_both(switch: Switch) -> None:
    """What the deaf one sends comes over the group, and says that it is deaf."""

    async def story(lan: Lan) -> None:
        sender, deaf, other = await three(lan)
        switch.swallow(sender, deaf)
        await sender.until(lambda: unreached(sender) == ids(deaf))
        await deaf.until(lambda: unreached(deaf) == ids(sender))
        got: list[Any] = []
        await deaf.subscribe("trades", deliver=got.append)
        await heard(sender)
        await sender.publish("trades", trades(3))
        await deaf.until(lambda: len(got) == 3)
        assert unreached(other) == set()

    run(story)


def test_with_multicast_the_one_that_is_not_heard_says_so(switch: Switch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def story(lan: Lan) -> None:
        sender, deaf, _ = await three(lan, "multicast")
        switch.swallow(sender, deaf)
        await sender.until(lambda: unreached(sender) == ids(deaf))
        assert sender.server.mode == "multicast"
        assert "what is published here does not come to them: take mode=auto" in caplog.text

    run(story)


def test_a_peer_in_fan_out_says_at_once_that_it_hears_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "PEERS_CHECKED_S", 600.0)

    async def story(lan: Lan) -> None:
        one = await lan.client(f"port={lan.port + 1}&peer=127.0.0.1:{lan.port + 2}")
        other = await lan.client(f"mode=fanout&port={lan.port + 2}&peer=127.0.0.1:{lan.port + 1}")
        await one.until(lambda: one.server.mode == "fanout")
        assert unreached(one) == ids(other)

    run(story)


def test_the_dead_are_not_warned_of_and_forgotten(switch: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "FORGET_AFTER_S", 4.0)

    async def story(lan: Lan) -> None:
        left, middle, right = await three(lan)
        switch.swallow(right, left)
        await left.until(lambda: unreached(left) == ids(right))
        assert right.server.sender_id in known(left)
        await right.close()
        await left.until(lambda: unreached(left) == set())
        await left.until(lambda: known(left) == ids(middle))
        assert left.server.state()["heard over groups"] == 1

    run(story)


def known(client: LanClient) -> set[int]:
    """Whose numbers and times are kept."""
    server = client.server
    assemblers = [server._alone, *(assembler for _, assembler in server._receivers.values())]
    return {sender for each in assemblers for sender, _ in each._streams} | set(server.reach._heard)


def test_servers_that_somebody_makes_up_cost_few_probes_and_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key anybody can say that he is a thousand servers, each heard alone."""
    monkeypatch.setattr(reach, "PROBE_AGAIN_S", 60.0)

    async def story(lan: Lan) -> None:
        client = await lan.client()
        watch = client.server.reach
        probes: list[set[int]] = []
        forgotten: list[int] = []
        watch._send_alone, watch._forget = probes.append, forgotten.append
        for sender in range(5000):
            watch.heard_alone({sender})
        assert len(probes) == 1, "the next one is planned"
        assert len(watch._heard) == reach.MOST_SENDERS
        assert len(forgotten) >= 5000 - reach.MOST_SENDERS

    run(story)
