"""Real sockets on one computer: the five verbs, locality, repairs, keys, probes, and a mapping that changes."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import contentcast as cc
from contentcast.language import advertisement
from contentcast.live.datagrams import DatagramError, Interface, Receiver, Sender
from contentcast.live.lan import reach
from contentcast.live.lan import server as lan_server
from contentcast.live.lan.options import LanError, LanOptions
from contentcast.live.lan.watching import watch
from contentcast.model import Attribute, EventBatch, Space
from contentcast.routing.multicast import Group, MappingSpecification, Row
from tests.lan.loopback import TRADES, Lan, heard


def run(story: Callable[[Lan], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Lan() as lan:
            async with asyncio.timeout(240):  # where kernels are compiled first, that takes a minute
                await story(lan)

    asyncio.run(main())


def trades(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"issue": "IBM" if at % 2 else "SAP", "price": float(at)} for at in range(first, first + count)]


def test_three_programs_and_no_broker() -> None:
    async def story(lan: Lan) -> None:
        publisher, left, right = [await lan.client() for _ in range(3)]
        cheap: list[Any] = []
        ibm: list[Any] = []
        await left.subscribe("trades", "price < 10", deliver=cheap.append)
        wanted = await right.subscribe("trades", "issue = 'IBM'", deliver=ibm.append)
        await heard(publisher, 2)
        for each in trades(40):
            await publisher.publish("trades", each)
        await left.until(lambda: len(cheap) == 10)
        await right.until(lambda: len(ibm) == 20)
        assert [each["price"] for each in cheap] == [float(at) for at in range(10)]  # in order
        await wanted.unsubscribe()
        await heard(publisher, 1)
        await publisher.publish("trades", trades(4))
        await left.until(lambda: len(cheap) == 14)
        assert len(ibm) == 20

    run(story)


def test_the_address_of_a_lan_is_one_that_connect_takes() -> None:
    """`cc.connect("lan://...")` is the client without a broker, with the same verbs."""

    async def story(lan: Lan) -> None:
        got: list[Any] = []
        async with cc.connect(lan.url()) as client:
            await client.declare(TRADES)
            await client.subscribe("trades", "price < 10", deliver=got.append)
            await client.publish("trades", trades(20))
            assert [each["price"] for each in got] == [float(at) for at in range(10)]

    run(story)
    with pytest.raises(cc.ContentcastError, match="on a LAN there is no broker to show a name or a token to"):
        cc.connect("lan://239.192.10.0:6666", name="desk-7")


def test_events_between_parties_of_one_process_never_become_bytes() -> None:
    async def story(lan: Lan) -> None:
        one = await lan.client()
        other = await lan.client()
        got: list[EventBatch] = []
        await one.subscribe("trades", "TRUE", deliver=got.append, batches=True)
        await other.subscribe("trades", "price > 1000", deliver=got.append, batches=True)
        await heard(one)
        sent = one.server.state()["datagrams"]["sent"]
        batch = EventBatch.from_dicts(TRADES, trades(100))
        await one.publish("trades", batch)
        assert len(got) == 1
        assert got[0].records is batch.records  # the same object: no copy
        assert one.server.state()["datagrams"]["sent"] == sent
        assert one.server.state()["kept back"] == 100

    run(story)


def test_a_space_is_learnt_from_whoever_declared_it() -> None:
    async def story(lan: Lan) -> None:
        owner = await lan.client()
        stranger = await lan.client(spaces=())
        got: list[Any] = []
        await stranger.subscribe("trades", "price < 3", deliver=got.append)
        await heard(owner)
        await owner.publish("trades", trades(5))
        await stranger.until(lambda: len(got) == 3)
        with pytest.raises(LanError, match="nobody on the LAN has declared the space 'quotes'"):
            await stranger.subscribe("quotes")

    run(story)


def test_a_large_event_is_cut_and_put_together() -> None:
    video = Space("video", source="string", pixels="bytes")

    async def story(lan: Lan) -> None:
        camera, screen = [await lan.client(spaces=(video,)) for _ in range(2)]
        got: list[Any] = []
        await screen.subscribe("video", deliver=got.append)
        await heard(camera)
        await camera.publish("video", {"source": "c1", "pixels": bytes(range(256)) * 400})
        await screen.until(lambda: len(got) == 1)
        assert got[0]["pixels"] == bytes(range(256)) * 400
        counts = screen.server.state()["datagrams"]["groups"]
        assert max(each["received"] for each in counts.values()) >= 72

    run(story)


def test_reliable_is_exactly_once_over_a_socket_that_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fifth datagram is lost on its way out."""
    sending = Sender.send

    def lossy(self: Sender, data: bytes, to: tuple[str, int]) -> None:
        lossy.count += 1  # type: ignore[attr-defined]
        if lossy.count % 5:  # type: ignore[attr-defined]
            sending(self, data, to)

    lossy.count = 0  # type: ignore[attr-defined]

    async def story(lan: Lan) -> None:
        publisher = await lan.client()
        first, second = await lan.client(), await lan.client()
        got: dict[str, list[float]] = {"first": [], "second": []}
        await first.subscribe("trades", deliver=lambda each: got["first"].append(each["price"]), quality="reliable")
        await second.subscribe("trades", deliver=lambda each: got["second"].append(each["price"]), quality="reliable")
        await heard(publisher, 2)
        monkeypatch.setattr(Sender, "send", lossy)
        for number in range(200):
            await publisher.publish("trades", [{"issue": "IBM", "price": float(number)}])
            if number % 10 == 0:
                await asyncio.sleep(0.001)
        await first.until(lambda: len(got["first"]) >= 200, 20)
        await second.until(lambda: len(got["second"]) >= 200, 20)
        monkeypatch.undo()
        assert got == {name: [float(number) for number in range(200)] for name in got}
        assert publisher.server.state()["streams"]["repeated"] > 0

    run(story)


