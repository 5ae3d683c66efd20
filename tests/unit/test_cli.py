"""The command line as its users meet it: what it prints, what it writes, what it says when something is wrong."""

from __future__ import annotations

import json
import logging
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import contentcast
from contentcast.cli import EXAMPLES, FIRST, GROUPS, _warnings_told, app
from contentcast.model import Space, read_events
from contentcast.workload import SCENARIOS, scenario


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")


def say(*words: str) -> Result:
    return CliRunner().invoke(app, [str(each) for each in words], prog_name="contentcast")


def works(*words: str) -> str:
    result = say(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(*words: str) -> str:
    """What it says on stderr; nothing else may be said, and no traceback."""
    result = say(*words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


# --- help


def test_every_command_has_an_example_and_its_help_shows_it() -> None:
    groups = {group.name for group in app.registered_groups}
    assert set(EXAMPLES) == {command.name or command.callback.__name__ for command in app.registered_commands} | groups
    for command, example in EXAMPLES.items():
        assert example in works(command, "--help")
    lines = [line.strip() for line in works("--help").rstrip().splitlines()]
    assert lines[-len(FIRST) :] == [EXAMPLES[command] for command in FIRST], "a handful, one below the other"


def test_the_help_shows_every_command_in_its_group() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(EXAMPLES)
    _, *panels = re.split("|".join(GROUPS), works("--help"))
    assert [re.findall(r"^│ (\w+)", panel, re.MULTILINE) for panel in panels] == [list(names) for names in GROUPS.values()]


def test_the_examples_work_one_after_the_other() -> None:
    works(*shlex.split(EXAMPLES["workload"])[1:])
    assert works(*shlex.split(EXAMPLES["parse"])[1:]) == "price < 120.0\n"


def test_a_warning_begins_like_all_else_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with _warnings_told():
        logging.getLogger("contentcast.network.found").warning("net.graphml: %d links say no delay", 2)
    assert capsys.readouterr().err == "contentcast: net.graphml: 2 links say no delay\n"


def test_version() -> None:
    assert works("--version") == f"contentcast {contentcast.__version__}\n"


# --- workload


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl"])
def test_workload_writes_what_the_scenario_gives(format: str) -> None:
    said = works(
        *("workload", "market", "--events", "30", "--subscriptions", "9", "--out", "here/there", "--format", format),
        *("--seed", "5", "--set", "symbols=20", "--set", "hot=true", "--set", "zipf=1.5"),
    )
    assert said.split() == [f"here/there/events.{format}", f"here/there/subscriptions.{format}", "here/there/space.json"]
    market = scenario("market", seed=5, symbols=20, hot=True, zipf=1.5)
    assert read_events(f"here/there/events.{format}", Space.load("here/there/space.json")).records == market.events(30)


def test_workload_lists_the_scenarios() -> None:
    said = works("workload", "--list")
    described = json.loads(works("workload", "--list", "--json"))
    assert list(described) == list(SCENARIOS)
    assert all(name in said for name in SCENARIOS)
    assert described["market-hot"]["parameters"]["hot"]["default"] is True
    assert described["w1b"]["parameters"]["values"] == {
        "default": 30,
        "low": 1,
        "high": 10_000,
        "meaning": "values of each attribute: 1, 2, ...",
    }


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["marke", "--out", "x"], "contentcast has no scenario 'marke'; did you mean 'market'?"),
        (["market", "--out", "x", "--set", "symbol=3"], "market has no parameter 'symbol'; did you mean 'symbols'?"),
        (["market", "--out", "x", "--set", "symbols=many"], "market: symbols takes an int, got 'many'"),
        (["market", "--out", "x", "--set", "symbols"], "--set takes NAME=VALUE, got 'symbols'"),
        (["market", "--out", "x", "--seed", "-1"], "market: seed is an int from 0 to 2**64 - 1, got -1"),
        (["market"], "workload: where to? Add --out FOLDER"),
        ([], f"workload: which scenario? One of {', '.join(SCENARIOS)}"),
        (["market", "--out", "file"], "file is a file, not a folder"),
        (["market", "--out", "full"], "full/space.json is already there; choose another folder, or replace it with --force"),
    ],
)
def test_workload_refuses_in_one_line(words: list[str], complaint: str) -> None:
    Path("file").touch()
    Path("full").mkdir()
    Path("full/space.json").touch()
    assert fails("workload", *words) == f"contentcast: {complaint}\n"
    assert not Path("x").exists()


def test_workload_replaces_with_force() -> None:
    for seed in ("1", "2"):
        works("workload", "overlay", "--events", "3", "--out", "x", "--seed", seed, "--force")
    assert read_events("x/events.parquet", Space.load("x/space.json")).records == scenario("overlay", seed=2).events(3)


# --- parse


@pytest.fixture
def space() -> str:
    Space("trades", symbol="string", price="float", at="timestamp", raw="bytes").save("space.json")
    return "space.json"


def test_parse_prints_the_canonical_text(space: str) -> None:
    assert works("parse", "NOT (price >= 120 OR symbol <> 'IBM')", "--space", space) == "symbol = 'IBM' AND price < 120.0\n"


