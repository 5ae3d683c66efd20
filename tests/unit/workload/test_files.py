"""What `write_workload` writes, `read_events` and `Space.load` read back: the same events, for every scenario and format."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
import pytest

from contentcast.model import Space, read_events
from contentcast.workload import SCENARIOS, Scenario, WorkloadError, scenario
from contentcast.workload.contract import STRETCH_ROWS, SUBSCRIPTION_SCHEMA, Interests
from contentcast.workload.files import FORMATS, write_workload

READ_TABLE = {
    "parquet": pyarrow.parquet.read_table,
    "csv": pyarrow.csv.read_csv,
    "jsonl": pyarrow.json.read_json,
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_written_reads_back_equal(name: str, format: str, tmp_path: Path) -> None:
    workload = scenario(name, seed=11)
    written = write_workload(workload, tmp_path, events=200, subscriptions=50, format=format)
    assert [each.name for each in written] == [f"events.{format}", f"subscriptions.{format}", "space.json"]
    space = Space.load(tmp_path / "space.json")
    assert space == workload.space
    assert read_events(tmp_path / f"events.{format}", space).records == workload.events(200)
    subscriptions = READ_TABLE[format](tmp_path / f"subscriptions.{format}").cast(SUBSCRIPTION_SCHEMA)
    assert subscriptions.to_pylist() == workload.subscriptions(50).to_pylist()


class Odd:
    """Everything that a text file could spoil."""

    space = Space(
        "odd", {"at": "timestamp", "raw": "bytes", "text": "string", "deep.level": "float", "count": "int", "flag": "bool"}
    )
    brokers = ("b1",)
    rows: tuple[dict[str, Any], ...] = (
        {"at": datetime(2024, 2, 29, 23, 59, 59, 123456, UTC), "raw": b"\x00\xff", "text": 'say "no", or\nnot\r\n'},
        {"at": datetime(1, 1, 1, tzinfo=UTC), "raw": b"", "text": "", "deep.level": 0.1, "count": -(2**63), "flag": False},
        {"at": datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), "text": "\u2028é𝄞 \t", "deep.level": 1e300, "flag": True},
        {"deep.level": -5e-324, "count": 2**63 - 1, "raw": b"\n"},
    )

    def events(self, rows: range) -> Sequence[pa.Array]:
        chosen = [self.rows[row % len(self.rows)] for row in rows]
        return [pa.array([row.get(name) for row in chosen], kind.arrow) for name, kind in self.space.kinds.items()]

    def interests(self, rows: range) -> Interests:
        text = pa.array(["`deep.level` < 1"] * len(rows), pa.string())
        return Interests(text, text, text)

    def publishers(self, rows: range) -> pa.Array:
        return pa.array(["b1"] * len(rows))


@pytest.mark.parametrize("format", FORMATS)
def test_odd_values_survive(format: str, tmp_path: Path) -> None:
    workload = Scenario("odd", 0, {}, Odd())
    write_workload(workload, tmp_path, events=8, subscriptions=1, format=format)
    assert read_events(tmp_path / f"events.{format}", Space.load(tmp_path / "space.json")).records == workload.events(8)


@pytest.mark.parametrize("format", FORMATS)
def test_rows_come_in_blocks_and_are_all_there(format: str, tmp_path: Path) -> None:
    overlay = scenario("overlay")
    told: list[int] = []
    rows = STRETCH_ROWS + 1
    write_workload(overlay, tmp_path, events=rows, subscriptions=0, format=format, advance=told.append)
    assert told == [STRETCH_ROWS, 1, 0]
    if format != "jsonl":  # by Arrow, which is quick
        table = READ_TABLE[format](tmp_path / f"events.{format}").cast(overlay.space.arrow_schema)
        assert table.combine_chunks().to_batches() == [overlay.events(rows)]
    else:
        assert len((tmp_path / "events.jsonl").read_bytes().splitlines()) == rows


def test_files_that_are_there_are_kept_unless_forced(tmp_path: Path) -> None:
    first = write_workload(scenario("overlay", seed=1), tmp_path, events=5, subscriptions=5)
    before = [each.read_bytes() for each in first]
    with pytest.raises(WorkloadError, match=r"events\.parquet is already there"):
        write_workload(scenario("overlay", seed=2), tmp_path, events=5, subscriptions=5)
    assert [each.read_bytes() for each in first] == before
    write_workload(scenario("overlay", seed=2), tmp_path, events=5, subscriptions=5, force=True)
    assert first[0].read_bytes() != before[0]


@pytest.mark.parametrize("failing", [OSError("disk full"), KeyboardInterrupt()])
def test_nothing_is_left_of_an_unfinished_workload(failing: BaseException, tmp_path: Path) -> None:
    def advance(rows: int) -> None:
        raise failing

    with pytest.raises(type(failing)):
        write_workload(scenario("market"), tmp_path / "new", events=10, subscriptions=10, advance=advance)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_format_is_refused_with_the_nearest() -> None:
    with pytest.raises(WorkloadError, match="did you mean 'parquet'"):
        write_workload(scenario("market"), "nowhere", events=1, subscriptions=1, format="parket")