def test_what_a_sender_no_longer_has_is_told_to_the_subscribers_that_it_may_concern(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that keeps three messages loses ten: the seven older ones are a gap, and only readers of that group hear it."""
    monkeypatch.setattr("contentcast.routing.multicast.streams.KEPT_MESSAGES", 3)
    sending = Sender.send
    news = Space("news", text="string")  # of another group than trades

    async def story(lan: Lan) -> None:
        spaces = (TRADES, news)
        publisher, reader = await lan.client(spaces=spaces), await lan.client(spaces=spaces)
        got: list[float] = []
        gaps: list[Any] = []
        wanted = await reader.subscribe(
            "trades", deliver=lambda each: got.append(each["price"]), quality="reliable", on_missed=gaps.append
        )
        other = await reader.subscribe("news", quality="reliable", on_missed=gaps.append)
        await publisher.until(lambda: sum(len(each.record.blocks) for each in members(publisher)) >= 2)
        await publisher.publish("trades", trades(1))
        await reader.until(lambda: got == [0.0])

        def silent(self: Sender, data: bytes, to: tuple[str, int]) -> None:
            if self is not publisher.server._sender:
                sending(self, data, to)

        monkeypatch.setattr(Sender, "send", silent)
        for number in range(1, 11):
            await publisher.publish("trades", trades(1, number))
        monkeypatch.setattr(Sender, "send", sending)
        await reader.until(lambda: len(got) == 4, 20)
        assert got == [0.0, 8.0, 9.0, 10.0]
        assert (wanted.gaps, other.gaps) == (7, 0)
        assert [(gap.sender, gap.messages) for gap in gaps] == [(publisher.server.name, 7)]

    run(story)


def members(client: Any) -> list[Any]:
    return list(client.server.router.members.members.values())


def test_who_has_no_key_is_not_heard(tmp_path) -> None:  # type: ignore[no-untyped-def]
    key = tmp_path / "lan.key"
    key.write_text("ab" * 32)
    key.chmod(0o600)

    async def story(lan: Lan) -> None:
        one, other = [await lan.client(f"key={key}") for _ in range(2)]
        stranger = await lan.client()
        got: list[Any] = []
        await other.subscribe("trades", deliver=got.append)
        await heard(one)
        await stranger.subscribe("trades", deliver=got.append)
        await one.publish("trades", trades(3))
        await other.until(lambda: len(got) == 3)
        await other.until(lambda: sum(each["unsigned"] for each in other.server.state()["datagrams"]["groups"].values()) > 0)
        assert stranger.server.router.members.members == {}
        assert list(other.server.router.members.members) == [one.server.name]

    run(story)


def test_a_mapping_is_changed_while_events_flow() -> None:
    every = dict.fromkeys(TRADES.names, "ANY")

    async def story(lan: Lan) -> None:
        one, other = [await lan.client() for _ in range(2)]
        got: list[float] = []
        await other.subscribe("trades", deliver=lambda each: got.append(each["price"]))
        await heard(one)
        control = one.server.router.control
        group = str(Group.of(control).following(99))
        mapping = MappingSpecification(
            (Row(advertisement(TRADES, 0, {**every, "issue": "issue = 'IBM'"}), group),),
            (str(Group.of(control).following(1)),),
            control,
        )

        async def load() -> int:
            number = 0
            while one.server.router.agreement.uses.number == 0 or number % 500:
                await one.publish("trades", {"issue": "IBM", "price": float(number)})
                number += 1
                if number % 50 == 0:
                    await asyncio.sleep(0.002)
            return number

        loading = asyncio.create_task(load())
        await other.propose(mapping)
        count = await loading
        await other.until(lambda: len(got) >= count)
        assert got == [float(number) for number in range(count)]
        assert one.server.state()["traffic"][group]["sent"] > 0 or count == 0
        await one.until(lambda: len(one.server.state()["mapping"]["hears"]) == 1)

    run(story)


# --- what a network may do


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

    run(story)


# --- what one can get wrong


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("lan://239.192.10.0?interface=10.1.2.3", "without a key anybody on the network of 10.1.2.3 could publish"),
        ("lan://239.192.10.0?interfase=127.0.0.1", "did you mean 'interface'"),
        ("lan://239.192.10.0?mode=fanout", "name them: peer="),
        ("lan://239.192.10.0?mode=broadcast", "mode is one of multicast, fanout, auto"),
        ("lan://10.0.0.1", "no multicast address"),
        ("tcp://239.192.10.0", "the address of a LAN is lan://"),
        ("lan://239.192.10.0?interface=eth0", "named by its IPv4 address"),
        ("lan://239.192.10.0?peer=7000", "a peer is host:port"),
        ("lan://239.192.10.0?quality=sure", "quality is reliable or best effort"),
    ],
)
def test_an_address_that_cannot_be_is_refused(url: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        LanOptions.of(url)


def test_an_interface_that_is_not_there_is_said() -> None:
    with pytest.raises(DatagramError, match=r"no interface has the address 203\.0\.113\.9"):
        Receiver(Group.of("udp_ipm://239.192.10.1:6666"), Interface("203.0.113.9"))


def test_groups_of_others_are_not_heard() -> None:
    """IP_MULTICAST_ALL is off: a socket on the same port gets its own group only."""
    lan = Lan()
    interface = Interface()
    receivers = [Receiver(Group.of(f"udp_ipm://239.192.77.{at}:{lan.port}"), interface) for at in (1, 2)]
    sender = Sender(interface)
    sender.send(b"one", ("239.192.77.1", lan.port))
    sender.send(b"two", ("239.192.77.2", lan.port))
    assert [[bytes(each) for each in one.read()] for one in receivers] == [[b"one"], [b"two"]]
    for each in (*receivers, sender):
        each.close()


@pytest.mark.parametrize("refused", [False, True])
def test_datagrams_sent_together_come_as_they_were(refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the kernel takes at once; also where it takes only one after the other."""
    lan, interface = Lan(), Interface()
    receiver = Receiver(Group.of(f"udp_ipm://239.192.77.1:{lan.port}"), interface)
    sender = Sender(interface)
    if refused:
        monkeypatch.setattr("contentcast.live.datagrams.UDP_SEGMENT", 9999)
    datagrams = [*(bytes([at]) * 1432 for at in range(100)), b"the last"]
    sender.send_all(datagrams, ("239.192.77.1", lan.port))
    assert [bytes(each) for each in receiver.read()] == datagrams
    assert sender.sent == 101
    for each in (receiver, sender):
        each.close()


def test_a_network_that_is_down_for_a_while_does_not_end_sending_together() -> None:
    class Down:
        def sendmsg(self, *_: Any) -> int:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

        def sendto(self, *_: Any) -> int:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

    lan, interface = Lan(), Interface()
    receiver = Receiver(Group.of(f"udp_ipm://239.192.77.1:{lan.port}"), interface)
    sender = Sender(interface)
    there, calls = sender.socket, []

    class Up(Down):
        def sendmsg(self, *given: Any) -> int:
            calls.append(len(given[0]))
            return there.sendmsg(*given)

    sender.socket = Down()  # type: ignore[assignment]
    sender.send_all([bytes(1432)] * 3, ("239.192.77.1", lan.port))
    assert (sender.sent, sender.refused) == (0, 3)
    sender.socket = Up()  # type: ignore[assignment]
    sender.send_all([bytes(1432)] * 3, ("239.192.77.1", lan.port))
    assert (sender.sent, calls) == (3, [3])
    there.close()
    receiver.close()


def test_what_is_read_at_one_wake_up_is_bounded_where_the_kernel_joins_datagrams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contentcast.live.datagrams.MOST_READ", 10)
    lan, interface = Lan(), Interface()
    receiver = Receiver(Group.of(f"udp_ipm://239.192.77.1:{lan.port}"), interface)
    sender = Sender(interface)
    for _ in range(10):
        sender.send_all([bytes(1432)] * 20, ("239.192.77.1", lan.port))
    read = []
    while came := len(list(receiver.read())):
        read.append(came)
    assert sum(read) == 200
    assert max(read) < 10 + 20
    for each in (receiver, sender):
        each.close()


def test_a_batch_that_is_cut_into_several_messages_comes_once() -> None:
    async def story(lan: Lan) -> None:
        publisher, other = [await lan.client() for _ in range(2)]
        got: list[float] = []
        await other.subscribe("trades", deliver=lambda each: got.append(each["price"]))
        await heard(publisher)
        await publisher.publish("trades", trades(5000))
        await other.until(lambda: len(got) >= 5000)
        assert got == [float(at) for at in range(5000)]

    run(story)


def test_what_the_kernel_drops_is_counted() -> None:
    lan, interface = Lan(), Interface()
    receiver = Receiver(Group.of(f"udp_ipm://239.192.77.1:{lan.port}"), interface, buffer_bytes=8192)
    sender = Sender(interface)
    for _ in range(100):
        sender.send(bytes(1000), ("239.192.77.1", lan.port))
    came = len(list(receiver.read()))
    sender.send(b"after", ("239.192.77.1", lan.port))
    assert len(list(receiver.read())) == 1
    assert receiver.dropped == 100 - came > 0
    receiver.close()
    sender.close()


def test_values_outside_a_domain_are_refused_where_they_are_published() -> None:
    narrow = Space("narrow", size=Attribute("int", low=0, high=9))

    async def story(lan: Lan) -> None:
        client = await lan.client(spaces=(narrow,))
        with pytest.raises(Exception, match="outside the domain"):
            await client.publish("narrow", [{"size": 10}])

    run(story)


def test_what_a_publisher_advertises_as_reliable_goes_reliably() -> None:
    async def story(lan: Lan) -> None:
        publisher, other = await lan.client(), await lan.client()
        got: list[Any] = []
        await other.subscribe("trades", deliver=got.append)
        await heard(publisher, 1)
        promised = await publisher.advertise("trades", "issue = 'IBM'", quality="reliable")
        sent = publisher.server.router.streams
        await publisher.publish("trades", [{"issue": "SAP", "price": 1.0}])
        assert not sent.state()
        await publisher.publish("trades", [{"issue": "IBM", "price": 2.0}])
        assert sent.state()["streams"]["sent"]
        await other.until(lambda: len(got) == 2)
        await publisher.unadvertise(promised)
        assert not publisher.server.router.promised.any_of(EventBatch.from_dicts(TRADES, [{"issue": "IBM"}]))

    run(story)


def test_a_watcher_measures_who_wants_what_and_what_was_promised() -> None:
    async def story(lan: Lan) -> None:
        publisher, left, watcher = [await lan.client() for _ in range(3)]
        await left.subscribe("trades", "issue = 'IBM'")
        await publisher.advertise("trades", "issue = 'SAP'", rate=1e6)
        watching = asyncio.create_task(watch(watcher, "trades", 2.0))
        await heard(publisher, 2)
        for _ in range(20):
            await publisher.publish("trades", trades(10))
        watched = await watching
        assert len(watched.events) == 200
        assert set(watched.wants) == {left.server.name}
        found = {each.value: each for each in watched.flows("issue")}
        assert found["IBM"].wanted == {left.server.name}
        assert found["SAP"].wanted == frozenset()
        assert found["SAP"].load == 1e6
        assert 0 < found["IBM"].load < 1e6
        with pytest.raises(LanError, match="above 0"):
            await publisher.advertise("trades", rate=0.0)

    run(story)
