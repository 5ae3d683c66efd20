"""`format("contentcast")` with a live broker: exactly once into a table and out of one, also when the broker is killed."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import contentcast as cc
from contentcast.spark.format.broker import READS, BrokerError, read_asked
from tests.live.stories import LIMIT_S, Process

ORDERS = cc.Space("orders", item="string", price="float", number="int")


class Running:
    """A broker with a data folder as a process, which can be killed and started again where it was."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[Process] = []
        self.url = ""
        self.start()

    def start(self) -> None:
        listen = self.url or "contentcast://127.0.0.1:0"
        words = ["broker", "--json", "--name", "a", "--listen", listen, "--data", str(self._folder / "a")]
        self._processes.append(Process(self._folder, *words))
        self.url = json.loads(_line(self._processes[-1]))["listen"][0]

    def kill(self) -> None:
        self._processes[-1].signal(signal.SIGKILL)
        self._processes[-1].running.wait()

    def end(self) -> None:
        for each in self._processes:
            each.end()


def _line(process: Process) -> str:
    until = time.monotonic() + LIMIT_S
    while not process.said().endswith("\n"):
        assert process.running.poll() is None, process.complained()
        assert time.monotonic() < until, "the broker did not start"
        time.sleep(0.01)
    return process.said()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path)
    yield running
    running.end()


def orders(first: int, count: int) -> list[dict[str, Any]]:
    return [{"item": "tea", "price": float(each % 10), "number": each} for each in range(first, first + count)]


def _forget_last(state: Path) -> None:
    """Spark has not noted that the last batch is done."""
    last = max(int(each.name) for each in (state / "commits").glob("[0-9]*"))
    for each in (state / "commits" / str(last), state / "commits" / f".{last}.crc"):
        each.unlink(missing_ok=True)


def test_a_durable_subscription_is_a_stream_into_a_table_exactly_once(spark: Any, broker: Running, tmp_path: Path) -> None:
    table, state = str(tmp_path / "table"), str(tmp_path / "state")

    def run() -> None:
        """Takes what is there, as a query that was stopped, or whose driver was killed, and starts again."""
        frame = (
            spark.readStream.format("contentcast")
            .option("broker", broker.url)
            .option("space", "orders")
            .option("predicate", "price < 5")
            .option("durable", "table-7")
            .option("event", "position")
            .option("rowsPerBatch", 40)
            .load()
        )
        query = frame.writeStream.format("parquet").option("checkpointLocation", state).trigger(availableNow=True).start(table)
        query.awaitTermination()

    def rows() -> list[tuple[int, int]]:
        found = spark.read.parquet(table).select("position", "number").collect()
        return sorted((row.position, row.number) for row in found)

    with cc.connect_sync(broker.url) as client:
        client.declare(ORDERS)
        run()
        client.publish("orders", orders(0, 100))
        run()
        expected = [each for each in range(100) if each % 10 < 5]
        assert rows() == list(enumerate(expected, 1))
        client.publish("orders", orders(100, 50))
        broker.kill()
        broker.start()
        run()
        # A driver that dies before Spark has noted that a batch is done reads the same numbers again.
        _forget_last(Path(state))
        run()
        client.publish("orders", orders(150, 10))
        run()
    expected = [each for each in range(160) if each % 10 < 5]
    assert rows() == list(enumerate(expected, 1))
    with cc.connect_sync(broker.url) as client:
        place = client.ask("durable", name="table-7")
        assert place["last"] == len(expected)
        assert place["acknowledged"] >= 75, "what Spark has committed is acknowledged"


def test_a_stream_publishes_each_row_once_also_if_a_batch_is_written_again(spark: Any, broker: Running, tmp_path: Path) -> None:
    rows, state = tmp_path / "rows", tmp_path / "out-state"
    schema = "item string, price double, number long"
    given = [(each["item"], each["price"], each["number"]) for each in orders(0, 40)]
    spark.createDataFrame(given, schema).coalesce(1).write.json(str(rows))

    def run() -> None:
        frame = spark.readStream.schema(schema).json(str(rows))
        writer = frame.writeStream.format("contentcast").option("broker", broker.url).option("space", "orders")
        writer.option("checkpointLocation", str(state)).trigger(availableNow=True).start().awaitTermination()

    with cc.connect_sync(broker.url) as client:
        client.declare(ORDERS)
        events = client.events("orders", durable="desk")
        run()
        _forget_last(state)
        run()
        client.publish("orders", orders(1_000, 1))
        got = [next(events)["number"] for _ in range(41)]
    assert sorted(got[:40]) == list(range(40))
    assert got[40] == 1_000, "the batch that was written again published nothing"


def test_what_is_wrong_is_said_with_what_to_do() -> None:
    with pytest.raises(BrokerError, match=r"option\('space', NAME\)"):
        read_asked({"broker": "x"}, READS)
    with pytest.raises(BrokerError, match=r"option\('durable', NAME\)"):
        read_asked({"broker": "x", "space": "orders"}, READS)
    with pytest.raises(BrokerError, match="no option 'predicat'; did you mean 'predicate'"):
        read_asked({"broker": "x", "space": "orders", "predicat": "TRUE"}, READS)
