"""A master and two workers as processes of their own; the package comes by an archive, the index as files of the job.

The workers' Python has no contentcast, and in the place of the driver's temporary folder they find an empty one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

import contentcast as cc
from contentcast.cli import app
from contentcast.spark.cluster import standalone
from contentcast.spark.cluster.standalone import Cluster
from contentcast.spark.java import find_java, shim
from tests.cluster.common import LIMIT_S, bare_python, can_hide, drive, executors_of, java_that_does_not_see, until
from tests.spark.test_workers import EVENTS, MARKET, SUBSCRIPTIONS, expected, rows_of

pytestmark = pytest.mark.skipif(
    not can_hide() and os.environ.get("CONTENTCAST_NAMESPACES") != "required", reason="unshare --mount needs root"
)
PARTS = 4
DRIVERS_OWN = "drivers-own"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / DRIVERS_OWN).mkdir()
    MARKET.space.save(folder / "space.json")
    events = pa.Table.from_batches([MARKET.events(EVENTS)])
    (folder / "events").mkdir()
    for part in range(PARTS):
        pq.write_table(events.slice(part * EVENTS // PARTS, EVENTS // PARTS), folder / "events" / f"{part}.parquet")
    pq.write_table(pa.Table.from_batches([MARKET.subscriptions(SUBSCRIPTIONS)]), folder / "subscriptions.parquet")
    return folder


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Cluster]:
    home = shim(find_java())
    elsewhere = java_that_does_not_see(folder / DRIVERS_OWN, folder / "java", home)
    started = standalone.start(folder / "spark", 2, java_homes={1: elsewhere, 2: elsewhere})
    yield started
    standalone.stop(standalone.read(folder / "spark") or started)
    assert not any(each.runs for each in started.processes)


# --- the command


def test_a_cluster_is_started_and_stopped_by_one_command(tmp_path: Path) -> None:
    where = ["--folder", str(tmp_path / "mine")]

    def told(*words: str) -> Result:
        return CliRunner().invoke(app, ["cluster", *words, *where])

    assert told("status").exit_code == 2
    up = told("up", "--workers", "1", "--memory", "512m")
    try:
        assert up.exit_code == 0, up.output
        assert told("status").stdout == up.stdout
        started = standalone.read(tmp_path / "mine")
        assert started is not None
        assert up.stdout == f"{started.url}\n"
        assert [(each["cores"], each["memory"]) for each in started.alive()] == [(1, 512)]
        second = told("up")
        assert (second.exit_code, "is up at" in second.stderr) == (2, True)
    finally:
        down = told("down")
    assert down.exit_code == 0, down.output
    assert not any(each.runs for each in started.processes)
    assert not (tmp_path / "mine" / "worker-1" / "work").exists()


def test_the_archive_for_spark_submit_holds_contentcast(tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["cluster", "package", "--out", str(tmp_path / "contentcast.tar.gz")])
    assert ended.exit_code == 0, ended.output
    assert "--archives" in ended.stdout
    assert "--conf spark.files.useFetchCache=false" in ended.stdout
    with tarfile.open(tmp_path / "contentcast.tar.gz") as archive:
        assert {"contentcast/__init__.py", "contentcast/spark/match.py"} <= set(archive.getnames())


@pytest.fixture(scope="module")
def environment(folder: Path) -> dict[str, str]:
    return {"PYSPARK_PYTHON": str(bare_python(folder / "python")), "TMPDIR": str(folder / DRIVERS_OWN)}


def delivered(matches: Path) -> Counter[str]:
    table = pq.read_table(matches, partitioning="hive")
    table = table.drop_columns(["batch"]) if "batch" in table.column_names else table
    at = table.column_names.index("broker")
    return rows_of(table.set_column(at, "broker", table["broker"].cast(pa.string())))


# --- all commands, from one driver


@pytest.fixture(scope="module")
def told(folder: Path, cluster: Cluster, environment: dict[str, str]) -> dict[str, dict[str, Any]]:
    (folder / "run.toml").write_text(
        'space = "space.json"\nevents = "events"\nsubscriptions = "subscriptions.parquet"\nout = "run"\n'
        f'master = "{cluster.url}"\ntopology = "star:{brokers()}"\nentry = "b1"\nprotocols = ["link-matching"]\n'
    )
    data = ["--events", "events", "--subscriptions", "subscriptions.parquet", "--space", "space.json", "--master", cluster.url]
    experiment = ["experiment", "link-matching/chart2", "--quick", "--seeds", "1"]
    without = f"""
