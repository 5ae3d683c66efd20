"""Durable delivery over real sockets and a real disk, in one process: what a client sees of it."""

from __future__ import annotations

import asyncio
import shutil
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import contentcast as cc
from contentcast.live.broker import Broker
from contentcast.live.client.durable import DurableSubscription, Missed, Place
from contentcast.live.client.tracing import Tracer
from contentcast.live.errors import LiveError
from contentcast.live.looking.inspection import state
from contentcast.live.looking.log import Silent
from contentcast.live.looking.verifying import verify
from contentcast.live.records import OnDisk
from contentcast.live.settings.access import Access, Rights
from contentcast.live.settings.config import BrokerConfig
from contentcast.live.settings.identity import begin_life
from contentcast.live.settings.limits import Limits
from contentcast.routing.contract import TimerFired
from contentcast.routing.durable.keeping import Keeping
from contentcast.routing.durable.router import AGE
from tests.live.stories import TRADES, Net, Process, Proxy, knows_space, story, until


class Durably(Net):
    """Brokers with a data folder each."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    async def broker(self, name: str, *neighbours: Broker, **settings: Any) -> Broker:
        return await super().broker(name, *neighbours, data=self.folder / name, **settings)

    async def again(self, broker: Broker, *neighbours: Broker) -> Broker:
        """Another life of a broker that has stopped, at the same address and with the same disk."""
        addresses = tuple(each.addresses[0] for each in neighbours)
        config = BrokerConfig(name=broker.name, listen=broker.addresses, neighbours=addresses, data=self.folder / broker.name)
        return await self.enter_async_context(Broker(config, log=Silent()))


def prices(first: int, count: int) -> list[dict[str, Any]]:
    return [{"issue": "IBM", "price": float(each), "volume": each} for each in range(first, first + count)]


async def taken(stream: Any, count: int) -> list[int]:
    """The volumes of the next events."""
    return [(await anext(stream))["volume"] for _ in range(count)]


@story
async def test_an_absent_subscriber_gets_what_was_accepted_meanwhile(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        a = await net.broker("a")
        b = await net.broker("b", a)
        publisher = await net.client(a)
        await publisher.declare(TRADES)
        async with cc.connect(str(b.addresses[0])) as first:
            await knows_space(first)
            async with first.events("trades", "price < 100", durable="desk-7") as events:
                receipt = await publisher.publish("trades", prices(1, 3))
                assert (receipt.events, receipt.position > 0, receipt.duplicate) == (3, True, False)
                assert await taken(events, 3) == [1, 2, 3]
                events.acknowledge()
        await publisher.publish("trades", prices(99, 2))
        await publisher.publish("trades", prices(4, 2))
        second = await net.client(b)
        async with second.events("trades", "price < 100", durable="desk-7") as events:
            assert await taken(events, 3) == [99, 4, 5]
            assert isinstance(events.subscription, DurableSubscription)
            assert events.subscription.position == 6
            await publisher.publish("trades", prices(6, 1))
            assert await taken(events, 1) == [6]


@story
async def test_a_publisher_that_was_killed_begins_again_and_nothing_comes_twice(tmp_path: Path) -> None:
    """`contentcast publish FILE --publisher NAME` is killed between two batches, and the same command is given again."""
    pq.write_table(pa.Table.from_pylist(prices(0, 40_000)), tmp_path / "day.parquet")
    async with Durably(tmp_path) as net:
        a, client = await net.alone()
        async with client.events("trades", durable="desk-7") as events:
            words = ["publish", "trades", str(tmp_path / "day.parquet"), "--publisher", "feed", "--broker", str(a.addresses[0])]
            first = Process(tmp_path, *words, "--rate", "10000")
            assert await taken(events, 10_000) == list(range(10_000))
            first.signal(signal.SIGKILL)
            assert await first.ended() == -signal.SIGKILL
            again = Process(tmp_path, *words)
            assert await again.ended() == 0, again.complained()
            assert again.said() == "40,000 events accepted\n"
            assert await taken(events, 30_000) == list(range(10_000, 40_000))
            await client.publish("trades", prices(-1, 1))
            assert await taken(events, 1) == [-1], "nothing of the file came twice"


@story
async def test_what_was_not_acknowledged_comes_again_and_a_stored_number_goes_on_behind_it(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        _, client = await net.alone()
        async with client.events("trades", durable="desk-7", acknowledge=False) as events:
            await client.publish("trades", prices(1, 5))
            assert await taken(events, 4) == [1, 2, 3, 4]
            assert isinstance(events.subscription, DurableSubscription)
            events.subscription.acknowledge(2)
        async with client.events("trades", durable="desk-7", acknowledge=False) as events:
            assert await taken(events, 3) == [3, 4, 5]
        async with client.events("trades", durable="desk-7", after=4) as events:
            assert await taken(events, 1) == [5]
        with pytest.raises(LiveError, match=r"the client has 6 events of .*'desk-7', and broker a has given 5"):
            await client.subscribe("trades", durable="desk-7", after=6)


@story
async def test_who_is_not_there_sees_where_a_subscription_stands_and_acknowledges(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        a = await net.broker("a")
        client, other = await net.client(a), await net.client(a)
        await client.declare(TRADES)
        with pytest.raises(LiveError, match="keeps no durable subscription 'desk-7'"):
            await other.place("desk-7")
        async with client.events("trades", "price < 100", durable="desk-7", acknowledge=False) as events:
            await client.publish("trades", prices(1, 5))
            assert await taken(events, 5) == [1, 2, 3, 4, 5]
            assert await other.place("desk-7") == Place("trades", "price < 100.0", 0, 5, 1, 5)
            assert await other.acknowledge("desk-7", 3) == Place("trades", "price < 100.0", 3, 5, 4, 5)
            assert (await other.acknowledge("desk-7", 9)).acknowledged == 3, "there is no number 9 yet"
        async with client.events("trades", "price < 100", durable="desk-7") as events:
            assert await taken(events, 2) == [4, 5]
        assert (await other.acknowledge("desk-7", 5)).first == 6
        assert (await other.place("desk-7")).last == 5


@story
async def test_brokers_stop_and_start_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """The publisher's and the subscriber's clients stay, and reconnect by themselves."""
    async with Durably(tmp_path) as net:
        a, b, publisher, subscriber = await net.pair()
        events = await subscriber.events("trades", "volume < 1000", durable="desk-7").ready()
        await publisher.publish("trades", prices(1, 2))
        assert await taken(events, 2) == [1, 2]
        await b.stop()
        before = await publisher.publish("trades", prices(3, 2))
        await a.stop()
        waiting = asyncio.create_task(publisher.publish("trades", prices(5, 2)))
        a = await net.again(a)
        assert (await waiting).position > before.position
        b = await net.again(b, a)
        assert await taken(events, 4) == [3, 4, 5, 6]
        assert subscriber.reconnections == 1
        homes = a.router.state()["durable"]["origin"]["homes"]
        await until(lambda: a.router.state()["durable"]["origin"]["homes"]["b"]["waiting"] == [])
        assert set(homes) == {"b"}


@pytest.mark.parametrize("which", ["origin", "home"])
@pytest.mark.parametrize("is_copy", [False, True], ids=["emptied", "an older copy"])
def test_a_folder_that_was_brought_back_from_an_older_copy(tmp_path: Path, which: str, is_copy: bool) -> None:
    """What was accepted since the copy may be lost; what is accepted from then on comes once."""

    @story
    async def told() -> None:
        async with Durably(tmp_path) as net:
            _, b, publisher, subscriber = await net.pair()
            a = net.brokers["a"]
            events = await subscriber.events("trades", durable="desk-7").ready()
            await publisher.publish("trades", prices(0, 1))
            assert await taken(events, 1) == [0]
            victim, other = (a, b) if which == "origin" else (b, a)
            folder = tmp_path / victim.name
            shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("lock"))
            for each in range(1, 7):
                await publisher.publish("trades", prices(each, 1))
                assert await taken(events, 1) == [each]
            await (publisher if which == "origin" else subscriber).close()
            await victim.stop()
            await until(lambda: not other.neighbours.links)
            shutil.rmtree(folder)
            if is_copy:
                shutil.copytree(tmp_path / "copy", folder)
            await until(lambda: begin_life("", None).incarnation > victim.incarnation)  # nobody brings a folder back so soon
            # It starts alone, and accepts as much as was lost before it hears from anybody.
            again = await net.again(victim)
            client = await net.client(again)
            await client.declare(TRADES)
            alone = list(range(100, 107)) if which == "origin" and is_copy else []
            for each in alone:
                await client.publish("trades", prices(each, 1))
            again.neighbours.keep(list(other.addresses))
            await until(lambda: other.name in again.neighbours.links and again.name in other.neighbours.links)
            if which == "origin":
                publisher = client
                await until(lambda: "b" in again.router.state()["durable"]["origin"]["homes"])
            else:
                events = await client.events("trades", durable="another").ready()
                assert events.subscription is not None
                assert set(events.subscription.holds_at) == {"a", "b"}
            await publisher.publish("trades", prices(200, 2))
            assert await taken(events, len(alone) + 2) == [*alone, 200, 201]

    told()


@story
async def test_a_broker_that_is_gone_for_ever_is_forgotten_by_all(tmp_path: Path) -> None:
    """c is gone; b is down when a is told so, and hears of it when it is back. Later c comes back with its old folder."""
    async with Durably(tmp_path) as net:
        a = await net.broker("a")
        b = await net.broker("b", a)
        c = await net.broker("c", a)
        feed, desk = await net.client(a), await net.client(c, reconnect=False)
        await feed.declare(TRADES)
        await knows_space(desk)
        await until(lambda: {"a", "b"} <= c.durable.router.versions.marks().keys())
        await desk.subscribe("trades", "volume < 1000", durable="desk-7", deliver=print)
        await until(lambda: "c" in b.durable.origin.homes)
        with pytest.raises(cc.ContentcastError, match="c is there"):
            await feed.ask("forget", broker="c")
        await c.stop()
        await until(lambda: "c" not in a.neighbours.links)
        await feed.publish("trades", prices(1, 2))
        assert len(a.durable.origin.homes["c"].waiting) == 1
        with pytest.raises(cc.ContentcastError, match="knows no broker 'cc'"):
            await feed.ask("forget", broker="cc")
        await b.stop()
        await until(lambda: "b" not in a.neighbours.links)
        assert (await feed.ask("forget", broker="c"))["dropped_batches"] == 1
        assert "c" not in a.durable.origin.homes
        await feed.publish("trades", prices(3, 2))
        assert a.durable.sizes()["kept"] == 0, "nothing waits for it"
        kept = await feed.subscribe("trades", "volume < 1000", durable="desk-8", deliver=print)
        assert "c" not in kept.lacking

        config = BrokerConfig(name="b", listen=b.addresses, neighbours=a.addresses, data=tmp_path / "b")
        b = await net.enter_async_context(Broker(config, log=Silent()))
        await until(lambda: "c" not in b.durable.origin.homes and "c" in b.durable.gone)
        await a.stop()
        again = BrokerConfig(name="a", listen=a.addresses, data=tmp_path / "a")
        a = await net.enter_async_context(Broker(again, log=Silent()))
        assert "c" not in a.durable.origin.homes, "it stands in the log"

        config = BrokerConfig(name="c", neighbours=a.addresses, data=tmp_path / "c")
        c = await net.enter_async_context(Broker(config, log=Silent()))
        await until(lambda: "c" in a.durable.origin.homes and "c" in b.durable.origin.homes)
        back = await net.client(c)
        events = await back.events("trades", "volume < 1000", durable="desk-7").ready()
        await until(lambda: not c.durable.home.lacking())
        await feed.publish("trades", prices(5, 2))
        assert await taken(events, 2) == [5, 6]


@story
async def test_a_batch_with_a_publishers_number_is_published_once(tmp_path: Path) -> None:
    """Also by another client, and by another life of the broker."""
    async with Durably(tmp_path) as net:
        a, one = await net.alone()
        events = await one.events("trades", durable="desk-7").ready()
        first = await one.publish("trades", prices(1, 2), publisher="feed", number=1)
        again = await one.publish("trades", prices(1, 2), publisher="feed", number=1)
        assert (first.duplicate, again.duplicate, again.position) == (False, True, first.position)
        assert await taken(events, 2) == [1, 2]
        told = state(a)
        assert (told["published"], told["delivered"], told["subscriptions"]) == (2, 2, 1), "a duplicate counts once"
        await a.stop()
        a = await net.again(a)
        other = await net.client(a)
        assert (await other.publish("trades", prices(1, 2), publisher="feed", number=1)).duplicate
        assert not (await other.publish("trades", prices(3, 1), publisher="feed", number=2)).duplicate
        assert await taken(events, 1) == [3]
        with pytest.raises(cc.ContentcastError, match="numbers from 1 on"):
            await other.publish("trades", prices(3, 1), publisher="feed")
        with pytest.raises(cc.ContentcastError, match=r"publisher='feed' needs number=.* from 1 on, got -1"):
            await other.publish("trades", prices(3, 1), publisher="feed", number=-1)
        with pytest.raises(cc.ContentcastError, match=r"number=3 needs the name .*; add publisher='NAME'"):
            await other.publish("trades", prices(3, 1), number=3)


@story
async def test_a_refused_number_that_comes_after_a_later_one_is_refused_again_and_not_a_duplicate(tmp_path: Path) -> None:
    """Also by another life of the broker; the events can be published under a new number."""
    rights = Access((), {"*": Rights({"*": "price < 100"}, {"*": "TRUE"}, declare=True)})
    wider = Access((), {"*": Rights({"*": "TRUE"}, {"*": "TRUE"}, declare=True)})
    async with Durably(tmp_path) as net:
        a = await net.broker("a", access=rights)
        client = await net.client(a)
        await client.declare(TRADES)
        events = await client.events("trades", durable="desk-7").ready()
        await client.publish("trades", prices(1, 1), publisher="feed", number=1)
        with pytest.raises(LiveError, match="price < 100"):
            await client.publish("trades", prices(200, 1), publisher="feed", number=2)
        await client.publish("trades", prices(3, 1), publisher="feed", number=3)
        a.serving.access = wider
        why = "number 2 was never accepted by broker a, and number 3 of the same publisher was: .* under a number above 3"
        with pytest.raises(LiveError, match=why) as refused:
            await client.publish("trades", prices(200, 1), publisher="feed", number=2)
        assert refused.value.code == "number"
        await a.stop()
        a = await net.again(a)
        other = await net.client(a)
        with pytest.raises(LiveError, match=why):
            await other.publish("trades", prices(200, 1), publisher="feed", number=2)
        assert (await other.publish("trades", prices(1, 1), publisher="feed", number=1)).duplicate
        await other.publish("trades", prices(200, 1), publisher="feed", number=4)
        assert await taken(events, 3) == [1, 3, 200]


@story
async def test_what_is_sent_again_after_a_lost_answer_is_not_published_again(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        a, subscriber = await net.alone()
        events = await subscriber.events("trades", durable="desk-7").ready()
        async with Proxy(a) as proxy, cc.connect(proxy.url) as publisher:
            await knows_space(publisher)
            proxy.answers = False
            sent = asyncio.create_task(publisher.publish("trades", prices(1, 2)))
            assert await taken(events, 2) == [1, 2]
            proxy.answers = True
            proxy.cut()
            assert (await sent).duplicate
            await publisher.publish("trades", prices(3, 1))
        assert await taken(events, 1) == [3]


@story
async def test_what_a_broker_may_have_on_its_disk_is_sent_to_no_other(tmp_path: Path) -> None:
    """Broker a has it on its disk, and stops before the publisher hears of it. Broker b could not tell it from a new event."""
    async with Durably(tmp_path) as net:
        a = await net.broker("a")
        b = await net.broker("b", a)
        subscriber = await net.client(b)
        await subscriber.declare(TRADES)
        events = await subscriber.events("trades", durable="desk-7").ready()
        changes: list[tuple[str, str]] = []
        async with Proxy(a) as proxy:
            url = f"{proxy.url},{b.addresses[0]}"
            publisher = await net.enter_async_context(cc.connect(url, on_change=lambda *each: changes.append(each)))
            await knows_space(publisher)
            proxy.answers = False
            sent = await publisher.publish("trades", prices(1, 2), wait=False)
            assert await taken(events, 2) == [1, 2]
            await a.stop()
            proxy.cut()
            await until(lambda: any(what == "trying" and "b does not keep" in about for what, about in changes))
            assert ("waiting", "for a, which keeps what this client has published or subscribes to") in changes
            assert not sent.done()
            proxy.answers = True
            await net.again(a, b)
            assert (await sent).duplicate
            await publisher.publish("trades", prices(3, 1))
            assert publisher.broker == "a"
        assert await taken(events, 1) == [3]


@story
async def test_an_ended_subscription_gets_nothing_and_a_new_one_of_its_name_begins_anew(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        a, client = await net.alone()
        subscription = await client.subscribe("trades", durable="desk-7")
        await client.publish("trades", prices(1, 2))
        await subscription.unsubscribe()
        assert a.router.sizes()["durable subscriptions"] == 0
        await client.publish("trades", prices(3, 2))
        async with client.events("trades", durable="desk-7") as events:
            await client.publish("trades", prices(5, 1))
            assert await taken(events, 1) == [5]
        assert a.router.sizes()["durable subscriptions"] == 1
        await client.unsubscribe("desk-7")
        assert a.router.sizes()["durable subscriptions"] == 0


@story
async def test_who_comes_later_takes_the_place_and_the_earlier_one_is_told(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        a = await net.broker("a")
        one, other = await net.client(a, name="one"), await net.client(a, name="other")
        await one.declare(TRADES)
        before = await one.events("trades", durable="desk-7").ready()
        now = await other.events("trades", durable="desk-7").ready()
        await one.publish("trades", prices(1, 1))
        assert await taken(now, 1) == [1]
        with pytest.raises(LiveError, match="other has taken the durable subscription 'desk-7' of one"):
            await anext(before)


@story
async def test_a_changed_predicate_keeps_its_numbers(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        _, client = await net.alone()
        events = await client.events("trades", "price < 5", durable="desk-7").ready()
        assert events.subscription is not None
        await client.publish("trades", prices(4, 2))
        await events.subscription.change("price >= 5")
        await client.publish("trades", prices(4, 2))
        assert await taken(events, 2) == [4, 5]
        with pytest.raises(LiveError, match="'desk-7' is of the space trades, not of other"):
            await client.subscribe(cc.Space("other", x="int"), durable="desk-7")


@story
async def test_a_slow_client_gets_everything_and_the_queue_stays_small(tmp_path: Path) -> None:
    limits = Limits(client_queue_bytes=200_000)
    async with Durably(tmp_path) as net:
        a = await net.broker("a", limits=limits)
        publisher, slow = await net.client(a), await net.client(a, most_waiting=100)
        await publisher.declare(TRADES)
        events = await slow.events("trades", durable="desk-7").ready()
        for begin in range(0, 100_000, 1_000):
            await publisher.publish("trades", prices(begin, 1_000))
            session = a.serving.sessions[slow.name]
            assert session.connection.queued < 2 * limits.client_queue_bytes
        assert await taken(events, 100_000) == list(range(100_000))


@story
async def test_what_a_limit_takes_is_told_as_a_gap(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        a = await net.broker("a", limits=Limits(durable_bytes=20_000))
        publisher = await net.client(a)
        await publisher.declare(TRADES)
        subscription = await publisher.subscribe("trades", durable="desk-7")
        await subscription.leave()
        for begin in range(0, 2_000, 20):
            await publisher.publish("trades", prices(begin, 20))
        gaps: list[Missed] = []
        async with publisher.events("trades", durable="desk-7", on_missed=gaps.append) as events:
            first = await anext(events)
            assert gaps == [Missed(1, first["volume"])], "numbers begin with 1, and volumes with 0"
            assert first["volume"] > 1_000
            rest = await taken(events, 1_999 - first["volume"])
            assert rest == list(range(first["volume"] + 1, 2_000))
        assert publisher.missed == first["volume"]


@story
async def test_what_a_limit_took_is_told_when_nothing_comes_behind_it(tmp_path: Path) -> None:
    """To a subscriber that returns, once for each connection, until it acknowledges a later event."""
    async with Durably(tmp_path) as net:
        a, publisher = await net.alone()
        assert a.durable is not None
        home = a.durable.home
        subscription = await publisher.subscribe("trades", durable="desk-7")
        await subscription.leave()
        await publisher.publish("trades", prices(1, 3))
        await until(lambda: home.sizes()["waiting"] == 3)
        a.durable.keep(Keeping(most_age_s=0.05))
        a.put(TimerFired(AGE))
        await until(lambda: home.sizes()["waiting"] == 0)
        a.durable.keep(Keeping())
        gaps: list[Missed] = []
        async with publisher.events("trades", durable="desk-7", on_missed=gaps.append) as events:
            await until(lambda: gaps == [Missed(1, 3)])
            await publisher.publish("trades", prices(4, 1))
            assert await taken(events, 1) == [4]
            assert gaps == [Missed(1, 3)], "it is told once"
            assert publisher.missed == 3


@story
async def test_what_everybody_has_goes_from_the_disk_and_a_broker_starts_from_what_is_left(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        a = await net.broker("a")
        assert isinstance(a._records, OnDisk)
        a._records.store._segment_bytes = 50_000
        assert a.durable is not None
        a.durable.keep(Keeping(trim_bytes=100_000))
        client = await net.client(a)
        await client.declare(TRADES)
        got: list[int] = []
        await client.subscribe("trades", "volume >= 0", durable="busy", deliver=lambda event: got.append(event["volume"]))
        lazy = await client.subscribe("trades", "volume = 77", durable="lazy")
        await lazy.leave()
        for begin in range(0, 30_000, 100):
            await client.publish("trades", prices(begin, 100), publisher="feed", number=begin // 100 + 1)
        await until(lambda: len(got) == 30_000)

        def on_disk() -> int:
            return sum(each.stat().st_size for each in (tmp_path / "a").glob("*.log"))

        await until(lambda: on_disk() < 500_000)
        await a.stop()
        found = verify(tmp_path / "a")
        assert found["subscriptions"]["busy"]["numbered"] == 30_000
        assert found["subscriptions"]["lazy"] == {"numbered": 1, "acknowledged": 0}
        a = await net.again(a)
        other = await net.client(a)
        assert (await other.publish("trades", prices(0, 100), publisher="feed", number=300)).duplicate
        async with other.events("trades", "volume = 77", durable="lazy") as events:
            assert await taken(events, 1) == [77], "it waited over all that was trimmed"


@story
async def test_a_dry_run_names_durable_subscribers_that_are_away(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        a = await net.broker("a")
        b = await net.broker("b", a)
        client = await net.client(b)
        await client.declare(TRADES)
        subscription = await client.subscribe("trades", "price < 5", durable="desk-7")
        await subscription.leave()
        async with Tracer(str(a.addresses[0])) as tracer:
            await tracer.open()
            trace = await tracer.follow("trades", {"price": 4.0})
            nothing = await tracer.follow("trades", {"price": 5.0})
        assert trace.gets == [{"broker": "b", "client": "desk-7", "subscription": subscription.id, "durable": True}]
        assert nothing.gets == []


@story
async def test_a_callback_gets_each_event_once_over_a_cut_connection(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        a, publisher = await net.alone()
        got: list[int] = []
        async with Proxy(a) as proxy, cc.connect(proxy.url) as subscriber:
            await subscriber.subscribe("trades", durable="desk-7", deliver=lambda event: got.append(event["volume"]))
            for begin in range(0, 50, 10):
                await publisher.publish("trades", prices(begin, 10))
                if begin == 20:
                    proxy.cut()
            await until(lambda: len(got) >= 50)
        assert got == list(range(50))


@story
async def test_a_broker_in_memory_says_how_to_make_it_durable_and_is_no_neighbour_of_a_durable_one(tmp_path: Path) -> None:
    async with Net() as net:
        a, client = await net.alone()
        with pytest.raises(LiveError, match=r"keeps nothing on disk.*--data"):
            await client.subscribe("trades", durable="desk-7")
        config = BrokerConfig(name="b", neighbours=a.addresses, data=tmp_path)
        log = Silent()
        await net.enter_async_context(Broker(config, log=log))
        await until(lambda: any("start all brokers of a network with --data" in str(facts) for _, facts in log.notes))


@story
async def test_a_name_that_another_broker_keeps_is_found_there(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        a = await net.broker("a")
        b = await net.broker("b", a)
        one = await net.client(a)
        await one.declare(TRADES)
        await one.subscribe("trades", durable="desk-7")
        other = await net.client(b)
        await knows_space(other)
        with pytest.raises(LiveError, match=rf"'desk-7' is kept by broker a; connect to {a.addresses[0]}"):
            await other.subscribe("trades", durable="desk-7")


def test_the_client_without_async(tmp_path: Path) -> None:
    @story
    async def told() -> None:
        async with Durably(tmp_path) as net:
            a = await net.broker("a")

            def use() -> list[int]:
                with cc.connect_sync(str(a.addresses[0])) as client:
                    client.declare(TRADES)
                    events = client.events("trades", durable="desk-7")
                    client.publish("trades", prices(1, 3))
                    return [next(events)["volume"] for _ in range(3)]

            assert await asyncio.to_thread(use) == [1, 2, 3]

    told()


@story
async def test_a_folder_that_is_in_use_or_whose_records_are_gone_does_not_verify(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        a, client = await net.alone()
        await client.publish("trades", prices(1, 1))
        with pytest.raises(cc.ContentcastError, match="a broker uses this folder now, and writes to it; stop it first"):
            verify(tmp_path / "a")
        shutil.copytree(tmp_path / "a", tmp_path / "copy", ignore=shutil.ignore_patterns("lock"))
        assert verify(tmp_path / "copy")["records"] > 0
        await a.stop()
        assert verify(tmp_path / "a")["records"] > 0
        for log in (tmp_path / "a").glob("*.log"):
            log.unlink()
        with pytest.raises(cc.ContentcastError, match=r"has no \.log file: the records of broker a are gone"):
            verify(tmp_path / "a")


@story
async def test_a_broker_says_that_its_protocol_keeps_nothing(tmp_path: Path) -> None:
    async with Durably(tmp_path) as net:
        a = await net.broker("a", protocol="overlay")
        assert isinstance(a.log, Silent)
        assert ("nothing is durable", "overlay") in [(what, facts.get("protocol")) for what, facts in a.log.notes]
