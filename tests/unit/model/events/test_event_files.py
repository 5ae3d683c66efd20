"""Events from JSON lines, CSV and Parquet: what each writes for absent, and how a bad line is named or set aside."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from contentcast.model import Attribute, EventBatch, EventError, Space, from_json_lines, read_events

TRADES = Space(
    "trades",
    {
        "issue": "string",
        "volume": "int",
        "price": Attribute("float", low=0.0),
        "halted": "bool",
        "traded": "timestamp",
        "raw": "bytes",
        "detail.state": "string",
    },
)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def read(tmp_path):
    """Write the content to a file and read it as events."""

    def from_file(name: str, content: str | bytes, **options: Any) -> EventBatch:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_events(path, TRADES, **options)

    return from_file


def told(batch: EventBatch) -> list[str]:
    return [str(each) for each in batch.rejected]


# --- JSON lines


def test_json_lines_of_every_kind(read) -> None:
    lines = [
        {"issue": "IBM", "volume": 5, "price": 120, "halted": False},
        {"traded": "2026-03-01T13:00:00+01:00", "raw": "AP8=", "detail": {"state": "up"}},
        {"traded": "2026-03-01 12:00", "issue": None},
        {},
    ]
    batch = read("events.jsonl", "\n".join(map(json.dumps, lines)))
    assert batch.to_dicts() == [
        {"issue": "IBM", "volume": 5, "price": 120.0, "halted": False},
        {"traded": NOON, "raw": b"\x00\xff", "detail.state": "up"},
        {"traded": NOON},
        {},
    ]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("events", [[{"issue": "IBM"}, {"volume": 5}], {"issue": "IBM", "volume": 5}])
def test_json_that_is_no_json_lines_is_told_what_is_wanted(read, events: object, indent: int | None) -> None:
    """One array, or one object over several lines, as many programs write it."""
    content = json.dumps(events, indent=indent)
    if isinstance(events, dict) and indent is None:
        assert read("events.json", content).to_dicts() == [events]
        return
    with pytest.raises(EventError, match="JSON lines are wanted, one object a line"):
        read("events.json", content)
    assert "JSON lines are wanted" not in str(read("events.json", '{"volume": 1\n', on_error="reject").rejected[0])


@pytest.mark.parametrize("name", ["events.jsonl", "events.ndjson", "events.json", "EVENTS.JSONL"])
def test_json_lines_under_all_their_endings(read, name: str) -> None:
    assert read(name, b'\xef\xbb\xbf{"volume": 1}\r\n\r\n{"issue": "a\xe2\x80\xa8b"}\r\n').to_dicts() == [
        {"volume": 1},
        {"issue": "a\u2028b"},
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"volume": 1', "not JSON: Expecting ',' delimiter at column 13"),
        ("5", "5 is not an object with attributes"),
        ("null", "null is not an object with attributes"),
        ('["\\ud800", null]', r'["\ud800", null] is not an object with attributes; JSON lines are wanted'),
        ('{"issue": [null]}', "attribute issue: [null] is a list, not a string"),
        ('{"volume": 1.5}', "attribute volume: 1.5 is a float, not an int"),
        ('{"volume": 1e-3}', "attribute volume: 0.001 is a float, not an int"),
        ('{"volume": "5"}', "attribute volume: '5' is a string, not an int"),
        ('{"volume": 9223372036854775808}', "attribute volume: 9223372036854775808 is beyond 64 bits"),
        ('{"volume": ' + "9" * 5000 + "}", "99999999999999999999... is beyond every number here: 5000 digits"),
        ('{"volume": 1, "volume": 2}', "volume is given twice"),
        ('{"detail": {"state": "up", "state": "down"}}', "state is given twice"),
        ('{"price": NaN}', "attribute price: NaN is not a value; leave the attribute out if it is unknown"),
        ('{"price": 1e999}', "1e999 is beyond the range of a float"),
        ('{"price": 9007199254740993}', "attribute price: 9007199254740993 has no exact float"),
        ('{"price": -1}', "attribute price: -1 is outside the domain from 0.0"),
        ('{"price": true}', "attribute price: True is a bool, not a float"),
        ('{"halted": "true"}', "attribute halted: 'true' is a string, not a bool"),
        ('{"issue": "\\ud800"}', "attribute issue: '\\ud800' holds a lone surrogate"),
        ('{"traded": true}', "True is a bool, not a timestamp"),
        ('{"traded": "noon"}', "'noon' is not a timestamp; write it as '2026-03-01T12:00:00Z'"),
        ('{"traded": "2026-03-01T12:00:00.1234567Z"}', "is finer than a microsecond"),
        ('{"traded": "2026-03-01T12:00:00,1234567Z"}', "is finer than a microsecond"),
        ('{"traded": "0001-01-01T00:00:00+01:00"}', "is outside the years 1 to 9999 in UTC"),
        ('{"raw": "no!"}', "attribute raw: 'no!' is not base64"),
        ('{"raw": "é"}', "attribute raw: 'é' is not base64"),
        ('{"raw": 5}', "5 is an int, not bytes; write them in base64"),
        ('{"isue": "IBM"}', "attribute isue: trades has no attribute 'isue'; did you mean 'issue'?"),
        ("[" * 100_000, "nested too deeply"),
        ('{"detail":' * 5000 + "1" + "}" * 5000, "nested too deeply"),
    ],
    ids=lambda each: each[:40],
)
def test_a_json_line_that_is_no_event(read, line: str, says: str) -> None:
    with pytest.raises(EventError) as caught:
        read("events.jsonl", line)
    assert says in str(caught.value)
    assert "events.jsonl: event 0 (line 1)" in str(caught.value)
    assert len(read("events.jsonl", line, on_error="reject").rejected) == 1


def test_trailing_zeros_of_a_second_lose_nothing() -> None:
    (event,) = from_json_lines(TRADES, ['{"traded": "2026-03-01T12:00:00.000000000Z"}']).to_dicts()
    assert event == {"traded": NOON}


def test_infinity_is_a_value_when_it_is_written_as_one() -> None:
    assert from_json_lines(TRADES, ['{"price": Infinity}']).to_dicts() == [{"price": math.inf}]


def test_bad_lines_are_set_aside_in_their_order_and_ids_count_every_event_given() -> None:
    lines = ['{"volume": 1}', "", "not json", '{"volume": "x"}', '{"volume": 2}', "[]", '{"volume": 3}']
    batch = from_json_lines(TRADES, lines, on_error="reject")
    assert batch.to_dicts() == [{"volume": 1}, {"volume": 2}, {"volume": 3}]
    assert batch.ids.to_pylist() == [0, 3, 5]
    assert [(each.event, each.line) for each in batch.rejected] == [(1, 3), (2, 4), (4, 6)]
    assert batch.rejected[0].value == "not json"


def test_bytes_that_are_not_utf8_spoil_their_line_only(read) -> None:
    batch = read("events.jsonl", b'{"issue": "\xff"}\n{"issue": "ok"}\n', on_error="reject")
    assert batch.to_dicts() == [{"issue": "ok"}]
    assert "attribute issue" in told(batch)[0]


# --- CSV


def test_csv_of_every_kind_where_an_empty_field_is_absent_and_a_quoted_one_is_not(read) -> None:
    batch = read(
        "events.csv",
        "issue,volume,price,halted,traded,raw,detail.state\n"
        "IBM,5,120,true,2026-03-01T12:00:00Z,AP8=,up\n"
        '"",,,,,"",\n'
        ",,,,,,\n"
        '"a ""b"", c",-1,1e-3,FALSE,2026-03-01 12:00,,"two\nlines"\n',
    )
    assert batch.to_dicts() == [
        {"issue": "IBM", "volume": 5, "price": 120.0, "halted": True, "traded": NOON, "raw": b"\x00\xff", "detail.state": "up"},
        {"issue": "", "raw": b""},
        {},
        {"issue": 'a "b", c', "volume": -1, "price": 0.001, "halted": False, "traded": NOON, "detail.state": "two\nlines"},
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"issue,volume\r\nIBM,5\r\n",
        b"issue,volume\rIBM,5\r",
        b"\xef\xbb\xbfissue,volume\nIBM,5",
        b'"issue","volume"\n"IBM","5"\n',
        b"\n\nissue,volume\n\nIBM,5\n\n",
        b"volume,issue\n5,IBM\n",
        b"issue,volume\nIBM, 5 \n",
    ],
)
def test_csv_as_other_programs_write_it(read, content: bytes) -> None:
    assert read("events.csv", content).to_dicts() == [{"issue": "IBM", "volume": 5}]


@pytest.mark.parametrize("content", ["issue,volume", "issue,volume\n", "\nissue,volume\n\n"])
def test_a_header_alone_is_no_events(read, content: str) -> None:
    assert len(read("events.csv", content)) == 0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "the file is empty; its first line names the attributes"),
        ("\n\n", "the file is empty"),
        ("isue\nIBM\n", "trades has no attribute 'isue'; did you mean 'issue'?"),
        ("issue,issue\nIBM,SAP\n", "the column issue comes twice; rename or drop one"),
        ("issue, volume\nIBM,5\n", "trades has no attribute ' volume'; did you mean 'volume'?"),
    ],
)
def test_a_header_that_does_not_fit_refuses_the_file(read, content: str, says: str) -> None:
    for on_error in ("raise", "reject"):
        with pytest.raises(EventError) as caught:
            read("events.csv", content, on_error=on_error)
        assert says in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("volume", "1.5", "1.5 is a float, not an int"),
        ("volume", "1_000", "'1_000' is not an int"),
        ("volume", "٣", "'٣' is not an int"),
        ("volume", "0x1F", "'0x1F' is not an int"),
        ("volume", "9223372036854775808", "9223372036854775808 is beyond 64 bits"),
        ("volume", "9" * 5000, "is beyond every number here: 5000 digits"),
        ("volume", '""', "'' is not an int"),
        ("price", "1_000", "'1_000' is not a float"),
        ("price", "1,5", "3 fields under a header of 2"),
        ("price", '"1,5"', "'1,5' is not a float"),
        ("price", "1e999", "1e999 is beyond the range of a float"),
        ("price", "nan", "NaN is not a value"),
        ("price", "-1", "-1.0 is outside the domain from 0.0"),
        ("halted", "1", "'1' is not a bool"),
        ("halted", "yes", "'yes' is not a bool"),
        ("traded", "1772366400000000000000000", "is outside the years 1 to 9999"),
        ("traded", '"2026-03-01T12:00:00,1234567Z"', "is finer than a microsecond"),
        ("raw", "no!", "'no!' is not base64"),
    ],
)
def test_a_field_that_is_no_value(read, name: str, text: str, says: str) -> None:
    content = f"issue,{name}\nok,\nbad,{text}\nok,\n"
    with pytest.raises(EventError) as caught:
        read("events.csv", content)
    assert "events.csv: event 1 (line 3)" in str(caught.value)
    assert says in str(caught.value)
    batch = read("events.csv", content, on_error="reject")
    assert batch.to_dicts() == [{"issue": "ok"}] * 2
    assert batch.ids.to_pylist() == [0, 2]
    assert [(each.event, each.line) for each in batch.rejected] == [(1, 3)]


def test_numbers_that_csv_may_write(read) -> None:
    batch = read("events.csv", "volume,price\n+5,.5\n007,5.\n-0,1E+2\n,inf\n")
    assert batch.to_dicts() == [
        {"volume": 5, "price": 0.5},
        {"volume": 7, "price": 5.0},
        {"volume": 0, "price": 100.0},
        {"price": math.inf},
    ]


def test_events_are_named_by_their_line_whatever_lies_between(read) -> None:
    """Empty lines count, and so do the lines inside of quotes: it is the line that an editor shows."""
    content = 'issue,volume\n"two\nlines",1\n\nshort\nlong,1,2\n"three\r\n\r\nlines",x\nlast,y\nok,2\n'
    batch = read("events.csv", content, on_error="reject")
    assert batch.to_dicts() == [{"issue": "two\nlines", "volume": 1}, {"issue": "ok", "volume": 2}]
    assert batch.ids.to_pylist() == [0, 5]
    assert told(batch) == [
        "event 1 (line 5): 1 field under a header of 2",
        "event 2 (line 6): 3 fields under a header of 2",
        "event 3 (line 7), attribute volume: 'x' is not an int",
        "event 4 (line 10), attribute volume: 'y' is not an int",
    ]


def test_a_csv_field_that_is_not_utf8_spoils_its_line_only(read) -> None:
    batch = read("events.csv", b"issue,volume\n\xff,1\nok,2\n", on_error="reject")
    assert batch.to_dicts() == [{"issue": "ok", "volume": 2}]
    assert told(batch) == [r"event 0 (line 2), attribute issue: b'\xff' is not UTF-8 text"]


def test_a_long_csv_field_is_read(read) -> None:
    """Python's csv stops at 131,072 characters unless told otherwise."""
    assert read("events.csv", f"issue\n{'x' * 200_000}\n").to_dicts() == [{"issue": "x" * 200_000}]