from contentcast.spark import session
session(master={cluster.url!r}, **{{"spark.executorEnv.PYTHONPATH": ""}})
"""
    commands: dict[str, dict[str, Any]] = {
        "match": {"words": ["match", *data, "--out", "matched", "--json"]},
        "stream": {"words": ["match", *data, "--out", "streamed", "--stream", "--once", "--json"]},
        "hidden": {"words": ["match", *data, "--out", f"{DRIVERS_OWN}/out"]},
        "run": {"words": ["run", "--config", "run.toml", "--json"]},
        "experiment": {"words": [*experiment, "--out", "on-cluster", "--master", cluster.url]},
        "without": {"code": without},
        "other": {"code": without, "environment": {"PYSPARK_PYTHON": str(bare_python(folder / "old", "0.0.1"))}},
    }
    answers = drive(folder, list(commands.values()), **environment)
    return dict(zip(commands, answers, strict=True))


def brokers() -> int:
    return len(set(MARKET.subscriptions(SUBSCRIPTIONS)["broker"].to_pylist()))


def test_match_gives_the_same_table_as_one_process(folder: Path, told: dict[str, Any]) -> None:
    assert told["match"]["code"] == 0, told["match"]["err"]
    assert delivered(folder / "matched" / "matches") == expected()
    assert json.loads(told["match"]["out"])["events"] == EVENTS


def test_a_stream_gives_the_same_table(folder: Path, told: dict[str, Any]) -> None:
    assert told["stream"]["code"] == 0, told["stream"]["err"]
    assert delivered(folder / "streamed" / "matches") == expected()


def test_the_main_job_delivers_and_routes_the_same(folder: Path, told: dict[str, Any]) -> None:
    assert told["run"]["code"] == 0, told["run"]["err"]
    pairs = pq.read_table(folder / "run" / "deliveries", partitioning="hive")
    assert Counter(pairs["subscription"].to_pylist()) == wanted_subscriptions()
    routed = pq.read_table(folder / "run" / "routes" / "protocols.parquet").to_pylist()
    assert [(each["protocol"], each["deliveries"]) for each in routed] == [("link-matching", pairs.num_rows)]


def wanted_subscriptions() -> Counter[int]:
    events, subscriptions = MARKET.events(EVENTS), MARKET.subscriptions(SUBSCRIPTIONS)
    index = cc.MatchIndex(MARKET.space)
    index.add_many(subscriptions["subscription"], subscriptions["predicate"])
    return Counter(index.match_batch(events)["subscription"].to_pylist())


def test_an_experiment_measures_the_same_rows(folder: Path, told: dict[str, Any]) -> None:
    assert told["experiment"]["code"] == 0, told["experiment"]["err"]
    [found] = folder.glob("on-cluster/**/results.parquet")
    assert pq.read_table(found).num_rows > 0


def test_a_folder_that_workers_do_not_see_is_named_before_anything_starts(folder: Path, told: dict[str, Any]) -> None:
    assert told["hidden"]["code"] == 2
    [line] = [each for each in told["hidden"]["err"].splitlines() if not each.startswith("contentcast: start Spark (")]
    assert "does not see" in line
    assert str(folder / DRIVERS_OWN) in line
    assert not list((folder / DRIVERS_OWN).glob("*out*"))


def test_a_worker_without_the_package_is_told_in_one_line(told: dict[str, Any]) -> None:
    assert "cannot import contentcast: ModuleNotFoundError: No module named 'contentcast'" in told["without"]["err"]
    assert len(told["without"]["err"].strip().splitlines()) == 1


def test_a_worker_with_another_version_is_told_in_one_line(told: dict[str, Any]) -> None:
    assert f"has contentcast 0.0.1 and this is {cc.__version__}" in told["other"]["err"]
    assert len(told["other"]["err"].strip().splitlines()) == 1


# --- who is killed

KILLED = """
import os, sys, time
from pathlib import Path
from contentcast.model import Space
from contentcast.spark import deliver, match, read_events, session

folder, master, what = sys.argv[1:]
os.chdir(folder)
spark = session(master=master)
space = Space.load("space.json")

if what == "stream":
    events = read_events(spark, "events", space, stream=True, maxFilesPerTrigger=1)
    query = deliver(match(events, "subscriptions.parquet", space), "killed-stream", trigger={"availableNow": True})
    query.awaitTermination()
else:
    join = sys.modules["contentcast.spark.match"]._pairs

    def waiting(mine, theirs):
        pairs = join(mine, theirs)
        def each(events, mapped, shard):
            for piece in pairs(events, mapped, shard):
                yield piece
                Path(folder, "reached").touch()
                while not Path(folder, "go on").exists():
                    time.sleep(0.05)
        return each

    sys.modules["contentcast.spark.match"]._pairs = waiting
    deliver(match(read_events(spark, "events", space), "subscriptions.parquet", space), "killed-batch")
spark.stop()
"""


def start(folder: Path, cluster: Cluster, what: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", KILLED, str(folder), cluster.url, what]
    return subprocess.Popen(words, env=os.environ | environment, stderr=subprocess.PIPE, text=True)


def test_a_worker_and_an_executor_die_in_the_middle_of_their_rows(
    folder: Path, cluster: Cluster, environment: dict[str, str]
) -> None:
    driver = start(folder, cluster, "batch", environment)
    try:
        until(lambda: (folder / "reached").exists() or driver.poll() is not None, "a task in its rows")
        first, second = cluster.workers
        [executor] = executors_of(second.process)
        os.kill(first.process, signal.SIGKILL)
        os.kill(executor, signal.SIGKILL)
        (folder / "go on").touch()
        _, said = driver.communicate(timeout=LIMIT_S)
        assert driver.returncode == 0, said[-3000:]
    finally:
        driver.kill()
    assert not first.runs
    assert delivered(folder / "killed-batch") == expected()


def test_a_driver_that_is_killed_goes_on_when_it_is_started_again(
    folder: Path, cluster: Cluster, environment: dict[str, str]
) -> None:
    """It dies after the first micro-batch has its place, when others are still to come."""
    table = folder / "killed-stream"
    driver = start(folder, cluster, "stream", environment)
    try:
        until(lambda: (table / "batch=000000000000").exists() or driver.poll() is not None, "the first micro-batch")
    finally:
        driver.kill()
        driver.wait()
    assert driver.returncode == -signal.SIGKILL
    assert not (table / f"batch={PARTS - 1:012d}").exists(), "it was killed before its end"
    again = start(folder, cluster, "stream", environment)
    _, said = again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0, said[-3000:]
    assert delivered(table) == expected()
