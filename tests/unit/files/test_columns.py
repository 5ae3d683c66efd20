"""The columns of event files: those of all files count, and what no attribute is or looks misspelt is told before matching."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contentcast.files.open_events import open_events
from contentcast.model import ContentcastError, How, Space

TRADES = Space("trades", issue="string", price="float", volume="int")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(*given: str, how: How | None = None) -> tuple[list[dict[str, object]], list[tuple[str, str]]]:
    """The good events, and of the bad records their text and the reason."""
    opened = open_events(given, TRADES, how=how)
    found = [each for each, _ in opened.pieces()]
    good = pa.Table.from_batches([each.events for each in found], schema=opened.schema)
    return good.to_pylist(), [(bad.record, bad.reason) for each in found for bad in each.bad]


# --- of CSV


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("issue,prise,volume", "has no attribute 'prise', and the events have no column 'price'; is it that one?"),
        ("issue,Price,volume", "has no attribute 'Price', and the events have no column 'price'; is it that one?"),
        ("Issue,Price,Volume", "none of the columns Issue, Price, Volume is an attribute of trades; it has issue, price, vol"),
        ("IBM,119.5,5000", "none of the columns IBM, 119.5, 5000 is .* The first line of a CSV file names the columns"),
        ("issue;price;volume", "none of the columns issue;price;volume is .* Is the separator a semicolon?"),
        ("issue\tprice\tvolume", "none of the columns .* Is the separator a tab?"),
        ("issue,price,price", "the column price comes twice; rename or drop one"),
    ],
)
def test_a_header_that_does_not_fit_the_space_is_an_error_that_names_the_file(header: str, says: str) -> None:
    Path("a.csv").write_text("issue,price,volume\nIBM,119.5,5000\n")
    Path("b.csv").write_text(f"{header}\nIBM,119.5,5000\n")
    with pytest.raises(ContentcastError, match=rf"^b\.csv: .*{says}"):
        read("a.csv", "b.csv")


def test_a_column_that_looks_misspelt_stays_if_that_is_wanted() -> None:
    Path("a.csv").write_text("issue,prise\nIBM,119.5\n")
    event = {"issue": "IBM", "price": None, "volume": None, "prise": "119.5"}
    assert read("a.csv", how={"unknown": "ignore"}) == ([event], [])


def test_no_other_column_is_taken_where_that_is_wanted() -> None:
    Path("a.csv").write_text("issue,note\nIBM,x\n")
    with pytest.raises(ContentcastError, match=r"^a\.csv: trades has no attribute 'note'"):
        read("a.csv", how={"unknown": "error"})


def test_columns_of_all_csv_files_stay() -> None:
    Path("a.csv").write_text("issue,price\nIBM,119.5\n")
    Path("b.csv").write_text("note,issue,volume\nlarge,SAP,5000\n")
    assert read("a.csv", "b.csv") == (
        [
            {"issue": "IBM", "price": 119.5, "volume": None, "note": None},
            {"issue": "SAP", "price": None, "volume": 5000, "note": "large"},
        ],
        [],
    )


@pytest.mark.parametrize("content", ["", "\n", "\ufeff"])
def test_an_empty_csv_file_holds_no_event_and_no_bad_record(content: str) -> None:
    Path("a.csv").write_text(content)
    Path("b.csv").write_text("issue\nIBM\n")
    assert read("a.csv") == ([], [])
    assert [event["issue"] for event in read("a.csv", "b.csv")[0]] == ["IBM"]


# --- of tables


def write(path: str, **columns: object) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def test_columns_of_all_parquet_files_count() -> None:
    """The first file has no volume, and the rule `volume > 1000` is for the second."""
    write("in/day=1/a.parquet", issue=["IBM"], price=[119.5])
    write("in/day=2/b.parquet", issue=["SAP"], volume=[5000], note=["large"])
    events, bad = read("in")
    assert bad == []
    assert events == [
        {"issue": "IBM", "price": 119.5, "volume": None, "day": 1, "note": None},
        {"issue": "SAP", "price": None, "volume": 5000, "day": 2, "note": "large"},
    ]


def test_columns_of_kinds_that_one_type_holds_are_one_column() -> None:
    write("a.parquet", issue=pa.array(["IBM"]).dictionary_encode(), volume=pa.array([1], pa.int32()), note=pa.nulls(1))
    write("b.parquet", issue=["SAP"], volume=pa.array([5000], pa.int64()), note=["large"])
    assert [tuple(event.values()) for event in read("a.parquet", "b.parquet")[0]] == [
        ("IBM", 1, None, None),
        ("SAP", 5000, "large", None),
    ]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"issue": ["SAP"], "volume": ["many"]}, "column volume is string, and the attribute is an int"),
        ({"issue": ["SAP"], "note": [5]}, "column note is int64 here and string in another file; write them alike"),
        ({"issue": ["SAP"], "prise": [5.0]}, "has no attribute 'prise', and the events have no column 'price'"),
        ({"note": ["x"]}, "none of the columns note is an attribute of trades"),
    ],
)
def test_a_parquet_file_that_does_not_fit_the_others_or_the_space_is_named(columns: dict[str, object], says: str) -> None:
    write("a.parquet", issue=["IBM"], price=[1.0], note=["x"])
    write("b.parquet", **columns)
    with pytest.raises(ContentcastError, match=rf"^b\.parquet: .*{says}"):
        read("a.parquet", "b.parquet")


def test_the_parquet_file_that_is_damaged_is_named() -> None:
    write("a.parquet", issue=["IBM"])
    Path("b.parquet").write_text("nonsense")
    with pytest.raises(ContentcastError, match=r"^b\.parquet cannot be read: it is damaged"):
        read("a.parquet", "b.parquet")
