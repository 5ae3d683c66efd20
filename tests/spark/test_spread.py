"""`spread`: a function over a plan, here and on the cluster; what is finished stays finished, what fails is named."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contentcast.spark.spread import SpreadError, grid, spread


class Counted:
    """A function that says how often it was called, and fails on what it is told to."""

    __qualname__ = "Counted"

    def __init__(self) -> None:
        self.called: list[dict[str, int]] = []
        self.fails_on: set[int] = set()

    def __call__(self, side: int, seed: int) -> dict[str, float]:
        self.called.append({"side": side, "seed": seed})
        if side in self.fails_on:
            raise ZeroDivisionError(f"side {side} is wrong")
        return {"area": side * side, "half": side / 2}


PLAN = grid(side=[1, 2, 3], seed=[7])


def test_a_grid_is_every_combination() -> None:
    assert grid(side=[1, 2], seed=range(2)) == [
        {"side": 1, "seed": 0},
        {"side": 1, "seed": 1},
        {"side": 2, "seed": 0},
        {"side": 2, "seed": 1},
    ]
    assert grid() == [{}]
    assert grid(side=[]) == []


def test_results_stand_beside_their_rows_in_the_order_of_the_plan(tmp_path: Path) -> None:
    heard: list[tuple[int, int, int]] = []
    found = spread(Counted(), PLAN, out=tmp_path, tell=lambda done, total, row: heard.append((done, total, row["side"])))
    assert found.to_pylist() == [{"side": side, "seed": 7, "area": side**2, "half": side / 2} for side in (1, 2, 3)]
    assert pq.read_table(tmp_path / "results.parquet") == found
    assert heard == [(1, 3, 1), (2, 3, 2), (3, 3, 3)]


def test_finished_rows_are_not_run_again(tmp_path: Path) -> None:
    counted = Counted()
    spread(counted, PLAN[:2], out=tmp_path)
    heard: list[tuple[int, int]] = []
    again = spread(counted, pa.Table.from_pylist(PLAN), out=tmp_path, tell=lambda done, total, _: heard.append((done, total)))
    assert [each["side"] for each in counted.called] == [1, 2, 3]
    assert heard == [(3, 3)], "two were there before"
    assert again["area"].to_pylist() == [1, 4, 9]
    spread(counted, PLAN[:1], out=tmp_path, version=2)
    spread(counted, PLAN[:1], out=tmp_path, fresh=True)
    assert [each["side"] for each in counted.called] == [1, 2, 3, 1, 1], "a new version, and what is to be forgotten"


def test_a_failing_row_is_named_the_others_go_on_and_the_same_call_resumes(tmp_path: Path) -> None:
    counted = Counted()
    counted.fails_on = {2}
    with pytest.raises(SpreadError) as raised:
        spread(counted, PLAN, out=tmp_path)
    assert str(raised.value).splitlines() == [
        f"Counted: 1 of 3 rows failed; tracebacks are in {tmp_path / 'failures'}",
        "  side=2, seed=7: ZeroDivisionError: side 2 is wrong",
        "The other 2 are kept: the same call again runs only these 1.",
    ]
    (note,) = (tmp_path / "failures").iterdir()
    assert "in __call__" in note.read_text()
    assert not (tmp_path / "results.parquet").exists(), "half of the results are no results"
    counted.fails_on, counted.called = set(), []
    assert spread(counted, PLAN, out=tmp_path)["area"].to_pylist() == [1, 4, 9]
    assert counted.called == [{"side": 2, "seed": 7}]
    assert list((tmp_path / "failures").iterdir()) == []


def test_a_function_may_return_several_rows_or_none_and_other_columns(tmp_path: Path) -> None:
    def divisors(number: int) -> list[dict[str, object]]:
        if number == 7:
            return []
        return [{"divisor": each, "even": True} if each % 2 == 0 else {"divisor": float(each)} for each in (1, 2)]

    found = spread(divisors, grid(number=[6, 7, 8]), out=tmp_path)
    assert found["number"].to_pylist() == [6, 6, 8, 8]
    assert found["divisor"].to_pylist() == [1, 2, 1, 2]
    assert found["even"].to_pylist() == [None, True, None, True]
    assert spread(divisors, [], out=tmp_path / "empty").num_rows == 0


@pytest.mark.parametrize(
    ("plan", "options", "said"),
    [
        ([{"side": 1}, {"side": 1}], {}, "rows 0 and 1 of the plan are the same: side=1"),
        ([{"side": object}], {}, "a plan has plain values"),
        ([{"side": 1, "seed": 2}], {"key": ["seeds"]}, "row 0 of the plan has no 'seeds'; did you mean 'seed'?"),
    ],
)
def test_a_plan_that_cannot_be_run(
    tmp_path: Path, plan: list[dict[str, object]], options: dict[str, list[str]], said: str
) -> None:
    with pytest.raises(SpreadError) as raised:
        spread(Counted(), plan, out=tmp_path, **options)
    assert said in str(raised.value)


def test_what_a_function_may_not_return(tmp_path: Path) -> None:
    for number, (returned, said) in enumerate(
        [(5, "the function returned 5; it must return a dict or a list of dicts"), ({"side": 3}, "returned side=3, which is 1")]
    ):
        with pytest.raises(SpreadError) as raised:
            spread(lambda side: returned, [{"side": 1}], out=tmp_path / str(number))  # noqa: B023
        assert said in str(raised.value)


def test_the_key_says_what_tells_rows_apart(tmp_path: Path) -> None:
    counted: list[str] = []

    def work(seed: int, scratch: str) -> dict[str, int]:
        counted.append(scratch)
        return {"value": seed}

    spread(work, [{"seed": 1, "scratch": "/a"}], out=tmp_path, key=["seed"])
    spread(work, [{"seed": 1, "scratch": "/b"}], out=tmp_path, key=["seed"])
    assert counted == ["/a"]


def test_on_the_cluster_it_is_the_same_table_and_a_dead_worker_takes_no_row_along(spark, tmp_path: Path) -> None:
    here = os.getpid()

    def work(side: int) -> dict[str, int]:
        if side == 2:
            raise ValueError("two")
        if side == 3:
            os._exit(1)  # as when the machine kills it for its memory
        return {"area": side**2, "elsewhere": os.getpid() != here}

    plan = grid(side=[1, 2, 3, 4])
    with pytest.raises(SpreadError) as raised:
        spread(work, plan, spark=spark, out=tmp_path)
    complaint = str(raised.value)
    assert "2 of 4 rows failed" in complaint
    assert "side=2: ValueError: two" in complaint
    assert "side=3: Spark gave up on this row" in complaint
    good = spread(work, [plan[0], plan[3]], spark=spark, out=tmp_path)
    assert good.to_pylist() == [{"side": 1, "area": 1, "elsewhere": True}, {"side": 4, "area": 16, "elsewhere": True}]
