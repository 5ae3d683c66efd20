"""A live broker as a source and as a sink of Spark: exactly once, also when broker or driver are killed.

The brokers are processes of their own with a data folder; the clients that publish, and what they were told, are the ledger.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructType
from typer.testing import CliRunner

import contentcast as cc
from contentcast.cli import app
from contentcast.live.errors import LiveError
from contentcast.live.settings.limits import Limits
from contentcast.spark.format.broker.connection import BrokerOptionError
from contentcast.spark.format.broker.sink import MESSAGES, Target, _messages
from contentcast.spark.format.broker.source import EventsLost, Reader, Span, StreamReader, read_options, schema_of
from tests.live.ledger import Brokers
from tests.live.stories import LIMIT_S, Net, story, until
from tests.spark.format.patient import ended

ORDERS = cc.Space("orders", feed="string", number="int", price="float")


class OneBroker(Brokers):
    """One broker with a data folder, for tests that are not async themselves."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {"a": []})
        asyncio.run(self.start("a"))

    @property
    def url(self) -> str:
        return self.addresses["a"]

    def kill_and_start(self) -> None:
        self.kill("a")
        asyncio.run(self.start("a"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneBroker]:
    running = OneBroker(tmp_path_factory.mktemp("broker"))
    try:
        yield running
    finally:
        running.end()


@pytest.fixture
def client(broker: OneBroker) -> Iterator[Any]:
    with cc.connect_sync(broker.url) as connected:
        connected.declare(ORDERS)
        yield connected


def orders(first: int, count: int, feed: str = "x") -> list[dict[str, Any]]:
    return [{"feed": feed, "number": each, "price": float(each % 100)} for each in range(first, first + count)]


def options(broker: OneBroker, durable: str, **more: object) -> dict[str, str]:
    told = {"broker": broker.url, "space": "orders", "durable": durable}
    return told | {name: str(value) for name, value in more.items()}


def follow(spark: Any, told: dict[str, str], folder: Path) -> Any:
    """All that is there, into a Parquet table."""
    rows = spark.readStream.format("contentcast").options(**told).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "state")).trigger(availableNow=True)
    return writer.start(str(folder / "table"))


def numbers(spark: Any, folder: Path, column: str = "number") -> list[int]:
    return sorted(row[0] for row in spark.read.parquet(str(folder / "table")).select(column).collect())


# --- the source


def test_a_stream_has_each_event_once_over_a_killed_broker_and_a_restarted_query(spark, broker, client, tmp_path) -> None:
    told = options(broker, "lake", predicate="price < 50", event="true", rowsPerBatch=300)
    client.subscribe("orders", "price < 50", durable="lake", deliver=print, acknowledge=False).leave()
    publish(client, orders(0, 1000), "lake", 500)
    ended(lambda: follow(spark, told, tmp_path))
    below = [each for each in range(1000) if each % 100 < 50]
    assert numbers(spark, tmp_path) == below
    assert numbers(spark, tmp_path, "event") == list(range(1, 501))
    assert client.place("lake").acknowledged >= 300, "at least all micro-batches before the last are acknowledged"

    publish(client, orders(1000, 200), "lake", 600)
    broker.kill_and_start()
    ended(lambda: follow(spark, told, tmp_path))
    assert (tmp_path / "state" / "offsets" / "2").read_text().endswith('{"number": 600}'), "the third micro-batch, of one life"
    assert numbers(spark, tmp_path) == [each for each in range(1200) if each % 100 < 50]
    assert client.place("lake").acknowledged >= 500


def test_a_broker_that_is_killed_while_a_stream_reads(spark, broker, client, tmp_path) -> None:
    """The stream runs all the time; the publisher's client and both of the stream's wait until the broker is back."""
    told = options(broker, "busy", rowsPerBatch=200)
    rows = spark.readStream.format("contentcast").options(**told).load()
    query = (
        rows.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "state"))
        .trigger(processingTime="0 seconds")
        .start(str(tmp_path / "table"))
    )
    try:
        waited(query, lambda: durable(client, "busy") is not None)
        client.publish("orders", orders(0, 500))
        waited(query, lambda: client.place("busy").acknowledged > 0)
        client.publish("orders", orders(500, 500))
        broker.kill_and_start()
        client.publish("orders", orders(1000, 500))
        waited(query, lambda: client.place("busy").numbered == 1500)
        query.processAllAvailable()
    finally:
        query.stop()
    assert numbers(spark, tmp_path) == list(range(1500))


