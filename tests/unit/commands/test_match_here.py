"""`contentcast match` in one process: standard input to standard output, files of all kinds, and exit codes for scripts."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

from contentcast.cli import app
from contentcast.commands.matching import inputs
from contentcast.model import Space
from contentcast.speed import per_second, shown_speed
from tests.progress import without_progress

TRADES = Space("trades", issue="string", price="float")
EVENTS = [{"issue": "IBM", "price": 119.5}, {"issue": "SAP", "price": 8.5}, {"issue": "IBM", "price": 130.0}]
RULES = "# what the desk wants\nprice < 120\n\nissue = 'IBM'\n"
PAIRS = [(119.5, 2), (119.5, 4), (8.5, 2), (130.0, 4)]
"""The price, and the line of the rule."""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    TRADES.save("space.json")
    Path("rules.txt").write_text(RULES)


def match(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["match", *words, "--rules", "rules.txt", "--space", "space.json"], input=stdin)


def lines(events: list[dict[str, object]]) -> str:
    return "".join(json.dumps(each) + "\n" for each in events)


def pairs(said: str) -> list[tuple[float, int]]:
    return [(row["price"], row["subscription"]) for row in map(json.loads, said.splitlines())]


def test_from_standard_input_to_standard_output() -> None:
    ended = match("-", stdin=lines(EVENTS))
    assert (ended.exit_code, pairs(ended.stdout)) == (0, PAIRS)
    assert without_progress(ended.stderr).startswith("3 events met 2 subscriptions: 4 pairs, ")


def test_an_attribute_that_the_event_does_not_carry_is_left_out_of_the_line() -> None:
    ended = match("-", stdin='{"issue": "IBM"}\n')
    assert json.loads(ended.stdout) == {"issue": "IBM", "subscription": 4}
    assert "1 event met 2 subscriptions: 1 pair, " in ended.stderr


def test_a_pipe_is_answered_line_by_line() -> None:
    """What has come is matched before more comes: `tail -f log | contentcast match -` works."""
    words = ["-m", "contentcast.cli", "match", "-", "--rules", "rules.txt", "--space", "space.json"]
    running = subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdin is not None
    assert running.stdout is not None
    for event, expected in zip(EVENTS[1:], PAIRS[2:], strict=True):
        running.stdin.write(lines([event]).encode())
        running.stdin.flush()
        answer = json.loads(running.stdout.readline())  # would wait for ever if the answer came at the end
        assert (answer["price"], answer["subscription"]) == expected
    said, _ = running.communicate(timeout=60)
    assert (running.returncode, said) == (0, b"")


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "ndjson.zst", "csv", "csv.gz", "parquet"])
def test_files_of_all_kinds(ending: str) -> None:
    Path("in").mkdir()
    for number, part in enumerate([EVENTS[:2], EVENTS[2:]]):
        path, text = Path(f"in/{number}.{ending}"), lines(part)
        if ending.startswith("csv"):
            text = "issue,price\n" + "".join(f"{each['issue']},{each['price']}\n" for each in part)
        if ending == "parquet":
            pq.write_table(pa.Table.from_pylist(part), path)
        elif ending.endswith(".gz"):
            path.write_bytes(gzip.compress(text.encode()))
        elif ending.endswith(".zst"):
            path.write_bytes(pa.compress(text.encode(), "zstd", asbytes=True))
        else:
            path.write_text(text)
    for given in (["in"], ["in/*"], [f"in/*.{ending}"], [f"in/0.{ending}", f"in/1.{ending}"]):
        ended = match(*given, "--out", "-")
        assert (ended.exit_code, pairs(ended.stdout)) == (0, PAIRS), ended.stderr


def test_no_event_that_could_be_used_is_exit_code_1() -> None:
    ended = match("-", stdin="nonsense\n")
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert "a bad record: not JSON" in ended.stderr
    assert match("-", stdin="nonsense\n" + lines(EVENTS)).exit_code == 0
    assert match("-", stdin="").exit_code == 0, "an empty file is a quiet day, not a mistake"


def test_no_rule_that_could_be_used_is_exit_code_1() -> None:
    Path("rules.txt").write_text("prise < 120\n")
    ended = match("-", stdin=lines(EVENTS))
    assert (ended.exit_code, ended.stdout) == (1, "")
    told = "rule 1 is refused: line 1, column 1: trades has no attribute 'prise'; did you mean 'price'?"
    assert told in ended.stderr
    Path("rules.txt").write_text("prise < 120\nprise < 130\n")
    kept = match("-", "--out", "kept", stdin=lines(EVENTS))
    assert kept.exit_code == 1
    assert told in kept.stderr
    assert kept.stderr.count("is refused") == 1, "the table has the others"


def test_only_the_first_bad_records_are_told_and_all_are_counted() -> None:
    ended = match("-", stdin="nonsense\n" * 50 + lines(EVENTS))
    assert ended.stderr.count("a bad record") == 20
    assert "... and 30 more bad records; --out FOLDER keeps them all" in ended.stderr
    assert "53 events (50 bad) met" in ended.stderr


def test_an_event_that_is_kept_without_an_attribute_is_not_called_a_bad_record() -> None:
    """One line is no JSON, and two events have a price that is none: these are matched by what is left of them."""
    given = 'nonsense\n{"issue": "IBM", "price": "dear"}\n{"issue": "SAP", "price": true}\n'
    ended = match("-", "--on-error", "absent", stdin=given)
    assert json.loads(ended.stdout) == {"issue": "IBM", "subscription": 4}
    assert ended.stderr.count("contentcast: a bad record: ") == 1
    assert ended.stderr.count("contentcast: left out: attribute price: ") == 2
    assert "3 events (1 bad) met 2 subscriptions: 1 pair" in ended.stderr


@pytest.mark.parametrize(
    ("events", "seconds", "said"), [(4, 12.0, "0.33"), (40, 12.0, "3.3"), (4_000_000, 12.0, "333,333"), (0, 1.0, "0")]
)
def test_a_small_run_has_a_speed_too(events: int, seconds: float, said: str) -> None:
    assert shown_speed(per_second(events, seconds)) == said


def test_the_matches_of_each_rule() -> None:
    Path("rules.txt").write_text(RULES + "price > 1000\n")
    ended = match("-", "--counts", stdin=lines(EVENTS))
    told = [line.split() for line in ended.stderr.splitlines() if line.startswith(" ")]
    assert told == [["2", "2"], ["2", "4"], ["0", "5"]]


def test_a_bad_record_stops_it_if_that_is_wanted() -> None:
    ended = match("-", "--on-error", "raise", stdin="nonsense\n")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "not JSON" in ended.stderr


def test_many_brokers_make_folders_and_odd_names_come_back() -> None:
    pq.write_table(
        pa.table(
            {
                "subscription": list(range(300)),
                "predicate": ["price < 120"] * 300,
                "subscriber": [f"desk-{each % 7}" for each in range(300)],
                "broker": [None, "", "a/b=c", *(f"b{each}" for each in range(297))],
            }
        ),
        "wanted.parquet",
    )
    Path("events.jsonl").write_text(lines(EVENTS))
    words = ["match", "events.jsonl", "--rules", "wanted.parquet", "--space", "space.json", "--out", "out"]
    assert CliRunner().invoke(app, words).exit_code == 0
    found = pq.read_table("out/matches", partitioning="hive")
    assert found.num_rows == 600
    assert {"a/b=c", None, "b0", "b296"} <= set(found["broker"].to_pylist())
    assert json.loads(Path("out/matches/_contentcast/schema.json").read_text())["fields"][-1]["name"] == "broker"


def test_a_misspelt_name_is_told_before_numba_or_spark_is_there() -> None:
    script = (
        "import sys\nfrom contentcast.cli import app\nfrom typer.testing import CliRunner\n"
        "ended = CliRunner().invoke(app, sys.argv[1:])\n"
        "assert 'no event file gone.jsonl' in ended.stderr, ended.stderr\n"
        "assert 'pyspark' not in sys.modules\nassert 'numba' not in sys.modules\n"
    )
    words = ["match", "gone.jsonl", "--rules", "rules.txt", "--space", "space.json", "--out", "x"]
    for way in ([], ["--spark"], ["--no-spark"]):
        subprocess.run([sys.executable, "-c", script, *words, *way], check=True, timeout=60)


def test_above_the_stated_size_spark_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("events.jsonl").write_text(lines(EVENTS))
    given = inputs.inputs(["events.jsonl"], None, "rules.txt", Path("space.json"))
    assert given.bytes == Path("events.jsonl").stat().st_size + Path("rules.txt").stat().st_size
    monkeypatch.setattr(inputs, "HERE_BYTES", given.bytes)
    assert not inputs.on_spark(given, None, {}, None)
    monkeypatch.setattr(inputs, "HERE_BYTES", given.bytes - 1)
    assert inputs.on_spark(given, None, {}, None)
    assert not inputs.on_spark(given, False, {}, None)


def test_an_empty_csv_file_is_a_quiet_day_too() -> None:
    Path("events.csv").touch()
    ended = match("events.csv", "--out", "-")
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert without_progress(ended.stderr).startswith("0 events met 2 subscriptions: 0 pairs, ")


def test_a_rule_without_an_id_is_told_as_one() -> None:
    Path("rules.txt").replace("old.txt")
    Path("rules.jsonl").write_text('{"subscription": null, "predicate": "TRUE"}\n{"subscription": 7, "predicate": null}\n')
    words = ["match", "-", "--rules", "rules.jsonl", "--space", "space.json"]
    ended = CliRunner().invoke(app, words, input=lines(EVENTS))
    assert "contentcast: a rule is refused: the subscription has no id (null)" in ended.stderr
    assert "contentcast: rule 7 is refused: the predicate is null; TRUE asks for every event" in ended.stderr


def test_a_damaged_file_is_named() -> None:
    Path("events.jsonl.gz").write_bytes(gzip.compress(lines(EVENTS).encode())[:-20])
    ended = match("events.jsonl.gz", "--out", "x")
    assert ended.exit_code == 2
    assert "events.jsonl.gz cannot be read: it is damaged, or not what its ending says" in ended.stderr
    assert os.listdir() == ["events.jsonl.gz", "rules.txt", "space.json"] or not Path("x").exists()
