"""The harness works on tiny sizes: it measures in turns, finds a contender that is wrong, and writes what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks.columns import Column, strings
from benchmarks.engines import bulk, lists, matching
from benchmarks.engines.matching import Cell, Disagreement
from benchmarks.machine import facts
from benchmarks.peers import PEERS, Matches
from benchmarks.report import Result, Table, human, times
from benchmarks.timing import Timed, in_turns, largest_that_fits


def test_contenders_run_in_turns_and_each_round_begins_with_another() -> None:
    ran: list[tuple[int, str]] = []
    jobs = {name: (10, lambda number, name=name: ran.append((number, name))) for name in "abc"}
    timed = in_turns(jobs, rounds=2)
    assert ran == [(0, "a"), (0, "b"), (0, "c"), (1, "b"), (1, "c"), (1, "a")]
    assert [len(each.seconds) for each in timed.values()] == [2, 2, 2]


def test_a_quick_one_warms_up_and_is_called_again_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("benchmarks.timing.perf_counter", lambda: clock[0])
    calls: list[str] = []

    def lasts(name: str, seconds: float) -> None:
        calls.append(name)
        clock[0] += seconds

    jobs = {"slow": (1, lambda _: lasts("slow", 2.0)), "quick": (1, lambda _: lasts("quick", 0.3))}
    timed = in_turns(jobs, rounds=1, turn_s=1.0)
    assert calls == ["slow", *["quick"] * 5]
    assert [len(each.seconds) for each in timed.values()] == [1, 4]


def test_one_that_has_used_its_budget_drops_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("benchmarks.timing.perf_counter", lambda: clock[0])

    def lasts(seconds: float) -> None:
        clock[0] += seconds

    timed = in_turns({"slow": (1, lambda _: lasts(4.0)), "quick": (1, lambda _: lasts(1.0))}, rounds=5, budget_s=6.0)
    assert (timed["slow"].seconds, timed["quick"].seconds) == ([4.0], [1.0] * 5)


def test_the_median_counts() -> None:
    assert Timed(10, [1.0, 100.0, 2.0]).per_s == 5.0
    assert Timed(10, [1.0, 100.0, 2.0]).per_unit_s == 0.2


@pytest.mark.parametrize(
    ("fixed_s", "each_s", "expected"),
    [(0.0, 0.0001, 10_000), (0.0, 0.001, 1_000), (0.0, 0.5, 1), (0.0, 2.0, 1), (0.9, 0.00001, 10_000), (0.4, 0.001, 100)],
)
def test_the_batch_is_as_large_as_fits(monkeypatch: pytest.MonkeyPatch, fixed_s: float, each_s: float, expected: int) -> None:
    """Within a second; one with high costs per call gets a large batch all the same."""
    clock = [0.0]
    monkeypatch.setattr("benchmarks.timing.perf_counter", lambda: clock[0])

    def run(units: int) -> None:
        clock[0] += fixed_s + each_s * units

    assert largest_that_fits(run, most=10_000, patience_s=1.0) == expected


# --- the report


def test_a_result_is_written_as_json_and_as_markdown(tmp_path: Path) -> None:
    table = Table("", ["", "W1"], [["ours", "2.00 M"], ["theirs", "100 k"]], frozenset(["ours"]))
    result = Result("some", "Some title", ["About it."], [table], ["A note."], {"numbers": [1]}, quick=True)
    written = result.write(tmp_path / "new")
    assert [each.name for each in written] == ["some.json", "some.md"]
    described = json.loads(written[0].read_text())
    assert (described["numbers"], described["quick"]) == ([1], True)
    assert set(facts()) <= set(described["machine"])
    text = written[1].read_text()
    assert "|  | W1 |\n| --- | ---: |\n| **ours** | **2.00 M** |\n| theirs | 100 k |" in text
    assert "- A note." in text
    assert "quick run" in text


def test_numbers_for_people() -> None:
    assert [human(each) for each in (1_250_000, 372_900, 26_420, 999.9, 26.42, 0.517)] == [
        *("1.25 M", "373 k", "26.4 k", "1.00 k", "26.4", "0.52")
    ]
    assert times(12.34) == "12.3 x"


# --- the benchmarks themselves


def test_bulk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "TARGETS_S", {1_000: 1e-9, 10_000: 1e9})
    result = bulk.run(quick=True)
    assert {"parse_many 1000", "parse_many 10000"} < set(result.data["contenders"])
    assert "1,000 predicates within 1e-09 s. DOES NOT HOLD" in result.notes[0]
    assert "10,000 predicates within 1e+09 s. holds" in result.notes[1]


def test_matching_fills_every_cell_or_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "BATCH", 100)
    columns = (Column("W2 50", "market", 50), Column("strings 30", "strings", 30), Column("boxes 40", "boxes", 40, seed=3))
    result = matching.run(quick=True, columns=columns)
    for column in columns:
        cells = result.data["columns"][column.name]
        assert set(cells) == {matching.OURS, *(peer.name for peer in PEERS)}
        assert all(cell["events_per_s"] or cell["reason"] for cell in cells.values())
    measured = result.data["columns"]["W2 50"]["NumPy bitmaps"]
    assert measured["events_per_s"] > 0
    assert measured["batch"] == 100
    assert len(result.tables[0].rows) == len(PEERS) + 3


class Stub:
    def __init__(self, *subscriptions: int) -> None:
        self._found = np.array(subscriptions, np.int64)

    def match(self, events: object) -> Matches:
        return Matches(self._found, event=np.zeros(len(self._found), np.int64))


def test_a_contender_that_finds_other_pairs_stops_the_run() -> None:
    cells = {"a": Cell(rules=10), "b": Cell(rules=10), "sampled": Cell(rules=4)}
    matching.check({"a": Stub(2, 5), "b": Stub(5, 2), "sampled": Stub(2)}, cells, None)
    for name, wrong in (("b", Stub(2)), ("b", Stub(2, 6)), ("sampled", Stub(3)), ("sampled", Stub(2, 5))):
        with pytest.raises(Disagreement, match=name):
            matching.check({"a": Stub(2, 5), name: wrong}, cells, None)


def test_the_ratio_is_to_the_best_that_anyone_would_write() -> None:
    cells = {peer.name: Cell(10.0) for peer in PEERS}
    cells[next(peer.name for peer in PEERS if not peer.thin)] = Cell(100.0)
    assert matching.best_peer(cells, thin_only=True)[1] == 10.0
    assert matching.best_peer(cells, thin_only=False)[1] == 100.0


def test_strings_are_the_same_for_the_same_seed() -> None:
    one, other = strings(30, distinct=20), strings(30, distinct=20)
    assert one.predicates == other.predicates
    assert one.events(5, 3) == other.events(5, 3)
    assert one.predicates != strings(30, distinct=20, seed=8).predicates


# --- the command


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["bluk"])
    assert ended.value.code == 2
    assert "there is no benchmark 'bluk'" in capsys.readouterr().err


def test_the_command_writes_where_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.machine.keep_to_one_thread", lambda: None)  # it is for the whole process
    result = Result("bulk", "Bulk", [], [Table("", ["", "x"], [["a", "1"]])], [], {})
    monkeypatch.setattr(bulk, "run", lambda quick: result)
    assert command.main(["bulk", "--quick", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "bulk.json").exists()
    assert "Bulk" in capsys.readouterr().out


def test_lists_are_measured_beside_equality() -> None:
    """A quick run also compares the index with the oracle."""
    result = lists.run(quick=True)
    assert set(result.data) == set(lists.FORMS)
    assert result.data[lists.EQUAL]["of_equality"] == 1.0
    assert "Target: array_contains at no less than a quarter" in result.notes[0]