DRIVER = """
import sys
from contentcast.spark import session
url, folder = sys.argv[1:]
spark = session("killed", master="local[1]")
rows = spark.readStream.format("contentcast").option("broker", url).option("space", "orders").option("durable", "driver")
rows = rows.option("rowsPerBatch", 100).load()
def each(batch, number):
    batch.write.mode("overwrite").parquet(f"{folder}/table/batch={number}")
    if number == 1:
        print("written", flush=True)
        sys.stdin.read()
rows.writeStream.foreachBatch(each).option("checkpointLocation", f"{folder}/state").start().awaitTermination()
"""


def test_a_driver_that_is_killed_between_writing_and_noting_it(spark, broker, client, tmp_path) -> None:
    """The second micro-batch is in the table and not in the checkpoint: the next driver reads the very same numbers again."""
    client.subscribe("orders", durable="driver", deliver=print, acknowledge=False).leave()
    publish(client, orders(0, 250), "driver", 250)
    words = [sys.executable, "-c", textwrap.dedent(DRIVER), broker.url, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "written\n"
        driver.send_signal(signal.SIGKILL)
    publish(client, orders(250, 50), "driver", 300)
    rows = spark.readStream.format("contentcast").options(**options(broker, "driver", rowsPerBatch=100)).load()
    ran: list[int] = []

    def each(batch: Any, number: int) -> None:
        ran.append(number)
        batch.write.mode("overwrite").parquet(f"{tmp_path}/table/batch={number}")

    writer = rows.writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path / "state"))
    ended(writer.trigger(availableNow=True).start)
    assert ran[0] == 1, "the micro-batch that was not noted is run again"
    assert numbers(spark, tmp_path) == list(range(300))


def test_a_batch_is_a_look_at_what_waits(spark, broker, client) -> None:
    client.subscribe("orders", "price < 10", durable="look", deliver=print, acknowledge=False).leave()
    publish(client, orders(0, 200), "look", 20)
    reading = spark.read.format("contentcast")
    for _ in range(2):
        rows = reading.options(**options(broker, "look", event="at")).load().orderBy("at").collect()
        assert [(row.at, row.number) for row in rows] == list(enumerate([*range(10), *range(100, 110)], 1))
    assert client.place("look").acknowledged == 0
    assert client.place("look").predicate == "price < 10.0", "who asks for nothing else leaves the predicate as it is"
    later = reading.options(**options(broker, "look", after=15)).schema("price double").load()
    assert sorted(row.price for row in later.collect()) == [5.0, 6.0, 7.0, 8.0, 9.0]


def test_mistakes_are_told_before_anything_runs(broker, client, tmp_path) -> None:
    with pytest.raises(BrokerOptionError, match=r"no option 'durabel'; did you mean 'durable'\?"):
        read_options({"broker": broker.url, "space": "orders", "durabel": "x"})
    with pytest.raises(BrokerOptionError, match=r"add option\('durable', NAME\)"):
        read_options({"broker": broker.url, "space": "orders"})
    with pytest.raises(BrokerOptionError, match="names one broker"):
        read_options({"broker": "contentcast://a,contentcast://b", "space": "orders", "durable": "x"})
    with pytest.raises(BrokerOptionError, match="rowsPerBatch is a whole number from 1 on"):
        read_options(options(broker, "x", rowsPerBatch=0))
    with pytest.raises(cc.ContentcastError, match="prise"):
        Reader(read_options(options(broker, "x", predicate="prise < 3")), ORDERS.arrow_schema).partitions()
    with pytest.raises(cc.ContentcastError, match="orderz"):
        schema_of(read_options(options(broker, "x") | {"space": "orderz"}))
    with pytest.raises(LiveError, match="keeps no durable subscription 'nobody'"):
        client.place("nobody")


