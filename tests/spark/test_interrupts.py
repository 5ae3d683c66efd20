"""What reaches the terminal when Spark is interrupted or fails: nothing of it, or one line, unless nobody knows the cause."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contentcast.model import Space
from tests.progress import without_progress

TRADES = Space("trades", issue="string", price="float")
FILES, EVENTS_A_FILE = 6, 200
LONGEST_S = 600
"""Only so that it ends: on a machine with much other work, Spark takes minutes to start."""
TO_WRITE_MB = 1
"""More than the pipe to Java and all buffers hold: a worker that has written it is kept waiting by Java."""

JOB = (
    f"TO_WRITE = {TO_WRITE_MB}"
    + """
import time
from pathlib import Path
from contentcast.commands.shared.failures import told_in_one_line
from contentcast.commands.shared.interrupts import interruptible
from contentcast.commands.shared.overheard import overhearing
from contentcast.model import ContentcastError
from contentcast.spark.session import command_session

def endless(batches):
    for batch in batches:
        for number in range(10**9):
            if number * batch.nbytes > TO_WRITE << 20:
                Path("written").touch()
            yield batch

def broken(batches):
    raise RuntimeError("a mistake of our own")
    yield from batches
"""
)
INTERRUPTED = (
    JOB
    + """
with told_in_one_line(), overhearing(command_session("test", "local[2]")) as spark:
    rows = spark.range(0, 20_000, 1, 2).mapInArrow(endless, "id long")
    try:
        interruptible(spark, lambda stopped: rows.write.format("noop").mode("overwrite").save())
    finally:
        time.sleep(2)  # Java lives on, and so do the workers, which find their pipes closed
"""
)
FAILED = (
    JOB
    + """
try:
    with told_in_one_line(), overhearing(command_session("test", "local[2]")) as spark:
        rows = spark.range(0, 10, 1, 2).mapInArrow(broken, "id long")
        rows.write.format("noop").mode("overwrite").save()
except ContentcastError as error:
    print(error)
"""
)
SUCCEEDED = """
from contentcast.commands.shared.failures import told_in_one_line
from contentcast.commands.shared.overheard import overhearing
from contentcast.spark.session import command_session

with told_in_one_line(), overhearing(command_session("test", "local[1]")) as spark:
    spark._jvm.java.lang.System.err.println("a disk is nearly full")
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def interrupted(command: list[str], when: str) -> tuple[int, str, str]:
    """Ctrl-C as a terminal does it, to all processes, as soon as such a file is there."""
    running = subprocess.Popen(command, stdout=-1, stderr=-1, text=True, start_new_session=True)
    try:
        while running.poll() is None and not list(Path().glob(when)):
            time.sleep(0.02)
        os.killpg(running.pid, signal.SIGINT)
        said, complained = running.communicate(timeout=LONGEST_S)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    return running.returncode, said, without_progress(complained)


def ended(*words: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=LONGEST_S)
    return done.returncode, done.stdout, without_progress(done.stderr)


# --- Ctrl-C


def test_workers_whose_pipes_are_closed_by_ctrl_c_say_nothing() -> None:
    """Java stays up after the job, so that what the workers write has the time to arrive."""
    _, _, complained = interrupted([sys.executable, "-c", INTERRUPTED], "written")
    assert Path("written").exists()
    assert "BrokenPipe" not in complained
    # Python's own about the KeyboardInterrupt that ends this program; a command catches it.
    assert complained.count("Traceback") == 1
    assert complained.rstrip().endswith("KeyboardInterrupt")


def test_ctrl_c_ends_the_main_job_without_a_word() -> None:
    """While workers match and write; of `match` the same is told beside its other tests."""
    words = a_job("run", subscriptions=300, events=20_000)
    before = sorted(each.name for each in Path().iterdir())
    command = [sys.executable, "-m", "contentcast.cli", *words]
    assert interrupted(command, ".out.unfinished-*/deliveries") == (130, "", "")
    assert sorted(each.name for each in Path().iterdir()) == before


# --- failures


def test_a_cause_that_nobody_knows_is_told_with_all_that_spark_says() -> None:
    code, said, complained = ended("-c", FAILED)
    assert (code, said.startswith("Spark failed: ")) == (0, True)
    assert "RuntimeError: a mistake of our own" in complained


def test_what_java_says_while_all_goes_well_is_shown() -> None:
    assert ended("-c", SUCCEEDED) == (0, "", "a disk is nearly full\n")


@pytest.mark.parametrize("command", ["match", "run"])
def test_a_damaged_file_among_many_is_named_and_nothing_is_written(command: str) -> None:
    words = a_job(command, subscriptions=3, events=EVENTS_A_FILE)
    damaged = Path("all events/3.parquet")
    damaged.write_bytes(damaged.read_bytes()[:-100])
    before = sorted(each.name for each in Path().iterdir())
    line = f"contentcast: {damaged.absolute()} cannot be read: it is damaged, or not what its ending says\n"
    assert ended("-m", "contentcast.cli", *words) == (2, "", line)
    assert sorted(each.name for each in Path().iterdir()) == before


def a_job(command: str, subscriptions: int, events: int) -> list[str]:
    """Files of events in a folder, each of which everybody wants, and the words that match or run them."""
    TRADES.save("space.json")
    Path("all events").mkdir()
    table = pa.table({"issue": ["IBM"] * events, "price": [float(number) for number in range(events)]})
    for number in range(FILES):
        pq.write_table(table, f"all events/{number}.parquet")
    wanted = "".join(f"{number},price >= 0\n" for number in range(subscriptions))
    Path("wanted.csv").write_text(f"subscription,predicate\n{wanted}")
    if command == "match":
        files = ["--events", "all events", "--subscriptions", "wanted.csv", "--space", "space.json"]
        return ["match", *files, "--out", "out", "--master", "local[2]"]
    told = {"space": "space.json", "subscriptions": "wanted.csv", "out": "out"}
    Path("job.toml").write_text('events = ["all events"]\n' + "".join(f'{key} = "{value}"\n' for key, value in told.items()))
    return ["run", "--config", "job.toml", "--master", "local[2]"]
