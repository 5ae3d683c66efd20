"""The client: events in every form, subscriptions that change, errors where the mistake was made, lost connections."""

from __future__ import annotations

import asyncio
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import contentcast as cc
from contentcast.live.client.client import Client
from contentcast.live.errors import LiveError, NotConnected
from contentcast.live.settings.limits import Limits
from contentcast.matching import Scan
from tests.live.stories import TRADE, TRADES, Net, Proxy, story, until


async def one_broker(net: Net, **settings: Any) -> tuple[Client, Client]:
    """A publisher and a subscriber at a broker that knows trades."""
    a = await net.broker("a", **settings)
    publisher, subscriber = await net.client(a), await net.client(a)
    await publisher.declare(TRADES)
    return publisher, subscriber


@pytest.mark.parametrize(
    "events",
    [
        TRADE,
        [TRADE],
        cc.EventBatch.from_dicts(TRADES, [TRADE]),
        pa.Table.from_pylist([TRADE]),
        pa.RecordBatch.from_pylist([TRADE]),
        pd.DataFrame([TRADE]),
    ],
    ids=lambda each: type(each).__name__,
)
def test_events_come_in_every_form(events: Any) -> None:
    @story
    async def told() -> None:
        async with Net() as net:
            publisher, subscriber = await one_broker(net)
            async with subscriber.batches("trades") as batches:
                assert (await publisher.publish("trades", events)).events == 1
                assert (await anext(batches)).to_dicts() == [TRADE]

    told()


@story
async def test_several_subscriptions_and_one_copy_of_the_event() -> None:
    async with Net() as net:
        publisher, subscriber = await one_broker(net)
        cheap: list[Any] = []
        ibm: list[Any] = []
        await subscriber.subscribe("trades", "price < 120", deliver=cheap.append)
        await subscriber.subscribe("trades", "issue = 'IBM'", deliver=ibm.append)
        await publisher.publish("trades", [TRADE, {"issue": "SAP", "price": 5.0}, {"issue": "IBM", "price": 500.0}])
        await until(lambda: len(cheap) == len(ibm) == 2)
        assert [each["price"] for each in cheap] == [119.5, 5.0]
        assert [each["price"] for each in ibm] == [119.5, 500.0]
        assert net.brokers["a"].serving.sessions[subscriber.name].delivered == 3


@story
async def test_many_subscriptions_as_one() -> None:
    """Against the oracle: every event once, with exactly the subscriptions that it satisfies."""
    texts = [f"price < {10 * at} AND volume >= {at}" for at in range(1, 40)]
    scan = Scan(TRADES)
    for at, text in enumerate(texts):
        scan.add(at, cc.parse_predicate(TRADES, text))
    sent = [{"price": float(7 * at), "volume": at % 50} for at in range(100)]
    async with Net() as net:
        publisher, subscriber = await one_broker(net)
        alone: list[Any] = []
        await subscriber.subscribe("trades", "price < 20", deliver=alone.append)
        many = await subscriber.subscribe_many("trades", texts)
        await publisher.publish("trades", sent)
        expected = [(event, found) for event in sent if (found := scan.match(event))]
        assert (await anext(many)).to_dicts() == expected
        await until(lambda: len(alone) == 3)
        await many.unsubscribe()
        assert len(net.brokers["a"].deliveries) == 1
        with pytest.raises(cc.PredicateError):
            await subscriber.subscribe_many("trades", [*texts, "price <"])
        assert len(net.brokers["a"].deliveries) == 1


@story
async def test_many_subscriptions_go_by_the_ids_that_one_has() -> None:
    async with Net() as net:
        publisher, subscriber = await one_broker(net)
        many = await subscriber.subscribe_many("trades", {"desk-7": "price < 20", "desk-9": "volume > 5"})
        await publisher.publish("trades", [{"price": 5.0, "volume": 9}, {"price": 50.0, "volume": 9}, {"price": 99.0}])
        assert (await anext(many)).to_dicts() == [
            ({"price": 5.0, "volume": 9}, ["desk-7", "desk-9"]),
            ({"price": 50.0, "volume": 9}, ["desk-9"]),
        ]


@story
async def test_a_subscription_changes_in_place() -> None:
    async with Net() as net:
        publisher, subscriber = await one_broker(net)
        got: list[float] = []
        subscription = await subscriber.subscribe("trades", "price < 10", deliver=lambda each: got.append(each["price"]))
        await publisher.publish("trades", [{"price": 5.0}, {"price": 15.0}])
        await subscription.change("price < 20")
        await publisher.publish("trades", [{"price": 6.0}, {"price": 16.0}])
        await until(lambda: len(got) == 3)
        assert got == [5.0, 6.0, 16.0]
        with pytest.raises(cc.PredicateError):
            await subscription.change("price <")
        await publisher.publish("trades", {"price": 17.0})
        await until(lambda: got[-1] == 17.0)
        await subscription.unsubscribe()
        await publisher.publish("trades", {"price": 1.0})
        assert net.brokers["a"].deliveries.events == 4


