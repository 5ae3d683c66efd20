"""Events and files from strangers: what is no event is refused with its name, soon, and within a stated memory."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contentcast.language import parse_predicate
from contentcast.matching import Scan
from contentcast.model import ContentcastError, EventBatch, EventError, Space, SpaceError, from_json_lines, read_events
from contentcast.model.events import event_files
from contentcast.model.events.rows import DEEPEST
from contentcast.model.space import Attribute

TRADES = Space("trades", {"issue": "string", "price": "float", "volume": "int", "detail.state": "string"})


def refused(lines: list[str], space: Space = TRADES) -> list[str]:
    return [str(each) for each in from_json_lines(space, lines, on_error="reject").rejected]


# --- JSON


def test_names_that_come_twice_are_found_by_looking_at_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    from contentcast.model.plain_files import once

    names = [Counted(f"a{number}") for number in range(20_000)]
    with pytest.raises(ValueError, match="a19999 is given twice"):
        once([(name, 1) for name in [*names, Counted("a19999")]])
    assert Counted.compared < 100_000
    assert "price is given twice" in refused(['{"price": 1, "price": 2}'])[0]


@pytest.mark.parametrize("deep", [DEEPEST + 1, 900, 10_000, 100_000])
def test_events_nested_without_end_are_refused_each_by_itself(deep: int) -> None:
    lines = ['{"a":' * deep + "1" + "}" * deep, "[" * deep + "]" * deep, '{"price": 1}', '{"issue": ' + "[" * deep]
    batch = from_json_lines(TRADES, lines, on_error="reject")
    assert len(batch) == 1
    assert all("nested too deeply, at column" in each.reason for each in batch.rejected)
    text = json.dumps({"issue": "{" * deep, "price": 1.0})
    assert len(from_json_lines(TRADES, [text])) == 1


def test_python_values_nested_without_end() -> None:
    nested: Any = {}
    for _ in range(5_000):
        nested = {"detail": nested}
    row: Any = []
    for _ in range(100_000):
        row = [row]
    batch = EventBatch.from_dicts(TRADES, [nested, row, {"issue": row}, {"detail": {"state": "up"}}], on_error="reject")
    assert batch.to_dicts() == [{"detail.state": "up"}]
    assert len(batch.rejected) == 3


@pytest.mark.parametrize("digits", [400, 5_000, 100_000])
def test_ints_of_thousands_of_digits_are_an_error_of_that_event(digits: int) -> None:
    number = "9" * digits
    texts = [f'{{"volume": {number}}}', f'{{"price": {number}}}', f'{{"issue": {number}}}', number, '{"volume": 1}']
    found = from_json_lines(TRADES, texts, on_error="reject")
    assert len(found) == 1
    assert all(len(str(each)) < 1_000 for each in found.rejected)
    huge = 10**digits
    again = EventBatch.from_dicts(
        TRADES, [{"volume": huge}, {"price": huge}, {"issue": huge}, huge, {"volume": 1}], on_error="reject"
    )
    assert len(again) == 1
    assert [each.event for each in again.rejected] == [0, 1, 2, 3]
    assert "beyond 64 bits" in again.rejected[0].reason


# --- bytes that are no text


def test_columns_whose_names_are_not_text(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"issue": ["IBM"]}), path)
    path.write_bytes(path.read_bytes().replace(b"issue", b"iss\xff\xfe"))
    with pytest.raises(EventError, match=r"UTF-8|not UTF|Couldn't|metadata"):
        read_events(path, TRADES)


def test_values_that_are_not_text() -> None:
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"IBM", b"\xff\xfe"]).buffers())
    for column in (broken, broken.dictionary_encode(), broken.cast(pa.large_string(), safe=False)):
        batch = EventBatch.from_arrow(TRADES, pa.table({"issue": column}), on_error="reject")
        assert batch.to_dicts() == [{"issue": "IBM"}]
        assert "not UTF-8" in batch.rejected[0].reason


# --- CSV


def test_a_quote_that_is_never_closed_is_named_and_what_stands_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text('issue,price\nIBM,1\n"two\nlines",2\nSAP,"3\nHP,4\nMSFT,5\n')
    with pytest.raises(EventError, match=r"event 2 \(line 5\): a quote is opened here and never closed"):
        read_events(path, TRADES)
    batch = read_events(path, TRADES, on_error="reject")
    assert [each["issue"] for each in batch.to_dicts()] == ["IBM", "two\nlines"]
    assert [each.line for each in batch.rejected] == [5]
    path.write_text('issue,price\n"IBM,1\n')
    assert [each.line for each in read_events(path, TRADES, on_error="reject").rejected] == [2]
    path.write_text('"issue,price\nIBM,1\n')
    with pytest.raises(EventError, match="a quote in the header is never closed"):
        read_events(path, TRADES)


def test_a_quote_that_is_closed_at_the_very_end(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text('issue,price\n"5"" disk",1\n"IBM",2')
    assert [each["issue"] for each in read_events(path, TRADES).to_dicts()] == ['5" disk', "IBM"]


def test_records_with_too_many_fields_that_are_not_text_either(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(b'issue,price\nIBM,1\nbad\xff,1,2\n"a\nb",3\nw\xfe,4\nSAP\nHP,5\n')
    batch = read_events(path, TRADES, on_error="reject")
    assert [each["price"] for each in batch.to_dicts()] == [1.0, 3.0, 5.0]
    assert [(each.line, each.reason) for each in batch.rejected] == [
        (3, "3 fields under a header of 2"),
        (6, r"b'w\xfe' is not UTF-8 text"),
        (7, "1 field under a header of 2"),
    ]
    assert capfd.readouterr().err == ""


# --- size


def test_a_small_parquet_file_of_gigabytes_is_refused_before_it_is_unfolded(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 200_000, pa.int32()), pa.array(["x" * 20_000]))
    pq.write_table(pa.table({"issue": column}), path)
    assert path.stat().st_size < 500_000
    before = pa.total_allocated_bytes()
    with pytest.raises(EventError, match=r"its events take more than 1,073,741,824 bytes; more are taken with most_bytes="):
        read_events(path, TRADES)
    assert pa.total_allocated_bytes() - before < 2**28
    pq.write_table(pa.table({"issue": column.slice(0, 10)}), path)
    assert len(read_events(path, TRADES)) == 10
    with pytest.raises(EventError, match="most_bytes="):
        read_events(path, TRADES, most_bytes=100_000)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_how_many_events_a_file_may_have_is_said(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"events.{ending}"
    if ending == "parquet":
        pq.write_table(pa.table({"issue": ["IBM"] * 5}), path)
    else:
        path.write_text("issue\n" + "IBM\n" * 5 if ending == "csv" else '{"issue": "IBM"}\n' * 5)
    assert len(read_events(path, TRADES, most_rows=5)) == 5
    with pytest.raises(EventError, match="most_rows="):
        read_events(path, TRADES, most_rows=4)
    with pytest.raises(EventError, match="most_bytes="):
        read_events(path, TRADES, most_bytes=10)


def test_strings_that_come_in_several_row_groups_with_dictionaries_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    names = [f"name-{number % 700}" for number in range(40_000)]
    structs = pa.array([{"state": each} for each in names])
    pq.write_table(pa.table({"issue": names, "detail": structs}), path, row_group_size=9_000)
    batch = read_events(path, TRADES)
    assert batch.records.column("issue").to_pylist() == names
    assert batch.records.column("detail.state").to_pylist() == names


# --- what is no file


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_pipes_and_devices_are_refused_with_a_sentence(tmp_path: Path, ending: str) -> None:
    pipe = tmp_path / f"events.{ending}"
    os.mkfifo(pipe)
    with pytest.raises(EventError, match="is a pipe, not a file; write what comes from it into a file first"):
        read_events(pipe, TRADES)
    endless = tmp_path / f"endless.{ending}"
    endless.symlink_to("/dev/zero")
    with pytest.raises(EventError, match="is a device, not a file"):
        read_events(endless, TRADES)


def test_a_space_is_no_pipe_and_has_each_attribute_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "space.json")
    with pytest.raises(SpaceError, match="is a pipe, not a file"):
        Space.load(tmp_path / "space.json")
    twice = tmp_path / "twice.json"
    twice.write_text('{"name": "trades", "attributes": {"price": "float", "price": "int"}}')
    with pytest.raises(SpaceError, match="price is given twice"):
        Space.load(twice)
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    with pytest.raises(SpaceError):
        Space.load(deep)


# --- one rule for domains and years, at every entrance

LEVELS = Space(
    "levels", {"level": Attribute("int", low=1, high=10), "at": "timestamp", "colour": Attribute("string", values=["red"])}
)
BEYOND_US = 253_402_300_800_000_000
US = pa.timestamp("us", tz="UTC")


def _parquet(table: pa.Table, folder: Path) -> EventBatch:
    pq.write_table(table, folder / "events.parquet")
    return read_events(folder / "events.parquet", LEVELS)


ENTRANCES: dict[str, Callable[[Path], EventBatch]] = {
    "dicts, int": lambda folder: EventBatch.from_dicts(LEVELS, [{"level": 50}]),
    "dicts, string": lambda folder: EventBatch.from_dicts(LEVELS, [{"colour": "blue"}]),
    "JSON, int": lambda folder: from_json_lines(LEVELS, ['{"level": 0}']),
    "JSON, year": lambda folder: from_json_lines(LEVELS, ['{"at": "10000-01-01T00:00:00Z"}']),
    "JSON, year by its zone": lambda folder: from_json_lines(LEVELS, ['{"at": "9999-12-31T23:59:59-01:00"}']),
    "Arrow, int": lambda folder: EventBatch.from_arrow(LEVELS, pa.table({"level": pa.array([50], pa.int8())})),
    "Arrow, string": lambda folder: EventBatch.from_arrow(LEVELS, pa.table({"colour": pa.array(["blue"]).dictionary_encode()})),
    "Arrow, year, us": lambda folder: EventBatch.from_arrow(LEVELS, pa.table({"at": pa.array([BEYOND_US], US)})),
    "Arrow, year, ms": lambda folder: EventBatch.from_arrow(
        LEVELS, pa.table({"at": pa.array([BEYOND_US // 1000], pa.timestamp("ms"))})
    ),
    "Arrow, year, s": lambda folder: EventBatch.from_arrow(LEVELS, pa.table({"at": pa.array([2**62], pa.timestamp("s"))})),
    "Arrow, before year 1": lambda folder: EventBatch.from_arrow(LEVELS, pa.table({"at": pa.array([-BEYOND_US], US)})),
    "pandas, int": lambda folder: EventBatch.from_pandas(LEVELS, pd.DataFrame({"level": [50]})),
    "pandas, objects": lambda folder: EventBatch.from_pandas(LEVELS, pd.DataFrame({"level": pd.Series([50], dtype=object)})),
    "Parquet, int": lambda folder: _parquet(pa.table({"level": [50]}), folder),
    "Parquet, year": lambda folder: _parquet(pa.table({"at": pa.array([BEYOND_US], US)}), folder),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_every_entrance_refuses_what_lies_outside_a_domain_or_the_years(entrance: str, tmp_path: Path) -> None:
    with pytest.raises(EventError, match=r"domain|not one of|years 1 to 9999|not a timestamp"):
        ENTRANCES[entrance](tmp_path)


def test_the_last_moment_is_one() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert EventBatch.from_dicts(LEVELS, [{"at": last}]).to_dicts() == [{"at": last}]
    assert EventBatch.from_arrow(LEVELS, pa.table({"at": pa.array([BEYOND_US - 1], US)})).to_dicts() == [{"at": last}]
    assert sys.getrecursionlimit() >= 1_000


def test_the_oracle_refuses_it_too() -> None:
    """Before, it matched an event that no index takes."""
    scan = Scan(LEVELS)
    scan.add(1, parse_predicate(LEVELS, "level > 3"))
    assert scan.match({"level": 5}) == [1]
    for event in ({"level": 50}, {"level": "five"}, {"lvl": 5}):
        with pytest.raises(EventError):
            scan.match(event)


def test_a_line_of_many_blocks_is_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Added piece by piece, a line of a gigabyte took over 17 s."""
    monkeypatch.setattr(event_files, "BLOCK_BYTES", 4)
    content = b'\xef\xbb\xbf{"issue": "' + b"x" * 5_000 + b'"}\r\n\n{"price": 1}\n{"volume": 2}'
    blocks = list(event_files.line_blocks(io.BytesIO(content), 10_000))
    lines = [line for block in blocks for line in block if line.strip()]
    assert lines == [b'{"issue": "' + b"x" * 5_000 + b'"}', b'{"price": 1}', b'{"volume": 2}']


def test_a_sample_is_no_pipe(tmp_path: Path) -> None:
    """Before, looking at one waited for ever."""
    os.mkfifo(tmp_path / "events.jsonl")
    with pytest.raises(ContentcastError, match="is a pipe, not a file"):
        Space.infer(tmp_path / "events.jsonl")


def test_a_sample_of_a_small_parquet_file_takes_few_of_its_gigabytes(tmp_path: Path) -> None:
    """A child with 1.5 GB more than it has looks at 2 GB of lists; before, Arrow asked for all of them."""
    pq.write_table(pa.table({"tags": pa.array([["x" * 50_000] * 20] * 2_000)}), tmp_path / "events.parquet")
    looking = f"""
import pyarrow, pyarrow.parquet, resource
from contentcast.model import Space
has = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (has + 3 * 2**29, has + 3 * 2**29))
print(Space.infer({str(tmp_path / "events.parquet")!r})["tags"].kind)
"""
    done = subprocess.run([sys.executable, "-c", looking], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "list of string", done.stderr[-2000:]
