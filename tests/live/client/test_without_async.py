"""The client without async, as a program with threads uses it: its callbacks may call it, and it ends in every way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest

import contentcast as cc
from contentcast.live.client import SyncClient
from contentcast.live.errors import NotConnected
from tests.live.stories import TRADE, TRADES, Net

WAIT_S = 30.0


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with a disk, in a thread of its own."""
    addresses: list[str] = []
    up, over = Event(), Event()
    data = tmp_path_factory.mktemp("data")

    async def serve() -> None:
        async with Net() as net:
            addresses.append(str((await net.broker("a", data=data)).addresses[0]))
            up.set()
            await asyncio.to_thread(over.wait)

    thread = Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert up.wait(WAIT_S)
        with cc.connect_sync(addresses[0]) as client:
            client.declare(TRADES)
        yield addresses[0]
    finally:
        over.set()
        thread.join(WAIT_S)


@pytest.fixture
def client(url: str) -> Iterator[SyncClient]:
    """Closed by the test, or else in a thread, so that a client that hangs fails its test and no other."""
    made = cc.connect_sync(url)
    yield made
    closing = Thread(target=made.close, daemon=True)
    closing.start()
    closing.join(WAIT_S)
    assert not closing.is_alive(), "close() hangs"


def test_a_callback_publishes_and_waits_until_that_is_accepted(client: SyncClient) -> None:
    accepted: list[int] = []
    done = Event()

    def answer(event: dict[str, Any]) -> None:
        accepted.append(client.publish("trades", {"issue": "ANSWER", "price": event["price"]}).events)
        done.set()

    client.subscribe("trades", "issue = 'ASK'", deliver=answer)
    client.publish("trades", {"issue": "ASK", "price": 1.0})
    assert done.wait(WAIT_S)
    assert accepted == [1]


def test_a_callback_ends_its_own_subscription_and_another_one(client: SyncClient) -> None:
    got: list[str] = []
    done = Event()
    ended: list[Any] = []

    def end(event: dict[str, Any]) -> None:
        got.append(event["issue"])
        for each in ended:
            each.unsubscribe()
        done.set()

    ended += [client.subscribe("trades", "issue IN ('END', 'LATER')", deliver=end) for _ in range(2)]
    client.publish("trades", {"issue": "END"})
    assert done.wait(WAIT_S)
    client.publish("trades", {"issue": "LATER"})
    assert "LATER" not in got


def test_a_callback_closes_the_client(url: str) -> None:
    client = cc.connect_sync(url)
    done = Event()

    def close(_: object) -> None:
        client.close()
        done.set()

    client.subscribe("trades", "issue = 'CLOSE'", deliver=close)
    client.publish("trades", {"issue": "CLOSE"}, wait=False)
    assert done.wait(WAIT_S)
    with pytest.raises(NotConnected, match="the client was closed"):
        client.spaces()


def test_a_callback_that_takes_its_time_does_not_keep_the_client_from_publishing(client: SyncClient) -> None:
    called, go_on = Event(), Event()

    def work(_: object) -> None:
        called.set()
        go_on.wait(WAIT_S)

    client.subscribe("trades", "issue = 'SLOW'", deliver=work)
    client.publish("trades", {"issue": "SLOW"})
    assert called.wait(WAIT_S)
    assert client.publish("trades", {"issue": "MEANWHILE"}, wait=False).result(WAIT_S).events == 1
    go_on.set()


def test_events_come_in_their_order_and_after_a_callback_that_failed(client: SyncClient) -> None:
    got: list[int] = []

    def work(event: dict[str, Any]) -> None:
        got.append(event["volume"])
        if event["volume"] == 2:
            raise OSError("at the second")

    client.call(_hush())
    client.subscribe("trades", "issue = 'ORDER'", deliver=work)
    client.publish("trades", [{"issue": "ORDER", "volume": each} for each in range(100)])
    _until(lambda: len(got) == 100)
    assert got == list(range(100))