@story
async def test_errors_arrive_where_the_mistake_was_made() -> None:
    async with Net() as net:
        publisher, subscriber = await one_broker(net)
        with pytest.raises(cc.PredicateError, match="did you mean 'price'") as wrong:
            await subscriber.subscribe("trades", "issue = 'IBM' AND prise < 120", deliver=print)
        assert (wrong.value.line, wrong.value.column) == (1, 19)
        with pytest.raises(cc.EventError, match="'cheap' is a string"):
            await publisher.publish("trades", {"price": "cheap"})
        with pytest.raises(cc.ContentcastError, match="did you mean 'trades'"):
            await publisher.publish("trade", TRADE)
        with pytest.raises(cc.SpaceError, match="price is float here and string there"):
            await subscriber.declare(cc.Space("trades", price="string"))
        await publisher.publish("trades", {"price": "cheap"}, wait=False)
        await publisher.publish("trades", TRADE, wait=False)
        with pytest.raises(cc.EventError, match="'cheap' is a string"):
            await publisher.flush()
        assert net.brokers["a"].serving.published == 1, "the good one was accepted all the same"
        with pytest.raises(NotConnected, match="no broker answers"):
            await cc.connect("contentcast://127.0.0.1:1")


@story
async def test_a_subscription_that_nobody_would_read_is_refused() -> None:
    async with Net() as net:
        _, subscriber = await one_broker(net)
        with pytest.raises(cc.ContentcastError, match=r"nothing would read what comes; add deliver=FUNCTION.*client\.events"):
            await subscriber.subscribe("trades", "price < 120")
        assert net.brokers["a"].router.state()["subscribed"] == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"after": 10}, "add durable=NAME"),
        ({"durable": "desk-7", "after": -5}, "0 if you have none; got -5"),
        ({"durable": "desk-7", "on_slow": "skip"}, "on_slow= is for what is not durable"),
    ],
)
def test_what_would_be_ignored_is_refused(options: dict[str, Any], complaint: str) -> None:
    @story
    async def told() -> None:
        async with Net() as net:
            _, subscriber = await one_broker(net)
            with pytest.raises(cc.ContentcastError, match=complaint):
                await subscriber.subscribe("trades", **options, deliver=print)

    told()


@story
async def test_advertisements_come_and_go() -> None:
    async with Net() as net:
        publisher, _ = await one_broker(net)
        made = await publisher.advertise("trades", "price < 1000 OR issue = 'IBM'")
        assert len(net.brokers["a"].router.state()["advertised"]) == 2
        await publisher.unadvertise(made)
        assert "advertised" not in net.brokers["a"].router.state()


@story
async def test_no_more_is_under_way_than_the_window() -> None:
    async with Net() as net:
        publisher, _ = await one_broker(net, limits=Limits(window_events=10))
        most = 0
        for _ in range(200):
            await publisher.publish("trades", TRADE, wait=False)
            most = max(most, len(publisher._publishing))
        assert most == 10
        await publisher.flush()
        assert net.brokers["a"].serving.published == 200


@story
async def test_closing_drains() -> None:
    async with Net() as net:
        publisher, subscriber = await one_broker(net)
        got: list[Any] = []
        await subscriber.subscribe("trades", "TRUE", deliver=got.append)
        for _ in range(500):
            await publisher.publish("trades", TRADE, wait=False)
        await publisher.close()
        assert net.brokers["a"].serving.published == 500
        await until(lambda: net.brokers["a"].serving.sessions[subscriber.name].connection.queued == 0)
        await subscriber.space("trades")  # an answer after all that was delivered
        await subscriber.close()
        assert len(got) == 500
        with pytest.raises(NotConnected, match="closed"):
            await publisher.publish("trades", TRADE)


@story
async def test_a_name_belongs_to_who_has_it() -> None:
    async with Net() as net:
        a = await net.broker("a")
        await net.client(a, name="desk-7")
        with pytest.raises(LiveError, match="another client is connected as 'desk-7'"):
            await cc.connect(str(a.addresses[0]), name="desk-7")


@story
async def test_a_namesake_that_comes_later_publishes_from_the_start() -> None:
    async with Net() as net:
        a = await net.broker("a")
        for count in (1, 2):
            async with cc.connect(str(a.addresses[0]), name="feed") as feed:
                receipt = await feed.publish(TRADES, TRADE)
                assert not receipt.duplicate
                assert a.serving.published == count
            await until(lambda: not a.serving.sessions)