def test_a_checkpoint_of_another_subscription_and_lost_events_stop_the_stream(broker, client) -> None:
    client.subscribe("orders", durable="short", deliver=print, acknowledge=False).leave()
    publish(client, orders(0, 10), "short", 10)
    reader = StreamReader(read_options(options(broker, "short")), ORDERS.arrow_schema)
    limit = reader.getDefaultReadLimit()
    try:
        assert reader.initialOffset() == {"number": 0}
        assert reader.latestOffset({"number": 0}, limit) == {"number": 10}
        with pytest.raises(EventsLost, match=r"read up to number 11 .* the broker has given 10"):
            reader.latestOffset({"number": 11}, limit)
        (span,) = reader.partitions({"number": 2}, {"number": 7})
        assert [row["number"] for batch in reader.read(span) for row in batch.to_pylist()] == [2, 3, 4, 5, 6]
        client.acknowledge("short", 5)
        with pytest.raises(EventsLost, match=r"numbers 3 to 5 .* acknowledged by another program"):
            list(reader.read(span))
    finally:
        reader.stop()


def test_what_a_limit_has_dropped_stops_the_stream_unless_it_is_told_to_go_on(tmp_path) -> None:
    def use(url: str) -> None:
        told = {"broker": url, "space": "orders", "durable": "full"}
        with cc.connect_sync(url) as client:
            client.declare(ORDERS)
            client.subscribe("orders", durable="full", deliver=print, acknowledge=False).leave()
            publish(client, orders(0, 20), "full", 20)
            for first in range(20, 2000, 20):
                client.publish("orders", orders(first, 20))
            arrived(client, "full", 2000)
            place = client.place("full")
        assert place.first > 1000
        strict, lenient = (
            StreamReader(read_options(told | {"failOnDataLoss": each}), ORDERS.arrow_schema) for each in ("true", "false")
        )
        with pytest.raises(EventsLost, match=rf"numbers 1 to {place.first - 1} .* dropped by a limit of the broker"):
            list(strict.read(Span(0, 2000, "TRUE")))
        rows = [row["number"] for batch in lenient.read(Span(0, 2000, "TRUE")) for row in batch.to_pylist()]
        assert rows == list(range(place.first - 1, 2000))
        assert list(lenient.read(Span(0, 20, "TRUE"))) == [], "all of it was dropped after it had become an offset"

    @story
    async def told() -> None:
        async with Net() as net:
            a = await net.broker("a", data=tmp_path / "a", limits=Limits(durable_bytes=20_000))
            await asyncio.to_thread(use, str(a.addresses[0]))

    told()


# --- the sink


def test_a_stream_published_twice_is_there_once(spark, broker, client, tmp_path) -> None:
    """The checkpoint forgets that its epochs were done, as if the driver had been killed before it noted them."""
    client.subscribe("orders", "feed = 'sink'", durable="ledger", deliver=print, acknowledge=False).leave()
    source = {"scenario": "market", "seed": "7", "events": "900", "event": "number", "rowsPerBatch": "500", "partitions": "2"}

    def run() -> Any:
        rows = spark.readStream.format("contentcast").options(**source).load()
        rows = rows.selectExpr("'sink' AS feed", "number", "price")
        writer = rows.writeStream.format("contentcast").option("broker", broker.url).option("space", "orders")
        writer = writer.option("rowsPerMessage", 100).option("checkpointLocation", str(tmp_path / "state"))
        return ended(writer.trigger(availableNow=True).start)

    run()
    arrived(client, "ledger", 900)
    for each in (tmp_path / "state" / "commits").iterdir():
        each.unlink()
    again = run()
    assert sum(each["numInputRows"] for each in again.recentProgress) >= 400, "an epoch was repeated"
    last = client.publish("orders", orders(900, 1, feed="sink"))
    assert not last.duplicate
    arrived(client, "ledger", 901)
    rows = spark.read.format("contentcast").options(**options(broker, "ledger")).load()
    assert sorted(row.number for row in rows.collect()) == list(range(901))


