"""What users bring gets in: timestamps as the world writes them, whole floats, gaps, unknown fields, files in pieces.

Each word (`unknown`, `on_error`, `nan`, `finer`, `epoch`) means the same in every way in; a parametrised test per word says so.
"""

import gzip
import io
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import contentcast as cc
from contentcast.model import from_json_lines

ORDERS = cc.Space(
    "orders",
    {"id": "string", "count": "int", "price": cc.Attribute("float", low=0), "at": "timestamp", "user.country": "string"},
)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_S = 1_772_366_400


def from_parquet(space: cc.Space, events: list[dict[str, Any]], tmp: Path, **how: Any) -> cc.EventBatch:
    pa.parquet.write_table(pa.Table.from_pylist(events), tmp / "events.parquet")
    return cc.read_events(tmp / "events.parquet", space, **how)


def from_file(space: cc.Space, events: list[dict[str, Any]], tmp: Path, **how: Any) -> cc.EventBatch:
    (tmp / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events))
    return cc.read_events(tmp / "events.jsonl", space, **how)


def from_csv(space: cc.Space, events: list[dict[str, Any]], tmp: Path, **how: Any) -> cc.EventBatch:
    pd.DataFrame(events).to_csv(tmp / "events.csv", index=False, na_rep="nan" if "nan" in how else "")
    return cc.read_events(tmp / "events.csv", space, **how)


WAYS: dict[str, Callable[..., cc.EventBatch]] = {
    "dicts": lambda space, events, tmp, **how: cc.EventBatch.from_dicts(space, events, **how),
    "arrow": lambda space, events, tmp, **how: cc.EventBatch.from_arrow(space, pa.Table.from_pylist(events), **how),
    "pandas": lambda space, events, tmp, **how: cc.EventBatch.from_pandas(space, pd.DataFrame(events), **how),
    "json": from_file,
    "many lines": lambda space, events, tmp, **how: from_file(space, events * 50, tmp, **how).slice(0, len(events)),
    "csv": from_csv,
    "parquet": from_parquet,
}


@pytest.fixture(params=WAYS)
def way(request, tmp_path: Path) -> Callable[..., cc.EventBatch]:
    return lambda events, **how: WAYS[request.param](ORDERS, events, tmp_path, **how)


@pytest.mark.parametrize(
    "written",
    [
        "2026-03-01T12:00:00Z",
        "2026-03-01T12:00:00.000Z",
        "2026-03-01 12:00",
        "2026-03-01T13:00:00.000000+01:00",
        "2026-03-01t12:00:00z",
        "20260301T120000Z",
        NOON_S,
        NOON_S * 1000,
        NOON_S * 10**6,
        NOON_S * 10**9,
        float(NOON_S),
    ],
)
def test_a_timestamp_as_texts_and_numbers_write_it(way, written: Any) -> None:
    assert way([{"id": "a", "at": written}, {"id": "b", "at": written}]).to_dicts()[1] == {"id": "b", "at": NOON}