def test_parse_reads_toml() -> None:
    Path("space.toml").write_text('name = "trades"\n[attributes]\nprice = "float"\n')
    assert works("parse", "1 > price", "--space", "space.toml") == "price < 1.0\n"


def test_parse_prints_the_structure(space: str) -> None:
    text = "symbol LIKE 'I%M' AND price < 5 OR at = TIMESTAMP '2024-01-01 00:00:00' AND (raw = X'FF' OR raw IS NULL)"
    said = json.loads(works("parse", text, "--space", space, "--json"))
    assert contentcast.parse_predicate(Space.load(space), said["predicate"]) == contentcast.parse_predicate(
        Space.load(space), text
    )
    below, exactly = sorted(said["any of"], key=len, reverse=True), "2024-01-01T00:00:00Z"
    found: dict[str, Any] = {name: each for conjunction in below for name, each in conjunction.items()}
    assert found["price"] == {
        "in": [{"from": None, "from included": True, "to": 5.0, "to included": False}],
        "may be absent": False,
    }
    assert found["symbol"]["like"] == ["I%M"]
    assert found["at"]["in"] == [{"from": exactly, "from included": True, "to": exactly, "to included": True}]
    assert found["raw"]["in"][0]["from"] == "/w=="
    assert found["raw"]["may be absent"] is True


def test_the_structure_names_every_test_by_its_word() -> None:
    Path("space.toml").write_text('name = "t"\n[attributes]\nip = "string"\ns = "string"\ntags = "list of string"\n')

    def constraint(text: str, name: str) -> dict[str, Any]:
        (alternative,) = json.loads(works("parse", text, "--space", "space.toml", "--json"))["any of"]
        return dict(alternative[name])

    found = constraint(
        "array_contains(tags, 'gift') AND NOT exists(tags, t -> t LIKE '%x' OR t IS NULL) AND size(tags) > 1", "tags"
    )
    assert found["some element"][0]["in"] == [{"from": "gift", "from included": True, "to": "gift", "to included": True}]
    (forbidden,) = [each for each in found["no element"] if each.get("like")]
    assert forbidden["like"] == ["%x"]
    assert found["size"] == [{"from": 2, "from included": True, "to": None, "to included": True}]
    assert "in" not in found
    tests = constraint("s RLIKE 'a+b' AND NOT s ILIKE '%x%' AND s LIKE '%b_' AND in_cidr(s, '10.0.0.0/8')", "s")
    assert (tests["rlike"], tests["not lower like"], tests["like"]) == (["a+b"], ["%x%"], ["%b_"])
    assert tests["in_cidr"] == ["10.0.0.0/8"]
    assert constraint("tags IS NULL", "tags") == {"in": [], "may be absent": True}


def test_parse_warns_about_lists_that_never_or_always_match() -> None:
    Path("space.toml").write_text('name = "t"\n[attributes]\ntags = "list of string"\n')
    for text, canonical, warning in (
        ("array_contains(tags, 'a') AND size(tags) < 1", "FALSE", "can never match: its tests contradict each other"),
        ("size(tags) >= 0 OR tags IS NULL", "TRUE", "matches every event"),
        ("exists(tags, t -> t = 'a' AND t = 'b')", "FALSE", "can never match: its tests contradict each other"),
        (
            "NOT array_contains(tags, 'a') AND array_contains(tags, 'a')",
            "FALSE",
            "can never match: its tests contradict each other",
        ),
    ):
        said = json.loads(works("parse", text, "--space", "space.toml", "--json"))
        assert (said["predicate"], said["warning"]) == (canonical, warning)


@pytest.mark.parametrize(
    ("predicate", "file", "complaint"),
    [
        (
            "prise < 5",
            "space.json",
            "line 1, column 1: trades has no attribute 'prise'; did you mean 'price'?\n    prise < 5\n    ^",
        ),
        (
            "price < 5",
            "nowhere.json",
            "there is no space file nowhere.json; `contentcast space EVENTS --out nowhere.json` makes one",
        ),
        ("price < 5", ".", ". cannot be read: Is a directory"),
    ],
)
def test_parse_shows_what_is_wrong(space: str, predicate: str, file: str, complaint: str) -> None:
    assert fails("parse", predicate, "--space", file) == f"contentcast: {complaint}\n"


# --- as a process


def test_ctrl_c_ends_cleanly_and_leaves_nothing(tmp_path: Path) -> None:
    words = ["workload", "market", "--events", "1000000000", "--out", "x", "--format", "csv"]
    running = subprocess.Popen([sys.executable, "-m", "contentcast.cli", *words], stdout=-1, stderr=-1, text=True)
    while running.poll() is None and not list(tmp_path.glob("x/.unfinished-*/events.csv")):
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=30)
    assert (running.returncode, said) == (130, ("", ""))
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_no_traceback() -> None:
    command = f"{shlex.quote(sys.executable)} -m contentcast.cli workload --list --json | head -1"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("{\n", "")
