"""Why an event arrives or does not: hop by hop, with the test that fails, and nothing is delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from contentcast.catalog import PROTOCOLS
from contentcast.commands.live.publish import _tell_not_known
from contentcast.commands.live.why import ARRIVES, LEFT_OUT, NO_MATCH, NOT_REACHED, UNKNOWN, WAITS, _ask, _judge, _lines
from contentcast.commands.live.why_past import LATER_S
from contentcast.language import parse_predicate
from contentcast.live.client import tracing
from contentcast.live.client.tracing import Tracer
from contentcast.live.looking.judging import never
from contentcast.live.settings.address import read_address
from contentcast.live.settings.limits import Limits
from tests.live.stories import TRADE, TRADES, Net, knows_space, story, until

LIVE = [each for each in PROTOCOLS if each != "multicast"]
ON_TREES = ["link-matching", "hybrid", "match-first", "two-tier", "covering"]
"""Those of a line that has one way, and nothing is sent where nobody wants it."""


async def line(net: Net, protocol: str = "link-matching") -> Any:
    """a - b - c and b - d; desk-7 at c wants cheap trades."""
    a = await net.broker("a", protocol=protocol)
    b = await net.broker("b", a, protocol=protocol)
    c = await net.broker("c", b, protocol=protocol)
    await net.broker("d", b, protocol=protocol)
    publisher, desk = await net.client(a), await net.client(c, name="desk-7")
    await publisher.declare(TRADES)
    await knows_space(desk)
    subscription = await desk.subscribe("trades", "issue = 'IBM' AND price < 120", deliver=print)
    url = str(a.addresses[0])

    async def would_arrive() -> bool:
        async with Tracer(url) as tracer:
            await tracer.open()
            return bool((await tracer.follow("trades", TRADE)).gets)

    await until(would_arrive)  # all have heard of the subscription
    return url, subscription


@pytest.mark.parametrize("protocol", LIVE)
def test_a_dry_run_follows_the_event_and_delivers_nothing(protocol: str) -> None:
    @story
    async def told() -> None:
        async with Net() as net:
            url, subscription = await line(net, protocol)
            async with Tracer(url) as tracer:
                await tracer.open()
                trace = await tracer.follow("trades", TRADE)
            assert trace.gets == [{"broker": "c", "client": "desk-7", "subscription": subscription.id}]
            if protocol in ON_TREES:
                assert trace.taken == [("a", "b"), ("b", "c")]
                assert trace.not_taken == [("b", "d")]
            assert not trace.unreachable
            assert net.brokers["c"].deliveries.events == 0
            assert net.brokers["a"].serving.published == 0

    told()


@pytest.mark.parametrize("protocol", LIVE)
def test_what_became_of_an_event_is_told_by_every_broker_that_had_it(protocol: str) -> None:
    @story
    async def told() -> None:
        async with Net() as net:
            url, subscription = await line(net, protocol)
            feed = await net.client(net.brokers["a"], name="feed")
            await feed.publish("trades", [TRADE | {"price": 500.0}, TRADE, TRADE | {"price": 600.0}])
            await until(lambda: net.brokers["c"].deliveries.events == 1)
            code, told = await _ask(url, "trades", TRADE, subscription.id, {})
            assert (code, told["outcome"]) == (ARRIVES, "it was handed to the subscriber")
            lines = _lines(code, told)
            assert any(each.startswith("a  published here by feed") for each in lines), lines
            assert any(each.startswith(f"c  handed to desk-7 (subscription {subscription.id}): taken") for each in lines), lines
            if protocol in ON_TREES:
                assert any(each.startswith("b  not sent to d") for each in lines), lines
            by_id = await _ask(url, "trades", None, subscription.id, {}, id=told["id"])
            assert by_id[0] == ARRIVES
            other = await _ask(url, "trades", TRADE | {"price": 500.0}, subscription.id, {})
            assert other[0] == NO_MATCH
            assert other[1]["id"] != told["id"]
            assert other[1]["judged"]["failed"] == [{"test": "price < 120.0", "value": 500.0}]
            would = await _ask(url, "trades", TRADE, subscription.id, {}, would=True)
            assert (would[0], would[1]["outcome"]) == (ARRIVES, "it arrives")

    told()


@story
async def test_a_queue_in_which_an_event_waits_is_named_and_so_is_one_that_was_full() -> None:
    async with Net() as net:
        a = await net.broker("a", limits=Limits(client_queue_bytes=200_000), on_slow="skip")
        feed = await net.client(a, name="feed")
        await feed.declare(TRADES)
        url = str(a.addresses[0])
        slow = await net.client(a, name="slow", most_waiting=1)
        may_take = asyncio.Event()

        async def take(event: Any) -> None:
            await may_take.wait()

        subscription = await slow.subscribe("trades", "price < 120", deliver=take)
        (session,) = [each for each in a.serving.sessions.values() if each.name == "slow"]
        price = 0.0
        while not session.missed:
            price = round(price + 0.001, 3)
            await feed.publish("trades", [TRADE | {"price": price}] * 1_000)
        code, told = await _ask(url, "trades", TRADE | {"price": price}, subscription.id, {})
        assert code == LEFT_OUT, told["place"]
        assert told["place"] == "the queue of slow at a was full"
        code, told = await _ask(url, "trades", TRADE | {"price": round(price - 0.001, 3)}, subscription.id, {})
        assert code == WAITS, (told["place"], price)
        assert told["place"].startswith("in the queue of slow at a, up to byte")
        may_take.set()
        await until(lambda: session.connection.queued == 0)
        code, told = await _ask(url, "trades", TRADE | {"price": round(price - 0.001, 3)}, subscription.id, {})
        assert (code, told["place"]) == (ARRIVES, "a gave it to slow")


@story
async def test_a_subscription_that_came_later_than_the_event() -> None:
    async with Net() as net:
        a = await net.broker("a")
        client = await net.client(a, name="desk-7")
        await client.declare(TRADES)
        await client.publish("trades", TRADE)
        await asyncio.sleep(2 * LATER_S)  # ages are told to a few milliseconds
        subscription = await client.subscribe("trades", "price < 120", deliver=print)
        code, told = await _ask(str(a.addresses[0]), "trades", TRADE, subscription.id, {})
        assert code == NOT_REACHED
        assert told["place"].startswith("the subscription is ")


@story
async def test_the_place_of_an_event_that_waits_for_a_durable_subscriber(tmp_path: Path) -> None:
    async with Net() as net:
        a = await net.broker("a", data=tmp_path / "a")
        b = await net.broker("b", a, data=tmp_path / "b")
        feed, desk = await net.client(a, name="feed"), await net.client(b, name="desk-7")
        await feed.declare(TRADES)
        await knows_space(desk)
        await until(lambda: "a" in b.durable.router.versions.marks())
        kept = await desk.subscribe("trades", "price < 120", durable="desk-7", acknowledge=False, deliver=lambda event: None)
        assert set(kept.holds_at) == {"a", "b"}
        url = str(a.addresses[0])

        async def place(event: dict[str, Any]) -> tuple[int, str]:
            code, told = await _ask(url, "trades", event, kept.id, {})
            return code, told.get("place", told["outcome"])

        await feed.publish("trades", TRADE)
        await until(lambda: b.serving.durables.events == 1)
        assert await place(TRADE) == (ARRIVES, "number 1 at b was handed over and is not acknowledged")
        await desk.acknowledge("desk-7", 1)

        async def acknowledged() -> bool:
            return await place(TRADE) == (ARRIVES, "acknowledged as number 1")

        await until(acknowledged)
        await kept.leave()
        later = TRADE | {"price": 118.0}
        await feed.publish("trades", later)

        async def waits_at_home() -> bool:
            return await place(later) == (WAITS, "number 2 at b waits for its client")

        await until(waits_at_home)
        assert (await place(later | {"price": 130.0}))[0] == NO_MATCH


@story
async def test_a_position_of_the_log_at_which_an_event_waits_for_a_broker_that_is_down(tmp_path: Path) -> None:
    async with Net() as net:
        a = await net.broker("a", data=tmp_path / "a")
        b = await net.broker("b", a, data=tmp_path / "b")
        feed, desk = await net.client(a, name="feed"), await net.client(b, name="desk-7", reconnect=False)
        await feed.declare(TRADES)
        await knows_space(desk)
        await until(lambda: "a" in b.durable.router.versions.marks())
        kept = await desk.subscribe("trades", "price < 120", durable="desk-7", deliver=lambda event: None)
        await b.stop()
        await until(lambda: not a.neighbours.links)
        position = (await feed.publish("trades", TRADE)).position
        code, told = await _ask(str(a.addresses[0]), "trades", TRADE, kept.id, {})
        assert (code, told["place"]) == (WAITS, f"position {position:,} of a's log: b has not said that it has it")
        assert "b" in told["unreachable"]


@story
async def test_the_very_test_that_fails_is_named() -> None:
    async with Net() as net:
        url, subscription = await line(net)
        code, told = await _ask(url, "trades", TRADE | {"price": 121.0}, subscription.id, {})
        assert code == NO_MATCH
        assert told["judged"]["failed"] == [{"test": "price < 120.0", "value": 121.0}]
        assert "fails: price < 120.0, and the event has 121.0" in _lines(code, told)
        code, told = await _ask(url, "trades", TRADE, subscription.id, {})
        assert code == ARRIVES
        assert told["links"] == ["a > b", "b > c"]
        assert (await _ask(url, "trades", TRADE, 5, {}))[0] == UNKNOWN


@story
async def test_a_cut_way_is_seen() -> None:
    async with Net() as net:
        url, subscription = await line(net)
        b, c = net.brokers["b"], net.brokers["c"]
        c.neighbours.keep([])
        await until(lambda: "c" not in b.neighbours.links)
        code, _ = await _ask(url, "trades", TRADE, subscription.id, {})
        assert code == NOT_REACHED


def test_a_dry_run_says_where_it_does_not_know_who_wants_the_events(capsys: pytest.CaptureFixture[str]) -> None:
    @story
    async def told() -> None:
        async with Net() as net:
            a = await net.broker("a")
            b = await net.broker("b", a)
            url = str(a.addresses[0])
            await _tell_not_known(url, {})
            assert capsys.readouterr().err == "", "nothing is lost"
            nobody = read_address("contentcast://127.0.0.1:1")
            a.neighbours.keep([nobody])
            await until(lambda: a.neighbours.dialled[nobody] != "dialling")
            await b.stop()
            await _tell_not_known(url, {})
            of_link, of_broker = capsys.readouterr().err.splitlines()
            assert of_link.startswith(f"contentcast: a has no link to {nobody} (Connection refused); somebody there or behind")
            assert of_broker.startswith("contentcast: b cannot be asked (")

    told()


@story
async def test_a_broker_counts_what_each_subscription_accepts() -> None:
    async with Net() as net:
        a = await net.broker("a")
        client = await net.client(a, name="desk-7")
        await client.declare(TRADES)
        await client.subscribe("trades", "price < 120", deliver=print)
        await client.subscribe("trades", "price < 0", deliver=print)
        await client.publish("trades", [TRADE, TRADE])
        await client.publish("trades", TRADE)
        counted = (await client.ask("subscriptions"))["subscriptions"]
        assert [(each["predicate"], each["accepted"]) for each in counted] == [("price < 120", 3), ("price < 0", 0)]
        told = await client.ask("state")
        assert [(each["id"], each["accepted"]) for each in told["counted"]] == [
            (each["id"], each["accepted"]) for each in counted
        ]
        (silent,) = told["never_matched"]
        assert silent["never"] == "price < 0.0 holds for 0 of the last 3 events"
        assert (await client.ask("subscriptions"))["subscriptions"] == counted, "asking changes nothing"


@story
async def test_the_test_that_keeps_a_subscription_from_all_events_of_the_network() -> None:
    """Link matching brings the broker of the subscriber nothing that nobody there wants; the others are asked."""
    async with Net() as net:
        url, subscription = await line(net)
        feed = await net.client(net.brokers["a"], name="feed")
        assert (await _judge(url, "trades", subscription.id, {}))[1][
            "keeps"
        ] == "no event of its space has come to this broker lately"
        await feed.publish("trades", [TRADE | {"price": 121.0 + at} for at in range(10)] + [TRADE | {"issue": "SAP"}])
        code, told = await _judge(url, "trades", subscription.id, {})
        assert code == NO_MATCH
        assert told["keeps"] == "price < 120.0 holds for 1 of the last 11 events"
        await feed.publish("trades", TRADE)
        await until(lambda: net.brokers["c"].deliveries.events == 1)
        code, told = await _judge(url, "trades", subscription.id, {})
        assert (code, told["outcome"]) == (ARRIVES, "it has accepted 1 events")
        assert (await _judge(url, "trades", 5, {}))[0] == UNKNOWN


def test_what_keeps_a_predicate_from_events() -> None:
    events = [TRADE, TRADE | {"price": 7.0}]
    assert "contradict" in never(parse_predicate(TRADES, "price < 1 AND price > 2"), events)["keeps"]
    both = never(parse_predicate(TRADES, "(issue = 'IBM' AND price < 1) OR volume < 5"), events)
    assert both["keeps"] == "price < 1.0 holds for 0 OR volume <= 4 holds for 0 of the last 2 events"
    assert both["tests"][0]["values"] == [119.5, 7.0]


@story
async def test_who_was_reached_over_tls_is_believed_no_address_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each broker that is asked is shown the token, so it goes to nobody in the clear."""
    dialled: list[str] = []

    class Secured:
        broker = "a"

        async def __aenter__(self) -> Secured:
            return self

        async def __aexit__(self, *_: object) -> None:
            pass

        async def ask(self, what: str, **_: Any) -> dict[str, Any]:
            told = {"b": ["contentcast://127.0.0.1:2", "contentcasts://127.0.0.1:3"], "c": ["contentcast://127.0.0.1:4"]}
            return {"addresses": told, "gets": [], "onward": [("b", b"", False), ("c", b"", False)], "links": []}

    def connect(urls: str | Iterable[str], **_: Any) -> Secured:
        dialled.extend([urls] if isinstance(urls, str) else urls)
        return Secured()

    monkeypatch.setattr(tracing, "connect", connect)
    async with Tracer("contentcasts://127.0.0.1:1", token="secret") as tracer:
        await tracer.open()
        trace = await tracer.follow("trades", TRADE)
    assert dialled == ["contentcasts://127.0.0.1:1", "contentcasts://127.0.0.1:3"]
    assert trace.unreachable == {"c": "nobody knows where c listens with TLS"}