def test_a_number_means_what_the_caller_says(way) -> None:
    assert way([{"at": 1000}], epoch="ms").to_dicts() == [{"at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}]
    assert way([{"at": 1000}], epoch="guess").to_dicts() == [{"at": datetime(1970, 1, 1, 0, 16, 40, tzinfo=UTC)}]
    with pytest.raises(cc.EventError, match="timestamp"):
        way([{"at": 1000}], epoch="error")


def test_a_finer_timestamp_is_rounded_only_when_asked(way) -> None:
    finer = [{"at": "2026-03-01T11:59:59.9999996Z"}, {"at": "2026-03-01T12:00:00.0000004Z"}]
    with pytest.raises(cc.EventError, match="finer than a microsecond; finer='round' takes the nearest"):
        way(finer)
    assert way(finer, finer="round").to_dicts() == [{"at": NOON}] * 2


def test_nanoseconds_of_arrow_pandas_and_numbers_are_rounded_alike() -> None:
    ticks = [NOON_S * 10**9 - 500, NOON_S * 10**9 + 499, -1_500, -1_501]
    column = pa.array(ticks, pa.timestamp("ns"))
    by_column = cc.EventBatch.from_arrow(ORDERS, pa.table({"at": column}), finer="round").to_dicts()
    assert by_column[:2] == [{"at": NOON}] * 2
    objects = [{"at": pd.Timestamp(each)} for each in ticks]
    assert [each["at"].microsecond for each in by_column] == [0, 0, 999_999, 999_998]
    assert cc.EventBatch.from_dicts(ORDERS, objects[:2], finer="round").to_dicts() == by_column[:2]
    numbers = cc.EventBatch.from_arrow(ORDERS, pa.table({"at": ticks}), finer="round", epoch="ns").to_dicts()
    assert (
        numbers
        == by_column
        == [cc.EventBatch.from_dicts(ORDERS, [{"at": each}], finer="round", epoch="ns").to_dicts()[0] for each in ticks]
    )


def test_nan_is_absent_when_asked(way) -> None:
    events = [{"id": "a", "price": math.nan, "count": 1}, {"id": "b", "price": 2.0, "count": 2}]
    assert way(events, nan="absent").to_dicts() == [{"id": "a", "count": 1}, {"id": "b", "price": 2.0, "count": 2}]


def test_a_whole_float_is_an_int_and_another_is_not(way) -> None:
    assert way([{"count": 5.0}, {"count": -0.0}]).to_dicts() == [{"count": 5}, {"count": 0}]
    with pytest.raises(cc.EventError, match=r"event 1.*attribute count: 5\.5 is a float, not an int"):
        way([{"count": 5.0}, {"count": 5.5}])


def test_pandas_ints_with_gaps() -> None:
    frame = pd.DataFrame({"count": [1, None, 3]})
    assert frame["count"].dtype == np.float64
    assert cc.EventBatch.from_pandas(ORDERS, frame).to_dicts() == [{"count": 1}, {}, {"count": 3}]


def test_null_is_absent_everywhere(way) -> None:
    assert way([{"id": "a", "count": None, "price": 1.5}]).to_dicts() == [{"id": "a", "price": 1.5}]


# --- what does not fit


def test_a_field_that_the_space_does_not_have(way) -> None:
    events = [{"id": "a", "prise": 5.0}, {"id": "b", "prise": 6.0}]
    with pytest.raises(
        cc.EventError, match=r"orders has no attribute 'prise'; did you mean 'price'\? \(or pass over it: unknown='ignore'"
    ):
        way(events)
    assert way(events, unknown="ignore").to_dicts() == [{"id": "a"}, {"id": "b"}]


def test_an_attribute_that_does_not_fit_is_left_out_when_asked(way) -> None:
    batch = way([{"id": "a", "price": 5.0}, {"id": "b", "price": -1.0}, {"id": "c", "price": 7.0}], on_error="absent")
    assert batch.to_dicts() == [{"id": "a", "price": 5.0}, {"id": "b"}, {"id": "c", "price": 7.0}]
    if batch.left_out:  # a slice does not tell
        assert {(each.event, each.attribute) for each in batch.left_out} == {(1, "price")}


def test_events_have_one_number_whatever_became_of_them(way) -> None:
    batch = way(
        [{"id": "a", "price": -5.0}, {"id": "b", "price": 1.0}, {"id": "c", "price": -1.0}, {"id": "d", "price": 2.0}],
        on_error="reject",
    )
    index = cc.MatchIndex(ORDERS)
    index.add(7, "price > 1")
    if batch.rejected:  # a slice does not tell
        assert [each.event for each in batch.rejected] == [0, 2]
        assert batch.ids.to_pylist() == [1, 3]
        assert index.match_batch(batch).to_pydict() == {"event": [3], "subscription": [7]}
        assert next(index.match_stream(batch)).to_pydict() == {"event": [3], "subscription": [7]}


@pytest.mark.parametrize("word", ["on_error", "unknown", "nan", "finer", "epoch"])
def test_a_word_that_nobody_knows(way, word: str) -> None:
    with pytest.raises(cc.EventError, match=rf"{word} is '\w+' or '\w+'.*, not 'perhaps'"):
        way([{"id": "a"}], **{word: "perhaps"})
    with pytest.raises(cc.ContentcastError, match="there is no option 'unknwon'; did you mean 'unknown'"):
        way([{"id": "a"}], unknwon="ignore")


# --- files


def test_many_files_patterns_and_compression(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "1"}\n\n{"id": 2}\n')
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'{"id": "3"}\n{"id": 4}\n'))
    with pa.output_stream(str(tmp_path / "c.csv.zst"), compression="zstd") as file:
        file.write(b"id,count\n5,1\n6,x\n")
    batch = cc.read_events(f"{tmp_path}/*.*", ORDERS, on_error="reject")
    assert [each["id"] for each in batch.to_dicts()] == ["1", "3", "5"]
    assert batch.ids.to_pylist() == [0, 2, 4]
    assert [str(each).replace(str(tmp_path), "") for each in batch.rejected] == [
        "event 1 (/a.jsonl, line 3), attribute id: 2 is an int, not a string",
        "event 3 (/b.jsonl.gz, line 2), attribute id: 4 is an int, not a string",
        "event 5 (/c.csv.zst, line 3), attribute count: 'x' is not an int",
    ]
    assert len(cc.read_events([tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"], ORDERS, on_error="reject")) == 2
    with pytest.raises(cc.EventError, match=r"no file has a name like .*\*\.orc"):
        cc.read_events(tmp_path / "*.orc", ORDERS)
    (tmp_path / "d.jsonl.gz").write_bytes(b"not packed")
    with pytest.raises(cc.EventError, match=r"d\.jsonl\.gz: "):
        cc.read_events(tmp_path / "d.jsonl.gz", ORDERS)


def test_a_packed_file_takes_no_more_than_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(b'{"id": "' + b"x" * 10**7 + b'"}\n'))
    with pytest.raises(cc.EventError, match="more than 1,000,000 bytes"):
        cc.read_events(tmp_path / "bomb.jsonl.gz", ORDERS, most_bytes=10**6)


def test_standard_input(monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b'{"id": "1"}\n{"id": "2"}\n')))
    assert len(cc.read_events("-", ORDERS)) == 2


