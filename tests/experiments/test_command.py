"""`contentcast experiment`: what a user types and sees."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from contentcast.cli import app

runner = CliRunner()


def test_list_shows_every_experiment() -> None:
    shown = runner.invoke(app, ["experiment", "--list", "--json"])
    assert shown.exit_code == 0
    assert "link-matching/chart2" in [each["name"] for each in json.loads(shown.stdout)]


def test_a_quick_experiment_tells_the_claims_beside_ours(tmp_path: Path) -> None:
    command = ["experiment", "link-matching/prototype", "--quick", "--local", "--json", "--out", str(tmp_path)]
    shown = runner.invoke(app, command)
    assert shown.exit_code == 0, shown.output
    (told,) = json.loads(shown.stdout)
    assert [each["holds"] for each in told["verdicts"] if "steps" in each["claim"]] == [True, True]
    assert Path(told["figure"]).exists()
    assert Path(told["results"]).exists()


def test_a_name_that_is_not_there_and_none_at_all() -> None:
    wrong = runner.invoke(app, ["experiment", "link-matching/chart9", "--local"])
    assert wrong.exit_code == 2
    assert "there is no experiment 'link-matching/chart9'; did you mean" in wrong.output
    none = runner.invoke(app, ["experiment"])
    assert none.exit_code == 2
    assert "which one? link-matching/chart1" in none.output


def test_whoever_stops_it_is_told_that_the_rows_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("contentcast.experiments.run.run", stopped)
    command = ["experiment", "link-matching/prototype", "--quick", "--local", "--out", str(tmp_path)]
    shown = runner.invoke(app, command)
    assert shown.exit_code == 130
    assert f"stopped; the rows so far are kept in {tmp_path}, and the same command goes on with them\n" in shown.stderr
    assert "the same command without --fresh goes on" in runner.invoke(app, [*command, "--fresh"]).stderr