def test_a_quote_that_is_never_closed_is_one_bad_line(read) -> None:
    batch = read("events.csv", 'issue,volume\nok,1\n"open,2\n', on_error="reject")
    assert batch.to_dicts() == [{"issue": "ok", "volume": 1}]
    assert [each.split(",")[0] for each in told(batch)] == ["event 1 (line 3): a quote is opened here and never closed"]


# --- Parquet


def test_parquet_keeps_kinds_and_nested_columns(tmp_path) -> None:
    path = tmp_path / "events.parquet"
    detail = pa.array([{"state": "up"}, None])
    pyarrow.parquet.write_table(pa.table({"volume": pa.array([1, None], pa.int16()), "detail": detail}), path)
    assert read_events(path, TRADES).to_dicts() == [{"volume": 1, "detail.state": "up"}, {}]


def test_a_folder_of_parquet_as_spark_writes_it(tmp_path) -> None:
    folder = tmp_path / "events.parquet"
    folder.mkdir()
    for part in range(2):
        pyarrow.parquet.write_table(pa.table({"volume": [part]}), folder / f"part-{part}.parquet")
    (folder / "_SUCCESS").touch()
    assert sorted(event["volume"] for event in read_events(folder, TRADES).to_dicts()) == [0, 1]


def test_parquet_rows_are_set_aside_too(tmp_path) -> None:
    path = tmp_path / "events.parquet"
    pyarrow.parquet.write_table(pa.table({"price": [1.0, -1.0, math.nan, None]}), path)
    batch = read_events(path, TRADES, on_error="reject")
    assert batch.ids.to_pylist() == [0, 3]
    assert [each.event for each in batch.rejected] == [1, 2]
    with pytest.raises(EventError, match=r"events\.parquet: event 1, attribute price: -1\.0 is below the domain's 0\.0"):
        read_events(path, TRADES)


