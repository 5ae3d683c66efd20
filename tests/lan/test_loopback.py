"""Real sockets on one computer: the five verbs, locality, repairs, keys, and a mapping that changes."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import contentcast as cc
from contentcast.language import advertisement
from contentcast.live.datagrams import Sender
from contentcast.live.lan import connect_lan
from contentcast.live.lan.options import LanError
from contentcast.live.lan.watching import watch
from contentcast.model import Attribute, EventBatch, Space
from contentcast.routing.multicast import Group, MappingSpecification, Row
from tests.lan.loopback import TRADES, Lan, heard, members, run, trades
from tests.live.stories import until


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
    """`cc.connect("lan://...")` is the client without a broker, with SIENA's five verbs (Eide et al. 2003, table 1)."""

    async def story(lan: Lan) -> None:
        got: list[Any] = []
        async with cc.connect(lan.url()) as client:
            await client.declare(TRADES)
            advertised = await client.advertise("trades", "price < 1000")
            subscribed = await client.subscribe("trades", "price < 10", deliver=got.append)
            await client.publish("trades", trades(20))
            assert [each["price"] for each in got] == [float(at) for at in range(10)]
            await client.unsubscribe(subscribed)
            await client.unadvertise(advertised)
            await client.publish("trades", trades(20))
            assert len(got) == 10

    run(story)
    with pytest.raises(cc.ContentcastError, match="on a LAN there is no broker to show a name or a token to"):
        cc.connect("lan://239.192.10.0:6666", name="desk-7")


def test_a_program_for_a_broker_runs_on_a_lan_as_it_is() -> None:
    """Where a broker would accept, there is nothing to wait for; the calls are the same."""

    async def story(lan: Lan) -> None:
        got: list[Any] = []
        async with cc.connect(lan.url()) as client:
            await client.declare(TRADES)
            assert await client.space("trades") == (await client.spaces())["trades"] == TRADES
            await client.subscribe("trades", deliver=got.append)
            await client.publish("trades", trades(1)[0], wait=False)
            await client.flush()
            assert len(got) == 1
            assert client.name

    run(story)


def test_without_async_advertisements_have_a_quality_and_a_rate_too() -> None:
    got: list[Any] = []
    with cc.connect_sync(Lan().url()) as client:
        client.declare(TRADES)
        advertised = client.advertise("trades", "price < 100", quality="reliable", rate=1e6)
        subscribed = client.subscribe("trades", "price < 10", deliver=got.append)
        client.publish("trades", trades(20))
        asyncio.run(until(lambda: len(got) == 10))  # callbacks have a thread of their own
        client.unsubscribe(subscribed)
        client.unadvertise(advertised)


def test_a_stream_that_the_program_has_dropped_ends_its_subscription() -> None:
    async def story(lan: Lan) -> None:
        client = await lan.client()
        stream = client.events("trades")
        await stream.ready()
        assert client._subscriptions
        del stream
        await client.until(lambda: not client._subscriptions)

    run(story)


def test_an_event_that_does_not_fit_is_refused_alone() -> None:
    async def story(lan: Lan) -> None:
        publisher, reader = await lan.client(), await lan.client()
        got: list[float] = []
        await reader.subscribe("trades", deliver=lambda each: got.append(each["price"]))
        await heard(publisher)
        await publisher.publish("trades", {"price": 1.0})
        with pytest.raises(cc.EventError, match="attribute price"):
            await publisher.publish("trades", {"price": "oops"})
        changed = {"price": 3.0}
        await publisher.publish("trades", changed)
        changed["price"] = "too late"  # type: ignore[assignment]
        await reader.until(lambda: got == [1.0, 3.0])
        wider = Space("trades", issue="string", price="float", volume="int")
        await publisher.declare(wider)
        await publisher.publish("trades", {"price": 4.0, "volume": 7})
        await reader.until(lambda: got == [1.0, 3.0, 4.0])

    run(story)


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
        with pytest.raises(
            LanError, match=r"the space 'quotes' within 3 s; .*declare\(Space\('quotes', \.\.\.\)\), on the command"
        ):
            await stranger.subscribe("quotes", deliver=print)

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
        other = await reader.subscribe("news", quality="reliable", on_missed=gaps.append, deliver=print)
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


def test_a_large_reliable_batch_comes_although_its_publisher_leaves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cut into messages with numbers of their own. Every third is lost: it is repeated alone, and the publisher waits."""
    sending = Sender.send_all
    sent: list[str] = []

    async def story(lan: Lan) -> None:
        reader = await lan.client()
        got: list[float] = []
        gaps: list[Any] = []

        def lossy(self: Sender, datagrams: Any, to: tuple[str, int]) -> None:
            if len(datagrams) > 2:
                sent.append("lost" if len(sent) % 3 == 0 and len(sent) < 60 else "sent")
                if sent[-1] == "lost":
                    return
            sending(self, datagrams, to)

        async with connect_lan(lan.url("insecure=no"), spaces=(TRADES,)) as publisher:
            wanted = {"deliver": lambda each: got.append(each["price"]), "quality": "reliable", "on_missed": gaps.append}
            await reader.subscribe("trades", **wanted)
            await heard(publisher)
            monkeypatch.setattr(Sender, "send_all", lossy)
            await publisher.publish("trades", trades(50_000))
            assert publisher.server.router.streams.state()["streams"]["sent"][group_of(publisher)] > 20
        await reader.until(lambda: len(got) == 50_000)
        assert got == [float(at) for at in range(50_000)]
        assert gaps == []

    run(story)


def group_of(client: Any) -> str:
    """The one to which it sends reliably."""
    (group,) = client.server.router.streams.state()["streams"]["sent"]
    return str(group)


def test_time_in_which_a_publisher_stood_still_is_not_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program computes for longer than readers are silent, and then closes: nobody could ask meanwhile."""

    async def story(lan: Lan) -> None:
        publisher, reader = await lan.client(), await lan.client()
        got: list[float] = []
        await reader.subscribe("trades", deliver=lambda each: got.append(each["price"]), quality="reliable")
        await heard(publisher)
        with monkeypatch.context() as losing:
            losing.setattr(Sender, "send", lambda *_: None)
            await publisher.publish("trades", trades(1))
        time.sleep(1.2)
        assert await publisher.repaired()
        assert got == [0.0]

    run(story)


def test_a_publisher_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async def story(lan: Lan) -> None:
        publisher, reader = await lan.client(), await lan.client()
        await reader.subscribe("trades", quality="reliable", deliver=print)
        await heard(publisher)
        await publisher.publish("trades", trades(1))
        assert not await publisher.repaired(0.0)
        assert "still asks for what was sent reliably" in caplog.text
        assert await publisher.repaired()

    run(story)


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
        await left.subscribe("trades", "issue = 'IBM'", deliver=print)
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
