"""Long work says how far it is, also where no terminal is: a line at least every ten seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from time import monotonic

import pytest

from contentcast import progress_lines
from contentcast.commands.shared.progress import progress
from contentcast.progress_lines import lines

MOST_SILENCE_S = 10.0


def test_lines_say_how_far_the_work_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress_lines, "LINE_EVERY_S", 0.01)
    with progress("market", 20_000) as advance:
        advance(12_000)
        said = ""
        while "12,000" not in said:
            said += capsys.readouterr().err
    assert "contentcast: market: 12,000 of 20,000 (0 s)\n" in said


def test_quick_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with lines(lambda: "quick"):
        pass
    assert capsys.readouterr().err == ""


def test_the_main_job_is_never_silent_for_long(tmp_path: Path) -> None:
    """Into a pipe, with the time at which each line came."""
    began = monotonic()
    running = subprocess.Popen(
        [sys.executable, "-m", "contentcast.cli", "run", "--size", "small", "--out", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert running.stdout is not None
    came = [(monotonic() - began, line) for line in running.stdout]
    assert running.wait() == 0, came
    times = [0.0, *(at for at, _ in came)]
    silent = max(after - before for before, after in pairwise(times))
    assert silent <= MOST_SILENCE_S, came
    told = [line for _, line in came if line.startswith("contentcast: ")]
    assert len(told) >= int(times[-1] / MOST_SILENCE_S)
