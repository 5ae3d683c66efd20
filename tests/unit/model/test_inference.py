"""Spaces by looking: a sample or a schema in, kinds out, with a word about each field that was mixed or left out."""

import gzip
import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import contentcast as cc
from contentcast.cli import app
from contentcast.model.values.kinds import KINDS_SAID

EVENTS = [
    {
        "id": "a1",
        "count": 1,
        "price": 5,
        "at": "2026-03-01T12:00:00.5Z",
        "day": "2026-03-01",
        "on": True,
        "user": {"age": 30.5},
    },
    {"id": "a2", "count": 2, "price": 5.5, "at": "2026-03-02T12:00:00Z", "day": "2026-03-02", "on": False, "user": {"age": 31}},
    {"id": "a3", "count": None, "price": 6, "at": "2026-03-03T12:00:00Z", "nothing": None, "user": None, "odd`name": 1},
]
KINDS = {
    "id": "string",
    "count": "int",
    "price": "float",
    "at": "timestamp",
    "day": "string",
    "on": "bool",
    "user.age": "float",
}


def kinds(space: cc.Space) -> dict[str, str]:
    return {name: each.kind for name, each in space.items()}


def test_kinds_nesting_and_what_is_left_out() -> None:
    found = cc.infer_space(EVENTS, "orders")
    assert found.space.name == "orders"
    assert kinds(found.space) == KINDS == kinds(cc.Space.infer(EVENTS))
    assert found.notes == {
        "day": "dates without a time are text",
        "nothing": "is null in every event that was looked at",
        "odd`name": "cannot be the name of an attribute",
    }
    assert len(cc.EventBatch.from_dicts(found.space, EVENTS, unknown="ignore")) == 3


def test_what_is_mixed_is_told_with_its_counts() -> None:
    events = [{"x": 1, "y": 1, "z": {"a": 1}}] * 9 + [{"x": "one", "y": True, "z": 5}] * 2
    found = cc.infer_space(events)
    assert kinds(found.space) == {"x": "int", "y": "int", "z.a": "int"}
    assert found.notes["x"].startswith("mixed: 9 int, and 2 string, which will not fit (on_error='absent'")
    assert found.notes["z"] == "is an object in 9 events and 2 int in others"
    batch = cc.EventBatch.from_dicts(found.space, events, on_error="absent")
    assert len(batch) == 11
    assert {each.attribute for each in batch.left_out} == {"x", "y", "z"}


def test_finer_timestamps_large_ints_and_whole_floats() -> None:
    events = [{"at": "2026-03-01T12:00:00.123456789Z", "big": 2**70, "count": 5.0, "text": "2026-03-01T99:00"}, {"count": None}]
    found = cc.infer_space(events)
    assert kinds(found.space) == {"at": "timestamp", "count": "int", "text": "string"}
    assert found.notes == {"at": "1 are finer than a microsecond (finer='round')", "big": "is 1 int beyond 64 bits"}


