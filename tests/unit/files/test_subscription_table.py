"""A table of rules in a text file: values stay as they are written, and what cannot be read is told with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contentcast.files.subscription_table import FileTable, check_table
from contentcast.model import ContentcastError
from contentcast.rules.files import read_rules


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ids(*given: str) -> list[object]:
    rows = "".join(f"{each},price < 1\n" for each in given)
    Path("rules.csv").write_text(f"subscription,predicate\n{rows}")
    checked = check_table(FileTable(Path("rules.csv")).read())
    assert checked.refused.num_rows == 0
    return checked.columns["subscription"].to_pylist()


@pytest.mark.parametrize(
    "given",
    [
        ("007", "7"),
        ("7", "+8"),
        ("1", "two"),
        ("-0", "1"),
        ("2024-01-01", "2024-01-02"),
        ("08:00",),
        ("TRUE", "false"),
        ("1e3",),
        ("9223372036854775808", "1"),
        ("NULL", "nan"),
    ],
)
def test_ids_that_are_not_written_as_ints_are_stay_texts(given: tuple[str, ...]) -> None:
    assert ids(*given) == list(given)


def test_ids_that_are_written_as_ints_are_ints() -> None:
    assert ids("7", "0", "-12", "9223372036854775807") == [7, 0, -12, 9223372036854775807]


def test_no_value_of_a_csv_file_is_guessed() -> None:
    Path("rules.csv").write_text('subscription,predicate,subscriber,broker,note\n1,TRUE,08:00,01,\n2,TRUE,7,02,""\n')
    assert FileTable(Path("rules.csv")).read().to_pylist() == [
        {"subscription": 1, "predicate": "TRUE", "subscriber": "08:00", "broker": "01", "note": None},
        {"subscription": 2, "predicate": "TRUE", "subscriber": "7", "broker": "02", "note": ""},
    ]


def test_a_predicate_that_is_left_empty_is_the_empty_text() -> None:
    Path("rules.csv").write_text("subscription,predicate\n1,\n")
    assert FileTable(Path("rules.csv")).read()["predicate"].to_pylist() == [""]


def test_whether_ids_are_ints_is_asked_of_all_csv_files_of_a_folder() -> None:
    Path("in").mkdir()
    Path("in/a.csv").write_text("key,rule\n7,TRUE\n")
    Path("in/b.csv").write_text("key,rule\n007,TRUE\n")
    table = FileTable(Path("in"), id="key", predicate="rule")
    assert table.read()["subscription"].to_pylist() == ["7", "007"]
    Path("in/b.csv").write_text("key,rule\n8,TRUE\n")
    pq.write_table(pa.table({"key": [9], "rule": ["TRUE"]}), "in/c.parquet")
    assert sorted(table.read()["subscription"].to_pylist()) == [7, 8, 9]


def test_a_text_of_json_lines_that_looks_like_a_time_stays_a_text() -> None:
    rows = [{"subscription": "2024-01-01", "predicate": "TRUE", "more": {"since": ["2024-01-01T00:00:00"]}}]
    Path("rules.jsonl").write_text("\n".join(map(json.dumps, rows)))
    table = FileTable(Path("rules.jsonl")).read()
    assert table.to_pylist() == rows
    assert check_table(table).columns["subscription"].to_pylist() == ["2024-01-01"]


@pytest.mark.parametrize("name", ["rules.csv", "rules.jsonl", "rules.txt"])
def test_rules_in_another_encoding_are_refused_with_the_line(name: str) -> None:
    lines = {
        "rules.csv": "subscription,predicate\n1,TRUE\n2,issue = 'café'\n",
        "rules.jsonl": '\n\n{"subscription": 1, "predicate": "issue = \'café\'"}\n',
        "rules.txt": "TRUE\n\nissue = 'café'\n",
    }
    Path(name).write_bytes(lines[name].encode("latin-1"))
    with pytest.raises(ContentcastError, match=rf"{name}, line 3: b'\\xe9' is not UTF-8 text; save the file as UTF-8"):
        FileTable(Path(name)).read()


def test_rules_that_are_translated_keep_their_names_too() -> None:
    Path("topics.csv").write_text("name,rule\n007,a.*\n7,b.*\n")
    assert [each.name for each in read_rules("topics.csv", "topic")] == ["007", "7"]
    Path("topics.csv").write_text("name,rule\n8,a.*\n7,b.*\n")
    assert [each.name for each in read_rules("topics.csv", "topic")] == [8, 7]