def test_a_batch_is_published_and_a_space_is_declared_from_its_columns(spark, broker, client) -> None:
    frame = spark.createDataFrame([(each, f"n{each}") for each in range(50)], "id long, name string")
    frame.write.format("contentcast").option("broker", broker.url).option("space", "fresh").mode("append").save()
    assert client.space("fresh") == cc.Space("fresh", id="int", name="string")
    with pytest.raises(BrokerOptionError, match="stays published"):
        Target({"broker": broker.url, "space": "fresh"}, frame.schema, True)
    with pytest.raises(BrokerOptionError, match="the space orders has no attribute 'id'"):
        Target({"broker": broker.url, "space": "orders"}, frame.schema, False)


def test_a_task_that_dies_between_two_messages_is_repeated_whole(broker, client) -> None:
    """Messages hold the same rows however Spark cuts them, so those that were there are recognized."""
    parts = [cc.EventBatch.from_dicts(ORDERS, orders(first, count)).records for first, count in ((0, 3), (3, 9), (12, 1))]
    found = [each["number"].to_pylist() for each in _messages(iter(parts), 5)]
    assert found == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11, 12]]
    columns = StructType().add("feed", StringType()).add("number", LongType()).add("price", DoubleType())
    target = Target({"broker": broker.url, "space": "orders", "rowsPerMessage": "5"}, columns, False)
    client.subscribe("orders", durable="halves", deliver=print, acknowledge=False).leave()

    def dying() -> Iterator[pa.RecordBatch]:
        yield from parts[:2]
        raise OSError("the worker is gone")

    epoch = 4 * MESSAGES + 1
    with pytest.raises(OSError, match="gone"):
        target.publish(dying(), "spark test 0", epoch)
    arrived(client, "halves", 10)
    published = target.publish(iter(parts), "spark test 0", epoch)
    assert (published.rows, published.repeated) == (13, 2)
    arrived(client, "halves", 13)


# --- the pipeline


def test_the_pipeline_is_fed_by_a_broker_and_delivers_to_it(spark, broker, client, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    ORDERS.save(Path("space.json"))
    Path("desks.csv").write_text(
        "subscription,predicate,subscriber\n1,price < 5,desk-1\n2,number >= 195,desk-2\n3,prise < 5,desk-3\n"
    )
    Path("job.toml").write_text('space = "space.json"\nsubscriptions = "desks.csv"\nout = "followed"\n')

    def run() -> dict[str, Any]:
        words = ["run", "--stream", "--once", "--broker", broker.url, "--config", "job.toml", "--json"]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        told: dict[str, Any] = json.loads(result.stdout)
        return told

    first = run()
    assert (first["events"], first["pairs"], first["subscriptions"], first["bad predicates"]) == (0, 0, 2, 1)
    client.subscribe("deliveries", durable="all deliveries", deliver=print, acknowledge=False).leave()
    publish(client, orders(0, 200), "contentcast run", 200)
    told = run()
    assert (told["events"], told["pairs"], told["deliveries"]) == (200, 15, "deliveries")
    arrived(client, "all deliveries", 15)
    waiting = spark.read.format("contentcast").options(**options(broker, "all deliveries", space="deliveries")).load()
    wanted = [(1, "desk-1", each) for each in range(200) if each % 100 < 5] + [(2, "desk-2", each) for each in range(195, 200)]
    assert sorted((row.subscription, row.subscriber, row.number) for row in waiting.collect()) == wanted
    assert sorted(row.event - row.number for row in waiting.collect())[0] == 1, "the event's number comes along"


# --- waiting for facts


def durable(client: Any, name: str) -> Any:
    try:
        return client.place(name)
    except LiveError:
        return None


def publish(client: Any, events: list[dict[str, Any]], name: str, last: int) -> None:
    """Accepted, and numbered for the durable subscription of this name, up to `last`."""
    client.publish("orders", events)
    arrived(client, name, last)


def arrived(client: Any, name: str, last: int) -> None:
    wait_for(lambda: client.place(name).last >= last)
    assert client.place(name).last == last


def waited(query: Any, fact: Callable[[], bool]) -> None:
    def holds() -> bool:
        assert query.exception() is None, query.exception()
        return fact()

    wait_for(holds)


def wait_for(fact: Callable[[], bool]) -> None:
    asyncio.run(until(fact, LIMIT_S))