def test_the_file_can_be_edited_and_loaded(tmp_path: Path) -> None:
    found = cc.infer_space([{**EVENTS[0], "naïve key": 'say "hi"\n', "user.name": "x"}], "orders")
    text = found.to_toml()
    (tmp_path / "orders.toml").write_text(text)
    assert cc.Space.load(tmp_path / "orders.toml") == found.space
    assert tomllib.loads(text)["attributes"]["naïve key"] == "string"
    assert '"a1"' in text
    assert "in 100%" in text


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet", "csv"])
def test_files_of_every_format_give_the_same_kinds(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"orders.{ending}"
    flat = [{"id": "a1", "count": 1, "price": 5.5, "at": "2026-03-01T12:00:00Z", "on": True}] * 3
    if ending == "parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(flat), path)
    elif ending == "csv":
        pd.DataFrame(flat).to_csv(path, index=False)
    else:
        raw = "".join(json.dumps(each) + "\n" for each in flat).encode()
        path.write_bytes(gzip.compress(raw) if ending.endswith("gz") else raw)
    found = cc.Space.infer(path)
    assert (found.name, kinds(found)) == ("orders", {name: KINDS[name] for name in ("id", "count", "price", "at", "on")})


def test_a_large_file_is_looked_at_in_several_places(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with path.open("w") as file:
        for number in range(60_000):
            file.write(json.dumps({"n": number, "pad": "x" * 400, **({"late": 1.5} if number > 40_000 else {})}) + "\n")
    found = cc.infer_space(str(path), most_events=500)
    assert kinds(found.space)["late"] == "float"
    assert found.looked_at.startswith("504 events of")


def test_arrow_pandas_and_schemas() -> None:
    table = pa.table(
        {
            "count": pa.array([1, None], pa.int32()),
            "at": pa.array([0, 1], pa.timestamp("ns")),
            "text": pa.array(["2026-03-01T12:00:00Z", None]),
            "detail": pa.array([{"state": "up"}, None]),
            "money": pa.array([None, None], pa.decimal128(10, 2)),
            "none": pa.nulls(2),
        }
    )
    expected = {"count": "int", "at": "timestamp", "text": "timestamp", "detail.state": "string"}
    found = cc.infer_space(table)
    assert kinds(found.space) == expected
    assert found.notes["money"] == "is decimal128(10, 2); cast it first"
    assert kinds(cc.Space.infer(table.schema)) == {**expected, "text": "string"}
    frame = pd.DataFrame(
        {"count": [1, None], "price": [1.0, 2.0], "at": [datetime(2026, 3, 1, tzinfo=UTC)] * 2, "s": ["a", None]}
    )
    assert kinds(cc.Space.infer(frame)) == {"count": "int", "price": "float", "at": "timestamp", "s": "string"}


def test_a_json_schema(tmp_path: Path) -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"money": {"type": ["number", "null"]}},
        "properties": {
            "id": {"type": "string"},
            "at": {"type": "string", "format": "date-time"},
            "price": {"$ref": "#/$defs/money"},
            "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "on": {"type": "boolean"},
            "user": {"type": "object", "properties": {"country": {"enum": ["DE", "FR"]}}},
            "loop": {"$ref": "#/properties/loop"},
            "any": {},
            "either": {"type": ["string", "integer"]},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
    (tmp_path / "orders.json").write_text(json.dumps(schema))
    expected = {"id": "string", "at": "timestamp", "price": "float", "count": "int", "on": "bool", "user.country": "string"}
    for given in (schema, tmp_path / "orders.json"):
        found = cc.infer_space(given)
        assert kinds(found.space) == expected
        assert set(found.notes) == {"loop", "any", "either", "map"}


@pytest.mark.parametrize(
    ("sample", "says"),
    [
        ({"id": 1}, r"of one event give a list: \[event\]"),
        ([{}], "no field can be an attribute"),
        ([], "no field can be an attribute"),
        (5, "a file or a schema, not int"),
        ("nothing.jsonl", "there is no file nothing.jsonl"),
        ("nothing.xml", "a sample comes as"),
    ],
)
def test_a_sample_that_is_none(sample: object, says: str) -> None:
    with pytest.raises(cc.SpaceError, match=says):
        cc.Space.infer(sample)


def test_names_that_are_data_do_not_become_a_thousand_attributes() -> None:
    found = cc.infer_space([{"id": number, "by_user": {f"user-{number}": 1}} for number in range(5000)])
    assert "there are more than 2,000 fields" in found.notes["..."]


# --- the command


def test_the_command_writes_a_file_that_match_takes(tmp_path: Path) -> None:
    for name, events in (("a", EVENTS), ("b", [{"id": 5}])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events) + "no json\n")
    run = CliRunner().invoke(app, ["space", f"{tmp_path}/*.jsonl", "--name", "orders", "--out", f"{tmp_path}/orders.toml"])
    assert run.exit_code == 0, run.output
    assert "7 attributes, 3 fields left out" in run.output
    assert "id: mixed: 3 string, and 1 int" in run.output
    assert kinds(cc.Space.load(tmp_path / "orders.toml")) == KINDS
    again = CliRunner().invoke(app, ["space", f"{tmp_path}/a.jsonl", "--out", f"{tmp_path}/orders.toml"])
    assert again.exit_code == 2
    assert "is already there" in again.output
    told = CliRunner().invoke(app, ["space", f"{tmp_path}/a.jsonl", "--json"])
    assert json.loads(told.stdout)["space"]["attributes"] == KINDS
    piped = CliRunner().invoke(app, ["space", "-"], input=json.dumps(EVENTS[0]))
    assert tomllib.loads(piped.stdout)["attributes"]["user.age"] == "float"


def test_match_without_a_space_says_how_to_make_one(tmp_path: Path) -> None:
    (tmp_path / "rules.csv").write_text("subscription,predicate\n1,TRUE\n")
    asked = ["match", "--events", "a.jsonl", "--subscriptions", str(tmp_path / "rules.csv")]
    run = CliRunner().invoke(app, asked)
    assert "match: add --space, or name the folder where they are; `contentcast space a.jsonl` makes one" in run.output
    run = CliRunner().invoke(app, [*asked, "--space", "no.toml", "--out", "x"])
    assert "there is no space file no.toml; `contentcast space a.jsonl --out no.toml` makes one" in run.output


def test_parse_warns_about_what_never_or_always_matches(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('name = "s"\n[attributes]\nprice = "float"\n')
    for text, says in (
        ("price < 3 AND price > 5", "it can never match"),
        ("price < 3 OR price >= 3 OR price IS NULL", "it matches every event"),
    ):
        assert says in CliRunner().invoke(app, ["parse", text, "--space", str(tmp_path / "s.toml")]).output


# --- lists


LISTS = [
    {
        "tags": ["new", None],
        "codes": [1, 2],
        "scores": [1, 2.5],
        "on": [True, None],
        "seen": ["2026-03-01T12:00:00Z"],
        "days": ["2026-03-01"],
        "whole": [1.0, None],
        "items": [{"sku": "a", "n": 1, "of": {"name": "x"}}, {"sku": "b"}],
    },
    {"tags": [], "codes": None, "seen": ["2026-03-01T12:00:00.5Z", "2026-03-02T12:00:00Z"], "items": []},
    {"tags": None, "scores": [3], "items": None},
]
LIST_KINDS = {
    "tags": "list of string",
    "codes": "list of int",
    "scores": "list of float",
    "on": "list of bool",
    "seen": "list of timestamp",
    "days": "list of string",
    "whole": "list of int",
    "items.sku": "list of string",
    "items.n": "list of int",
    "items.of.name": "list of string",
}


def test_lists_of_every_kind_and_of_objects() -> None:
    found = cc.infer_space(LISTS)
    assert kinds(found.space) == LIST_KINDS
    assert found.notes == {
        "days": "dates without a time are text",
        "items.sku": "is in a list of objects",
        "items.n": "is in a list of objects",
        "items.of.name": "is in a list of objects",
    }
    assert len(cc.EventBatch.from_dicts(found.space, LISTS)) == 3


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_lists_in_files(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"orders.{ending}"
    if ending == "parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(LISTS), path)
    else:
        path.write_text("".join(json.dumps(each) + "\n" for each in LISTS))
    expected = {**LIST_KINDS, "whole": "list of float"} if ending == "parquet" else LIST_KINDS
    run = CliRunner().invoke(app, ["space", str(path), "--out", f"{tmp_path}/orders.toml"])
    assert run.exit_code == 0, run.output
    space = cc.Space.load(tmp_path / "orders.toml")
    assert kinds(space) == expected, "what Parquet declares is kept"
    assert len(cc.read_events(path, space)) == 3
    (tmp_path / "orders.toml").unlink()


def test_lists_that_cannot_be_attributes_say_why() -> None:
    events = [
        {
            "empty": [],
            "nulls": [None],
            "nested": [[1]],
            "either": [1],
            "large": [2**70],
            "raw": [b"x"],
            "items": [{"inner": ["a"], "gone": None}],
            "part": [1, {"x": 1}],
            "id": 1,
        },
        {"empty": [], "either": 5},
    ]
    found = cc.infer_space(events)
    assert kinds(found.space) == {"id": "int", "part.x": "list of int"}
    assert {name: note for name, note in found.notes.items() if name != "part.x"} == {
        "empty": "is an empty list in every event that was looked at",
        "nulls": "has nothing but nulls in every event that was looked at",
        "nested": "is a list of lists",
        "either": "is 1 list and 1 int",
        "large": "is a list, and is 1 int beyond 64 bits",
        "raw": f"is a list of bytes, but {KINDS_SAID}",
        "items.inner": "is a list inside a list of objects",
        "items.gone": "has nothing but nulls in every event that was looked at",
        "part": "is a list of 1 int and 1 object",
    }


def test_mixed_lists_are_told_and_the_rest_is_read() -> None:
    events = [{"codes": [1, 2]}, {"codes": [3, "x"]}, {"items": {"sku": "a"}}, {"items": [{"sku": "b"}, {"sku": "c"}]}]
    found = cc.infer_space(events)
    assert kinds(found.space) == {"codes": "list of int", "items.sku": "list of string"}
    assert found.notes["codes"].startswith("mixed: 3 int, and 1 string, which will not fit")
    assert found.notes["items.sku"].startswith(
        "mixed: is in a list of objects, and 1 string outside of one, which will not fit"
    )
    batch = cc.EventBatch.from_dicts(found.space, events, on_error="absent")
    assert batch.to_dicts() == [{"codes": [1, 2]}, {}, {}, {"items.sku": ["b", "c"]}]
    assert [each.attribute for each in batch.left_out] == ["codes", "items.sku"]


def test_lists_of_arrow_pandas_and_json_schema() -> None:
    table = pa.table(
        {
            "fixed": pa.array([[1, 2], None], pa.list_(pa.int32(), 2)),
            "view": pa.array([["a"], None], pa.list_view(pa.string())),
            "words": pa.array([["a"], None], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
            "stamps": pa.array([["2026-03-01T12:00:00Z"], None]),
            "deep": pa.array([[[1]], None]),
            "items": pa.array([[{"sku": "a", "inner": [1]}], None]),
            "money": pa.array([[], []], pa.list_(pa.decimal128(10, 2))),
        }
    )
    expected = {
        "fixed": "list of int",
        "view": "list of string",
        "words": "list of string",
        "stamps": "list of timestamp",
        "items.sku": "list of string",
    }
    found = cc.infer_space(table)
    assert kinds(found.space) == expected
    assert found.notes == {
        "deep": "is a list of lists",
        "items.inner": "is a list inside a list of objects",
        "money": "is list<item: decimal128(10, 2)>; cast it first",
    }
    assert len(cc.EventBatch.from_arrow(found.space, table, unknown="ignore")) == 2
    assert kinds(cc.Space.infer(table.schema)) == {**expected, "stamps": "list of string"}
    frame = pd.DataFrame({"tags": [["a"], None, []], "codes": [[1], [2, 3], None], "items": [[{"n": 1}], [], None]})
    assert kinds(cc.Space.infer(frame)) == {"tags": "list of string", "codes": "list of int", "items.n": "list of int"}
    words = {"type": "array", "items": {"type": "string"}}
    schema = {
        "type": "object",
        "properties": {
            "tags": words,
            "codes": {"type": ["array", "null"], "items": {"type": ["integer", "null"]}},
            "seen": {"type": "array", "items": {"type": "string", "format": "date-time"}},
            "items": {"type": "array", "items": {"properties": {"sku": {"type": "string"}, "inner": words}}},
            "any": {"type": "array"},
            "deep": {"type": "array", "items": words},
        },
    }
    found = cc.infer_space(schema)
    assert kinds(found.space) == {
        "tags": "list of string",
        "codes": "list of int",
        "seen": "list of timestamp",
        "items.sku": "list of string",
    }
    assert found.notes == {
        "items.inner": "is a list inside a list of objects",
        "any": "is an array of anything",
        "deep": "is a list of lists",
    }
