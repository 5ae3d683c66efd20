"""A real broker: events from a topic, subscriptions from a compacted one, matches into a table and into a topic, once each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import contentcast as cc
from contentcast.cli import app
from contentcast.spark import Topic, TopicTable, deliver_to_topic, ingest, match, prepare, read_topic
from contentcast.spark.outside.kafka import read_messages, write_messages
from requirements import jars
from tests.cluster.common import until
from tests.downloads.servers import KafkaBroker

ROOT = Path(__file__).parents[2]
TRADES = cc.Space("trades", issue="string", price="float")
RULES = {"7": '{"subscription": 7, "predicate": "price < 120"}', "8": '{"subscription": 8, "predicate": "issue = \'SAP\'"}'}


def topic(broker: KafkaBroker, name: str) -> Topic:
    return Topic(broker.servers, f"{name}-{uuid4().hex[:8]}")


def send(spark: SparkSession, to: Topic, *messages: tuple[str | None, str | bytes | None]) -> None:
    rows = [(key, value.encode() if isinstance(value, str) else value) for key, value in messages]
    write_messages(spark.createDataFrame(rows, "key string, value binary").coalesce(1), to)


def trade(issue: str, price: float) -> tuple[None, str]:
    return None, json.dumps({"issue": issue, "price": price})


def found(spark: SparkSession, to: Topic) -> Counter[tuple[str, int]]:
    rows = read_topic(spark, to, spark.createDataFrame([], "issue string, subscription long").schema).collect()
    return Counter((row.issue, row.subscription) for row in rows)


def test_the_file_of_the_guide_from_topic_to_table(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    events, rules = topic(broker, "trades"), topic(broker, "rules")
    send(spark, rules, *RULES.items(), ("8", None))
    send(
        spark,
        events,
        trade("IBM", 119.5),
        trade("SAP", 130.0),
        (None, '{"issue": "IBM", "price"'),
        ("o-1", None),
        (None, b"\xff"),
    )
    TRADES.save(tmp_path / "trades.json")
    (tmp_path / "kafka.toml").write_text(
        f'space = "trades.json"\nevents = "{events}"\nsubscriptions = "{rules}"\nout = "live"\nmaster = "local[2]"\n'
        f'jars = ["{jars.folder_of("kafka")}"]\n'
    )
    words = ["run", "--config", str(tmp_path / "kafka.toml"), "--stream", "--once", "--json"]
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 0, ended.output
    matched = pq.read_table(tmp_path / "live" / "matches").to_pylist()
    assert [(row["issue"], row["subscription"], row["topic"]) for row in matched] == [("IBM", 7, events.name)]
    bad = pq.read_table(tmp_path / "live" / "quarantine").to_pylist()
    offsets = {row["file"].rpartition("@")[0] for row in bad}
    assert len(bad) == 3
    assert offsets <= {f"{events.name}-0", f"{events.name}-1"}
    assert sum(row["reason"] == "no JSON: the message is empty" for row in bad) == 1
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 0, again.output
    assert pq.read_table(tmp_path / "live" / "matches").num_rows == 1, "what was taken is not taken again"

    to = topic(broker, "matches")
    config = (tmp_path / "kafka.toml").read_text().replace('out = "live"', 'out = "to-topic"')
    (tmp_path / "kafka.toml").write_text(config + f'to = "{to}"\n')
    into_topic = CliRunner().invoke(app, words)
    assert into_topic.exit_code == 0, into_topic.output
    assert found(spark, to) == Counter({("IBM", 7): 1})
    assert pq.read_table(tmp_path / "to-topic" / "quarantine").num_rows == 3


def test_rules_change_and_the_broker_dies_while_a_stream_runs(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    events, rules, out = topic(broker, "trades"), topic(broker, "rules"), topic(broker, "matches")
    send(spark, rules, *RULES.items())
    send(spark, events, trade("IBM", 119.5), trade("SAP", 130.0))
    arriving = ingest(read_messages(spark, events, stream=True).select("value", "partition", "offset"), TRADES, json="value")
    matches = match(arriving, TopicTable(rules), TRADES, columns=["issue", "subscription"])
    query = deliver_to_topic(matches, out, str(tmp_path / "checkpoint"))
    assert query is not None
    try:
        first = Counter({("IBM", 7): 1, ("SAP", 8): 1})
        until(lambda: found(spark, out) == first or not query.isActive, "the first matches")
        send(
            spark,
            rules,
            ("7", '{"subscription": 7, "predicate": "price > 1000"}'),
            ("8", None),
            ("9", RULES["7"].replace("7", "9")),
        )
        send(spark, events, trade("ABC", 1.0), trade("SAP", 2000.0))
        second = first + Counter({("ABC", 9): 1, ("SAP", 7): 1})
        until(lambda: found(spark, out) == second or not query.isActive, "matches with the rules of now")
        broker.kill()
        broker.start()
        send(spark, events, trade("XYZ", 5.0))
        until(
            lambda: found(spark, out) == second + Counter({("XYZ", 9): 1}) or not query.isActive,
            "matches after the broker died",
        )
        assert query.isActive, query.exception()
    finally:
        query.stop()
    assert found(spark, out) == second + Counter({("XYZ", 9): 1})


DRIVER = """
import os, signal, sys, threading, time
from pathlib import Path
import contentcast as cc
from contentcast.spark import Topic, deliver_to_topic, ingest, match, session
from contentcast.spark.outside import kafka
from tests.cluster.common import executors_of

