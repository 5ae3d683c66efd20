"""Long work says how far it is, also where no terminal is: a line every few seconds, whatever it is at."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from contentcast import progress_lines
from contentcast.commands.shared.progress import progress
from contentcast.model import Space
from contentcast.progress_lines import lines
from contentcast.simulation import faults


def test_lines_say_how_far_the_work_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress_lines, "LINE_EVERY_S", 0.01)
    with progress("market", 20_000) as advance:
        advance(12_000)
        said = ""
        while "12,000" not in said:
            said += capsys.readouterr().err
    assert "contentcast: market: 12,000 of 20,000 (0 s)\n" in said


def test_lines_say_at_which_step_the_work_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The last events of `simulate` are out, and the brokers are not quiet yet: it stood at "1,000 of 1,000"."""
    monkeypatch.setattr(progress_lines, "LINE_EVERY_S", 0.01)
    step = "events"
    with progress(lambda: f"overlay, {step}", 10) as advance:
        said = ""
        while "overlay, events: 0 of 10 (0 s)" not in said:
            said += capsys.readouterr().err
        step = "waiting until all is quiet"
        advance(10)
        while "overlay, waiting until all is quiet: 10 of 10 (0 s)" not in said:
            said += capsys.readouterr().err


def test_quick_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with lines(lambda: "quick"):
        pass
    assert capsys.readouterr().err == ""


JOB = """
import sys
from contentcast import progress_lines
from contentcast.cli import app

progress_lines.LINE_EVERY_S = 0.02  # so that the quickest step is long enough for a line
app(sys.argv[1:])
"""


def test_the_main_job_has_a_line_for_every_step(tmp_path: Path) -> None:
    """Into a pipe, as where no terminal is; also while Spark starts, when Java has stderr."""
    protocols = ["two-tier", "flooding"]
    told = [word for each in protocols for word in ("--protocol", each)]
    ended = subprocess.run(
        [sys.executable, "-c", JOB, "run", "--size", "small", "--out", str(tmp_path / "out"), *told],
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert ended.returncode == 0, ended.stderr
    lines = [
        re.fullmatch(r"contentcast: ([\w -]+?)(?:: \d+ of \d+ tasks)? \(\d+ s\)", each) for each in ended.stderr.split("\n")
    ]
    steps = list(dict.fromkeys(each[1] for each in lines if each is not None))
    jobs = ["ingest", "match and deliver", "learn", *(f"route {each}" for each in protocols)]
    assert [each for each in steps if each in jobs] == jobs, ended.stderr
    assert steps[0] == "start Spark", ended.stderr


def test_a_stream_has_lines_from_the_start_of_spark_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Space("trades", price="float").save("space.json")
    Path("in").mkdir()
    Path("in/1.jsonl").write_text('{"price": 1}\n')
    Path("rules.txt").write_text("price < 2\n")
    words = ["match", "--events", "in", "--rules", "rules.txt", "--space", "space.json", "--out", "out", "--stream", "--once"]
    ended = subprocess.run(
        [sys.executable, "-c", JOB, *words, "--master", "local[1]"], capture_output=True, text=True, timeout=400
    )
    assert ended.returncode == 0, ended.stderr
    told = re.findall(r"contentcast: (.*) \(\d+ s\)\n", ended.stderr)
    assert told[0] == "start Spark"
    assert told[-1] == "stop Spark"
    assert any(re.fullmatch(r"\d events, 0 bad records so far; Ctrl-C stops", each) for each in told), ended.stderr


def test_stories_and_attacks_say_how_far_they_are_where_no_terminal_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before, `make soak` was silent for minutes."""
    monkeypatch.setattr(progress_lines, "LINE_EVERY_S", 0.001)
    assert faults.main(["--protocol", "flooding", "--seeds", "3"]) == 0
    told = capsys.readouterr()
    assert "flooding: 3 of 3 stories passed" in told.out
    assert "contentcast: flooding: " in told.err
