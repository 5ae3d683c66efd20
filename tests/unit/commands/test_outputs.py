"""A command never writes over, around or inside what it reads, and a killed one leaves nothing behind for ever."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from contentcast.cli import app
from contentcast.commands.shared.outputs import check_apart
from contentcast.commands.shared.overheard import leave_out
from contentcast.files.appearing import appearing
from contentcast.model import ContentcastError, Space
from tests.progress import without_progress

RUN = """\
space = "tiny/space.json"
events = ["tiny/events.jsonl"]
subscriptions = "tiny/subscriptions.csv"
"""
PATIENCE_S = 90


@pytest.fixture(autouse=True)
def _inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny").mkdir()
    Space("trades", issue="string", price="float").save("tiny/space.json")
    Path("tiny/events.jsonl").write_text('{"issue": "IBM", "price": 1}\n')
    Path("tiny/subscriptions.csv").write_text("subscription,predicate\n1,price < 120\n")
    Path("run.toml").write_text(RUN)


def say(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words), prog_name="contentcast")
    return result.exit_code, result.stderr


def all_files() -> list[str]:
    return sorted(str(each) for each in Path().rglob("*"))


@pytest.mark.parametrize(
    ("words", "how"),
    [
        (["match", "tiny", "--out", "tiny", "--force"], "match: the output tiny holds the input tiny/events.jsonl"),
        (["match", "tiny", "--out", ".", "--force"], "match: the output . holds the input tiny/events.jsonl"),
        (["match", "tiny", "--out", "link", "--force"], "match: the output link holds the input tiny/events.jsonl"),
        (
            ["match", "tiny", "--events", "tiny", "--out", "tiny/new"],
            "match: the output tiny/new lies in the input tiny",
        ),
        (["match", "tiny", "--events", "t*y", "--out", "tiny", "--force"], "match: the output tiny is the input tiny"),
        (["run", "--config", "run.toml", "--out", "tiny", "--force"], "run: the output tiny holds the input tiny/events.jsonl"),
        (
            ["space", "tiny/space.json", "--out", "tiny/space.json", "--force"],
            "space: the output tiny/space.json is the input tiny/space.json",
        ),
        (["run", "--config", "run.toml", "--out", ".", "--force"], "run: the output . holds the input tiny/events.jsonl"),
    ],
)
def test_an_output_that_is_holds_or_lies_in_an_input_is_refused(words: list[str], how: str) -> None:
    Path("link").symlink_to("tiny")
    before = all_files()
    result = CliRunner().invoke(app, words, prog_name="contentcast")
    assert result.exit_code == 2
    assert result.stderr == f"contentcast: {how}; choose another folder with --out\n"
    assert all_files() == before


def test_an_output_beside_the_inputs_is_fine() -> None:
    check_apart(Path("tiny/out"), ["tiny/events.jsonl", Path("tiny/space.json"), "s3://bucket/tiny/out"], "match")
    with pytest.raises(ContentcastError, match="holds the input"):
        check_apart(Path("tiny"), ["tiny/*.jsonl"], "match")


@pytest.mark.parametrize("words", [["match", "tiny"], ["run", "--config", "run.toml"]])
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_what_contentcast_did_not_make_is_never_replaced(words: list[str], force: list[str]) -> None:
    Path("precious/sub").mkdir(parents=True)
    Path("precious/sub/file").touch()
    Path("precious/refused").mkdir()
    result = CliRunner().invoke(app, [*words, "--out", "precious", *force], prog_name="contentcast")
    assert result.exit_code == 2
    assert (
        result.stderr == "contentcast: precious holds sub, which contentcast did not make; choose another folder with --out\n"
    )
    assert Path("precious/sub/file").exists()


def test_what_match_made_is_replaced_with_force_until_something_else_lies_in_it() -> None:
    words = ["match", "tiny", "--out", "out"]
    assert say(*words) == (0, "")
    assert say(*words) == (2, "contentcast: out is already there; choose another folder, or replace it with --force\n")
    assert say(*words, "--force") == (0, "")
    Path("out/notes.txt").touch()
    complaint = "contentcast: out holds notes.txt, which contentcast did not make; choose another folder with --out\n"
    assert say(*words, "--force") == (2, complaint)
    Path("out/notes.txt").unlink()
    Path("file").touch()
    assert say("match", "tiny", "--out", "file") == (2, "contentcast: file is a file, not a folder\n")


def test_a_pipe_as_an_input_is_refused() -> None:
    os.mkfifo("pipe.jsonl")
    result = CliRunner().invoke(app, ["match", "tiny", "--events", "pipe.jsonl", "--out", "out"], prog_name="contentcast")
    assert result.exit_code == 2
    assert "pipe.jsonl is a pipe, not a file" in result.stderr


def test_an_empty_folder_and_a_symbolic_link_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("here").mkdir()
    Path("disk/real").mkdir(parents=True)
    Path("link").symlink_to("disk/real")
    Path("new").symlink_to("disk/new")
    for name in ("link", "link", "new"):
        with appearing(Path(name)) as folder:
            (folder / "table").touch()
    assert all_files()[:6] == ["disk", "disk/new", "disk/new/table", "disk/real", "disk/real/table", "here"]
    assert Path("link").is_symlink()
    assert Path("new").is_symlink()
    monkeypatch.chdir("here")
    before = os.stat(".").st_ino
    with appearing(Path(".")) as folder:
        (folder / "table").touch()
    assert all_files() == ["table"]
    assert os.stat("../here").st_ino == os.stat(".").st_ino == before
    assert [each.name for each in Path("..").iterdir() if each.name.startswith(".")] == []


# --- what a killed process leaves

KILLED = """
import os, signal, sys
from pathlib import Path
from contentcast.files.appearing import appearing
with appearing(Path("out")) as folder:
    (folder / "half").touch()
    print("there", flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_a_living_one_writes_is_not() -> None:
    running = [subprocess.Popen([sys.executable, "-c", KILLED], stdin=-1, stdout=-1, text=True) for _ in range(2)]
    for each in running:
        assert each.stdout is not None
        assert each.stdout.readline() == "there\n"
    living, killed = running
    killed.kill()
    killed.wait()
    assert len(list(Path().glob(".out.unfinished-*"))) == 2
    with appearing(Path("out")) as folder:
        (folder / "whole").touch()
    assert len(list(Path().glob(".out.*"))) == 1
    living.communicate("")
    assert [each.name for each in Path("out").iterdir()] == ["half"]
    assert list(Path().glob(".out.*")) == []


def test_an_output_that_was_put_aside_comes_back_if_the_new_one_never_came() -> None:
    Path(".out.replaced-x/out").mkdir(parents=True)
    Path(".out.replaced-x/out/old").touch()
    Path(".out.replaced-x/.owner").touch()
    with pytest.raises(RuntimeError), appearing(Path("out")):
        raise RuntimeError
    assert [each.name for each in Path("out").iterdir()] == ["old"]
    assert list(Path().glob(".out.*")) == []


# --- Java


def processes(session: int) -> dict[int, str]:
    """All that were started by the command, whatever became of their parents; without those that have ended."""
    found = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                fields = (each / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    found[int(each.name)] = (each / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
    return found


def wait_for(fact: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not fact():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_ctrl_c_while_java_starts_leaves_no_java_and_says_nothing() -> None:
    command = [sys.executable, "-m", "contentcast.cli", "match", "tiny", "--out", "out", "--master", "local[1]"]
    running = subprocess.Popen(command, stdout=-1, stderr=-1, text=True, start_new_session=True)
    try:
        wait_for(lambda: any("java" in each or "spark-submit" in each for each in processes(running.pid).values()))
        os.killpg(running.pid, signal.SIGINT)
        said = running.communicate(timeout=PATIENCE_S)
        assert (running.returncode, said[0], without_progress(said[1])) == (130, "", "")
        wait_for(lambda: not processes(running.pid))
        assert all_files() == ["run.toml", "tiny", "tiny/events.jsonl", "tiny/space.json", "tiny/subscriptions.csv"]
    finally:
        for each in processes(running.pid):
            os.kill(each, signal.SIGKILL)


def test_after_ctrl_c_py4j_says_nothing_of_connections_that_java_has_closed() -> None:
    """It wrote a traceback, BrokenPipeError, when a thread ended behind the Java that it had talked to."""
    py4j = logging.getLogger("py4j")
    before = py4j.level
    try:
        py4j.setLevel(logging.NOTSET)  # an interrupted command before this one has left it quiet
        assert logging.getLogger("py4j.clientserver").isEnabledFor(logging.ERROR)
        leave_out()
        assert not logging.getLogger("py4j.clientserver").isEnabledFor(logging.ERROR)
    finally:
        py4j.setLevel(before)


def test_a_stream_that_was_killed_while_it_started_can_be_started_again(spark: SparkSession) -> None:
    Path("events").mkdir()
    Path("tiny/events.jsonl").rename("events/1.jsonl")
    words = ["match", "tiny", "--events", "events", "--out", "out", "--stream", "--once", "--master", "local[1]"]
    command = [sys.executable, "-m", "contentcast.cli", *words]
    running = subprocess.Popen(command, stdout=-1, stderr=-1, text=True, start_new_session=True)
    wait_for(lambda: Path("out/refused/part-0.parquet").exists())
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    assert not Path("out/matches/_contentcast/stream").exists()
    again = CliRunner().invoke(app, words, prog_name="contentcast")
    assert again.exit_code == 0, again.stderr
    assert again.stdout.startswith("1 event met 1 subscription: 1 pair in out/matches")