servers, events, out, folder, packages, data, wanted, dies = sys.argv[1:]
spark = session(master="local-cluster[1,1,1024]" if dies == "executor" else "local[1]", **{
    "spark.jars": packages, "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": 1,
})
messages = kafka.write_messages
def fatal(rows, topic):
    named = topic.name.endswith(kafka.COMMITS)
    if dies == "unnamed" and named:
        os.kill(os.getpid(), signal.SIGKILL)   # all rows are there, and nobody says that they count
    messages(rows, topic)
    if dies == "named" and named:
        os.kill(os.getpid(), signal.SIGKILL)   # they count, and Spark does not know it

def written():
    return sum(each.stat().st_size for each in Path(data).glob(f"{out}-[0-9]*/*.log"))

def kill_when_it_writes(executor, before):
    while written() == before:
        time.sleep(0.001)
    os.kill(executor, signal.SIGKILL)

if dies == "executor":
    [executor] = executors_of(spark.sparkContext._gateway.proc.pid)
    threading.Thread(target=kill_when_it_writes, args=[executor, written()], daemon=True).start()
else:
    kafka.write_messages = fatal
trades = cc.Space("trades", issue="string", price="float")
stream = kafka.read_messages(spark, Topic(servers, events), stream=True, maxOffsetsPerTrigger=4).select("value")
wanted = spark.range(int(wanted)).selectExpr("id AS subscription", "'price < 120' AS predicate")
matches = match(ingest(stream, trades, json="value"), wanted, trades, columns=["issue", "subscription"])
query = deliver_to_topic(matches, Topic(servers, out), f"{folder}/checkpoint", trigger={"availableNow": True})
query.awaitTermination()
spark.stop()
"""
WANTED = 10_000
"""Matches of an event: a micro-batch is written long enough that an executor dies in the middle of it."""


def test_topic_to_topic_once_though_driver_and_executor_die(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    """The driver dies with a micro-batch that is written and not named, then with one that is named; then an executor dies
    while it writes, and Spark gives its task to another: the same attempt, of which a part is there already.
    """
    import pyspark

    home = tmp_path / "spark"  # executors work below it
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    events, out = topic(broker, "trades"), topic(broker, "matches")
    issues = [f"i{number}" for number in range(12)]
    send(spark, events, *(trade(each, 100.0) for each in issues))
    packages = ",".join(str(each) for each in sorted(jars.folder_of("kafka").glob("*.jar")))
    written = []
    for dies in ("unnamed", "named", "executor"):
        told = [broker.servers, events.name, out.name, str(tmp_path), packages, str(broker.data), str(WANTED), dies]
        environment = os.environ | {"SPARK_HOME": str(home), "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))}
        words = [sys.executable, "-c", DRIVER, *told]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=400, env=environment)
        assert ended.returncode == (0 if dies == "executor" else -signal.SIGKILL), ended.stderr[-3000:]
        written.append(read_messages(spark, out).count())
    batch = 4 * WANTED
    assert written[:2] == [batch, 2 * batch], "the first micro-batch, twice"
    assert written[2] > 4 * batch, "what the executor wrote before it died is in the topic"
    rows = read_topic(spark, out, spark.createDataFrame([], "issue string, subscription long").schema)
    assert (rows.count(), rows.distinct().count()) == (3 * batch, 3 * batch)


def test_a_topic_without_rules_is_an_empty_table(spark: SparkSession, broker: KafkaBroker) -> None:
    rules = topic(broker, "rules")
    send(spark, rules, ("7", RULES["7"]), ("7", None))
    assert prepare(TopicTable(rules), TRADES).count == 0