@story
async def test_a_client_moves_to_another_address_and_subscribes_again() -> None:
    async with Net() as net:
        a = await net.broker("a")
        b = await net.broker("b", a)
        changes: list[tuple[str, str]] = []
        url = f"{a.addresses[0]},{b.addresses[0]}"
        client = await net.enter_async_context(cc.connect(url, on_change=lambda *each: changes.append(each)))
        await client.declare(TRADES)
        got: list[Any] = []
        await client.subscribe("trades", "price < 120", deliver=got.append)
        await a.stop()
        await until(lambda: client.broker == "b" and len(b.deliveries) == 1)
        assert ("lost", "a") in changes
        assert changes[-1] == ("connected", "b")
        publisher = await net.client(b)
        await publisher.publish("trades", TRADE)
        await until(lambda: got == [TRADE])


@story
async def test_what_was_not_accepted_is_sent_again_and_published_once() -> None:
    """The broker publishes, and its answer is lost together with the connection."""
    async with Net() as net:
        a = await net.broker("a")
        proxy = await net.enter_async_context(Proxy(a))
        subscriber = await net.client(a)
        await subscriber.declare(TRADES)
        got: list[Any] = []
        await subscriber.subscribe("trades", "TRUE", deliver=got.append)
        publisher = await net.enter_async_context(cc.connect(proxy.url))
        await publisher.space("trades")
        proxy.answers = False
        sent = await publisher.publish("trades", TRADE, wait=False)
        await until(lambda: len(got) == 1)
        assert not sent.done()
        proxy.cut()
        proxy.answers = True
        receipt = await sent
        assert receipt.duplicate
        await publisher.publish("trades", TRADE | {"price": 1.0})
        await until(lambda: len(got) == 2)
        assert [each["price"] for each in got] == [119.5, 1.0]
        assert publisher.reconnections == 1


BIG = {"issue": "x" * 20_000, "price": 1.0}
SMALL_QUEUE = Limits(client_queue_bytes=256 * 1024)


@pytest.mark.parametrize("on_slow", ["pause", "skip", "disconnect"])
def test_a_slow_consumer_hurts_nobody_else(on_slow: str) -> None:
    """It takes nothing until the others have got everything; what it did not get was counted."""

    @story
    async def told() -> None:
        async with Net() as net:
            publisher, quick = await one_broker(net, limits=SMALL_QUEUE)
            a = net.brokers["a"]
            slow = await net.client(a, most_waiting=1)
            may_take = asyncio.Event()
            got: list[Any] = []
            quickly: list[Any] = []

            async def take(event: Any) -> None:
                await may_take.wait()
                got.append(event)

            await quick.subscribe("trades", "TRUE", deliver=quickly.append)
            subscription = await slow.subscribe("trades", "TRUE", deliver=take, on_slow=on_slow)
            session = a.serving.sessions[slow.name]
            sent = 0
            while not session.missed:
                await publisher.publish("trades", [BIG] * 10)
                sent += 10
                await until(lambda sent=sent: len(quickly) == sent)
                assert session.connection.queued < 3 * SMALL_QUEUE.client_queue_bytes
                assert sent < 20_000, "the queue of a client that takes nothing must fill"
            may_take.set()
            if on_slow == "disconnect":
                await until(lambda: slow.reconnections == 1 and slow.is_connected)
                return
            missed = session.missed
            await until(lambda: subscription.missed == slow.missed == missed)  # although nothing more comes
            await publisher.publish("trades", [TRADE])
            await until(lambda: got and got[-1] == TRADE)
            assert len(got) + slow.missed == sent + 1
            assert a.deliveries.events == len(got) + len(quickly)
            await slow.close()
            await until(lambda: slow.name not in a.serving.sessions)
            assert a.serving.missed == missed, "it stays counted"

    told()


def test_without_async() -> None:
    """The client has a thread of its own; the broker of this story is in another one."""
    from threading import Event, Thread

    addresses: list[str] = []
    up, over = Event(), Event()

    async def serve() -> None:
        async with Net() as net:
            addresses.append(str((await net.broker("a")).addresses[0]))
            up.set()
            await asyncio.to_thread(over.wait, 30)

    thread = Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert up.wait(30)
        with cc.connect_sync(addresses[0]) as client:
            client.declare(TRADES)
            got: list[Any] = []
            came = Event()
            subscription = client.subscribe("trades", "price < 10", deliver=lambda each: (got.append(each), came.set()))
            events = client.events("trades", "price > 100")
            assert client.publish("trades", [TRADE, {"price": 5.0}]).events == 2
            assert client.publish("trades", {"price": 50.0}, wait=False).result(10).events == 1
            assert next(events) == TRADE
            assert came.wait(10)
            assert got == [{"price": 5.0}]
            subscription.unsubscribe()
            with pytest.raises(cc.PredicateError):
                client.subscribe("trades", "price <", deliver=print)
            assert list(client.spaces()) == ["trades"]
    finally:
        over.set()
        thread.join(30)