# --- files that are none


@pytest.mark.parametrize("name", ["events.parquet", "events.csv"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"PAR1" + b"x" * 20 + b"PAR1", b"\0" * 100])
def test_garbage_is_refused_as_an_event_error(read, name: str, content: bytes) -> None:
    with pytest.raises(EventError, match=name):
        read(name, content)


def test_a_file_that_is_not_there_has_no_ending_or_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(EventError, match="there is no event file"):
        read_events(tmp_path / "none.csv", TRADES)
    with pytest.raises(EventError, match=r"events come as \.parquet, \.csv or \.jsonl, not \.txt"):
        read_events(tmp_path / "events.txt", TRADES)
    with pytest.raises(EventError, match="not without an ending"):
        read_events(tmp_path / "events", TRADES)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(EventError, match="Is a directory"):
        read_events(tmp_path / "folder.csv", TRADES)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_every_format_gives_the_same_batch(tmp_path: Path, ending: str) -> None:
    events = [{"issue": "IBM", "volume": 5, "price": 0.1}, {"issue": "", "halted": True}, {"price": 1e300}]
    batch = EventBatch.from_dicts(TRADES, events)
    path = tmp_path / f"events.{ending}"
    if ending == "jsonl":
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
    elif ending == "csv":
        path.write_text('issue,volume,price,halted\nIBM,5,0.1,\n"",,,true\n,,1e300,\n')
    else:
        pyarrow.parquet.write_table(pa.Table.from_batches([batch.records]), path)
    assert read_events(path, TRADES) == batch