# --- an index


def test_one_event_is_taken_as_a_batch_is() -> None:
    index = cc.MatchIndex(ORDERS)
    index.add(1, "at >= TIMESTAMP '2026-03-01 12:00:00' AND count = 5")
    event = {"at": "2026-03-01T12:00:00.5Z", "count": 5.0, "user": {"country": "DE", "age": 30}, "device": "x"}
    with pytest.raises(cc.EventError, match=r"has no attribute 'user\.age'"):
        index.match(event)
    text = json.dumps(event)
    assert index.match(event, unknown="ignore") == [1]
    assert index.match_ids(event, unknown="ignore").tolist() == [1]
    assert index.match_json(text, unknown="ignore") == index.match_json(text.encode(), unknown="ignore") == [1]
    assert index.explain(event, unknown="ignore") == {"matched": [1]}
    assert index.match({**event, "count": "five"}, unknown="ignore", on_error="absent") == []
    frame = pd.DataFrame({"at": [NOON_S, NOON_S - 1], "count": [5.0, None], "device": "x"})
    assert index.match_batch(frame, unknown="ignore").to_pydict() == {"event": [0], "subscription": [1]}
    with pytest.raises(cc.EventError, match="has no attribute 'device'"):
        index.match_batch(frame)
    with pytest.raises(cc.EventError, match="could not be told"):
        index.match_batch(frame, on_error="reject")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": "a", "id": "b"}', '{"price": 1e999}', b'{"id": "\xff"}', "5"])
def test_json_that_is_no_event(text: str | bytes) -> None:
    index = cc.MatchIndex(ORDERS)
    with pytest.raises(cc.EventError, match="event 0"):
        index.match_json(text)


def test_a_misspelt_column_is_an_error_and_not_silence() -> None:
    index = cc.MatchIndex(ORDERS)
    index.add(1, "price < 5")
    table = pa.table({"prise": [1.0]})
    for match in (index.match_batch, index.match_lists, index.match_counts, lambda events: list(index.match_stream(events))):
        with pytest.raises(cc.EventError, match="did you mean 'price'"):
            match(table)
    assert index.match_batch(table, unknown="ignore").num_rows == 0


# --- by columns


def test_what_is_ignored_may_be_anything() -> None:
    lines = ['{"id": "a", "x": 1e999, "x": NaN, "y": {"y": [[]], "id": 5}, "n": ' + "9" * 500 + "}"] * 40
    assert from_json_lines(ORDERS, lines, unknown="ignore").to_dicts() == [{"id": "a"}] * 40
    assert from_json_lines(ORDERS, lines[:1], unknown="ignore").to_dicts() == [{"id": "a"}]


def test_dotted_and_nested_spellings_in_one_file() -> None:
    nested, dotted = '{"user": {"country": "DE"}}', '{"user.country": "FR"}'
    for lines in ([nested] * 40 + [dotted], [dotted] * 40 + [nested], [nested, r'{"us\u0065r.country": "FR"}'] * 20):
        for unknown in ("error", "ignore"):
            found = from_json_lines(ORDERS, lines, unknown=unknown).to_dicts()
            assert found == [from_json_lines(ORDERS, [line]).to_dicts()[0] for line in lines]
