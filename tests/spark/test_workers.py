"""Workers that die, and workers on other machines: the table is the same. Each story has a driver process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import contentcast as cc
from contentcast.workload import scenario

MARKET = scenario("market", seed=4)
EVENTS, SUBSCRIPTIONS = 400, 300

COMMON = """
import os, signal, sys
from contentcast.model import Space
from contentcast.spark import deliver, match, read_events, session
from pyspark.sql import functions as F

folder, master = sys.argv[1:]
os.chdir(folder)
spark = session(master=master, **{"spark.sql.shuffle.partitions": 2})
space = Space.load("space.json")
"""

KILLED = (
    COMMON
    + """
join = sys.modules["contentcast.spark.match"]._pairs

def once_fatal(mine, theirs):
    pairs = join(mine, theirs)
    def fatal(events, mapped, shard):
        for piece in pairs(events, mapped, shard):
            yield piece  # some rows of this task are out when its worker dies
            try:
                os.close(os.open(os.path.join(folder, "killed"), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
    return fatal

sys.modules["contentcast.spark.match"]._pairs = once_fatal
deliver(match(read_events(spark, "events.parquet", space), "subscriptions.parquet", space), "out")
spark.stop()
"""
)

ELSEWHERE = (
    COMMON
    + """
from dataclasses import replace
from contentcast.spark import prepare

prepared = prepare("subscriptions.parquet", space)
prepared.ship(spark, prepared.version)
unseen = replace(prepared, folder="/a/folder/of/another/machine")
deliver(match(read_events(spark, "events.parquet", space), unseen, space), "out")
spark.stop()
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    MARKET.space.save(tmp_path / "space.json")
    pq.write_table(pa.Table.from_batches([MARKET.events(EVENTS)]), tmp_path / "events.parquet")
    pq.write_table(pa.Table.from_batches([MARKET.subscriptions(SUBSCRIPTIONS)]), tmp_path / "subscriptions.parquet")
    return tmp_path


def run(program: str, folder: Path, master: str, **environment: str) -> None:
    words = [sys.executable, "-c", program, str(folder), master]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300, env=os.environ | environment)
    assert ended.returncode == 0, ended.stderr[-3000:]


def rows_of(table: pa.Table) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in table.to_pylist())


def expected() -> Counter[str]:
    events, subscriptions = MARKET.events(EVENTS), MARKET.subscriptions(SUBSCRIPTIONS)
    index = cc.MatchIndex(MARKET.space)
    index.add_many(subscriptions["subscription"], subscriptions["predicate"])
    pairs = index.match_batch(events)
    mine = events.take(pairs["event"])
    theirs = subscriptions.drop_columns(["predicate"]).take(pairs["subscription"])
    both = [*mine.columns, *theirs.columns]
    return rows_of(pa.Table.from_arrays(both, names=[*mine.schema.names, *theirs.schema.names]))


def delivered(folder: Path) -> Counter[str]:
    table = pq.read_table(folder / "out", partitioning="hive")
    at = table.column_names.index("broker")
    return rows_of(table.set_column(at, "broker", table["broker"].cast(pa.string())))


def test_a_worker_that_is_killed_in_the_middle_of_its_rows(folder: Path) -> None:
    run(KILLED, folder, "local[2,4]")
    assert (folder / "killed").exists(), "a worker did die"
    assert delivered(folder) == expected()
    assert len(expected()) > 50


def test_workers_that_do_not_see_the_drivers_files(folder: Path) -> None:
    """A cluster of two executors, processes with folders of their own."""
    home = folder / "spark"  # executors work below it
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    run(ELSEWHERE, folder, "local-cluster[2,1,1024]", SPARK_HOME=str(home))
    assert delivered(folder) == expected()
