"""A large CSV file is read forward a piece at a time, whatever is in it: memory and work do not grow with its size squared."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contentcast.files.open_events import open_events
from contentcast.model import Space, read_events
from contentcast.model.events import csv_files
from contentcast.model.events.records import Read

TRADES = Space("trades", issue="string", price="float")


@pytest.fixture(autouse=True)
def _small_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(csv_files, "PIECE_ROWS", 100)


def read(path: str) -> list[tuple[Read, int]]:
    return list(open_events([path], TRADES).pieces())


def test_events_come_in_pieces_and_each_says_how_much_of_the_file_is_read() -> None:
    rows = [f"IBM,{each}.5,{'x' * 100}" for each in range(1_000)]
    Path("a.csv").write_text("\n".join(["issue,price,note", *rows]))
    found = read("a.csv")
    assert [each.events.num_rows for each, _ in found] == [100] * 10
    assert sum(taken for _, taken in found) == Path("a.csv").stat().st_size
    assert len([taken for _, taken in found if taken]) > 5, "the bar moves"


def test_a_piece_ends_after_some_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "PIECE_CHARS", 1_000)
    Path("a.csv").write_text("issue,note\n" + f"IBM,{'x' * 400}\n" * 9)
    assert [each.events.num_rows for each, _ in read("a.csv")] == [3, 3, 3]


def test_nothing_is_read_that_is_not_asked_for() -> None:
    Path("a.csv").write_text("issue,price\n" + "IBM,1\n" * 100_000)
    pieces = open_events(["a.csv"], TRADES).pieces()
    _, taken = next(pieces)
    assert taken < 50_000


@pytest.mark.parametrize("packed", [False, True])
def test_records_that_a_piece_would_cut_stay_whole_and_lines_are_counted_on(packed: bool) -> None:
    """Each record has four lines, with an empty one and a line break of another system."""
    record = '"two\n\nlines\r\n",{}\n'
    rows = [record.format("x" if each in (99, 100, 249) else each) for each in range(250)]
    content = ("issue,price\n" + "".join(rows) + "short\n").encode()
    path = "a.csv.gz" if packed else "a.csv"
    Path(path).write_bytes(gzip.compress(content) if packed else content)
    found = [each for each, _ in read(path)]
    assert [each.events.num_rows for each in found] == [99, 99, 49]
    assert {name for each in found for name in each.events["issue"].to_pylist()} == {"two\n\nlines\r\n"}
    bad = [each for piece in found for each in piece.bad]
    assert [each.record for each in bad] == ['"two\n\nlines\r\n",x'] * 3 + ["short"]
    assert [each.reason for each in bad] == ["'x' is not a float"] * 3 + ["1 field under a header of 2"]
    events = read_events(path, TRADES, on_error="reject")
    assert [(each.event, each.line) for each in events.rejected] == [(99, 398), (100, 402), (249, 998), (250, 1002)]
    assert len(events) == 247
    assert events.ids.to_pylist() == [each for each in range(250) if each not in (99, 100, 249)]


def test_bad_records_do_not_make_the_rest_of_the_file_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    handed = 0
    plain = csv.reader

    def counting(lines: Iterable[str], **how: Any) -> Any:
        def counted() -> Iterator[str]:
            nonlocal handed
            for line in lines:
                handed += 1
                yield line

        return plain(counted(), **how)

    monkeypatch.setattr(csv_files.csv, "reader", counting)
    Path("a.csv").write_text("issue,price\n" + "IBM,x\n" * 500)
    assert sum(len(each.bad) for each, _ in read("a.csv")) == 500
    assert handed < 520, "each line once, and the header again"


def test_a_quote_that_is_never_closed_does_not_take_the_rest_of_a_large_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "LONGEST_RECORD", 10_000)
    Path("a.csv").write_text('issue,price\nIBM,1\n"SAP,2\n' + "IBM,3\n" * 100_000)
    found = read("a.csv")
    assert [each.events.num_rows for each, _ in found] == [1]
    assert sum(taken for _, taken in found) < 50_000
    (bad,) = found[0][0].bad
    assert "is not read, nor is what comes after it; is a quote opened here and never closed?" in bad.reason
    assert bad.record.startswith('"SAP,2\nIBM,3\n')


def test_a_line_that_is_too_long_ends_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "LONGEST_RECORD", 10_000)
    Path("a.csv").write_text("issue,price\nIBM,1\n" + "x" * 100_000 + "\nIBM,2\n")
    ((found, _),) = read("a.csv")
    assert found.events.num_rows == 1
    assert [each.reason.split(",")[0] for each in found.bad] == ["the record has more than 67"]