def test_what_a_callback_returns_is_awaited(client: SyncClient) -> None:
    done = Event()

    async def work(_: object) -> None:
        await asyncio.sleep(0)
        done.set()

    client.subscribe("trades", "issue = 'AWAIT'", deliver=work)
    client.publish("trades", {"issue": "AWAIT"})
    assert done.wait(WAIT_S)


def test_a_durable_subscription_stops_at_the_event_that_failed(client: SyncClient) -> None:
    got: list[tuple[int, int]] = []

    def work(event: dict[str, Any]) -> None:
        got.append((event["volume"], subscription.position))
        if event["volume"] == 3:
            raise OSError("at the third")

    client.call(_hush())
    subscription = client.subscribe("trades", "issue = 'DURABLE'", deliver=work, durable="desk-7")
    client.publish("trades", [{"issue": "DURABLE", "volume": each} for each in (1, 2, 3, 4)])
    _until(lambda: len(got) == 3)
    with client.events("trades", "issue = 'DURABLE'", durable="desk-7") as again:
        assert [next(again)["volume"] for _ in range(2)] == [3, 4]
    assert got == [(1, 1), (2, 2), (3, 3)]


def test_many_subscriptions_as_one(client: SyncClient) -> None:
    wanted = {"cheap": "issue = 'MANY' AND price < 10", "any": "issue = 'MANY'"}
    many = client.subscribe_many("trades", wanted)
    came: list[Any] = []
    client.subscribe_many("trades", list(wanted.values()), deliver=came.append)
    client.publish("trades", {"issue": "MANY", "price": 5.0})
    ((event, ids),) = next(many).to_dicts()
    assert event["price"] == 5.0
    assert sorted(ids) == ["any", "cheap"]
    assert len(many.ids) == 2
    _until(lambda: came)
    many.unsubscribe()
    assert list(many) == []


def test_two_threads_read_one_stream(client: SyncClient) -> None:
    got: list[int] = []
    stream = client.events("trades", "issue = 'SHARED'")
    readers = [Thread(target=lambda: got.extend(each["volume"] for each in stream), daemon=True) for _ in range(2)]
    for each in readers:
        each.start()
    client.publish("trades", [{"issue": "SHARED", "volume": each} for each in range(50)])
    _until(lambda: len(got) == 50)
    stream.close()
    for each in readers:
        each.join(WAIT_S)
        assert not each.is_alive()
    assert sorted(got) == list(range(50))


@pytest.mark.filterwarnings("error")
def test_a_closed_client_says_so(url: str) -> None:
    client = cc.connect_sync(url)
    subscription = client.subscribe("trades", "issue = 'OVER'", deliver=print)
    stream = client.events("trades", "issue = 'OVER'")
    client.close()
    client.close()
    for call in (
        lambda: client.publish("trades", TRADE),
        lambda: client.subscribe("trades", deliver=print),
        lambda: client.events("trades"),
        lambda: subscription.change("price < 5"),
        client.flush,
    ):
        with pytest.raises(NotConnected, match="the client was closed"):
            call()
    subscription.unsubscribe()
    assert list(stream) == []
    assert stream.next(0.1) is None
    stream.close()


def test_who_reads_a_stream_ends_with_the_client(url: str) -> None:
    client = cc.connect_sync(url)
    stream = client.events("trades", "issue = 'NEVER'")
    reader = Thread(target=lambda: list(stream), daemon=True)
    reader.start()
    client.close()
    reader.join(WAIT_S)
    assert not reader.is_alive()


def test_a_change_of_the_connection_is_told_where_the_client_can_be_called(url: str) -> None:
    heard: list[Any] = []
    client: SyncClient

    def told(what: str, _: str) -> None:
        if what == "connected":
            heard.append(list(client.spaces()))

    client = cc.connect_sync(url, on_change=told)
    client.call(_lose(client))
    _until(lambda: heard)
    assert heard == [["trades"]]
    client.close()


def _until(fact: Any) -> None:
    end = time.monotonic() + WAIT_S
    while not fact():
        assert time.monotonic() < end
        time.sleep(0.005)


async def _hush() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)


async def _lose(client: SyncClient) -> None:
    connection = client.inside._connection
    assert connection is not None
    connection.abort()
