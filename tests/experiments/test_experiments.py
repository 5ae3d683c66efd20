"""Every experiment in miniature, by the real code: the shapes that the papers claim, the files, and what is judged."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contentcast.experiments import chart1, chart2, chart3, prototype
from contentcast.experiments.catalog import EXPERIMENTS, chosen, experiment
from contentcast.experiments.contract import Experiment, Scale
from contentcast.experiments.figures import draw
from contentcast.experiments.rows import floats, groups, mean_and_error, where
from contentcast.experiments.run import run
from contentcast.model import ContentcastError


def measured(each: Experiment, rows: list[dict[str, Any]]) -> pa.Table:
    """As `spread` does, row by row; a column that a row lacks is null there."""
    found = []
    for row in rows:
        results = each.measure(**row)
        found += [{**row, **result} for result in (results if isinstance(results, list) else [results])]
    names = dict.fromkeys(name for result in found for name in result)
    return pa.Table.from_pylist([{name: result.get(name) for name in names} for result in found])


def test_chart1_a_queue_drains_below_the_limit_and_grows_above_it() -> None:
    (row,) = Scale(quick=True, seed_count=1).seeds(1)
    table = measured(chart1.EXPERIMENT, [{"subscriptions": 400, "shares": [0.8, 1.2], "seed": row}])
    assert table["grows"].to_pylist() == [False, True]
    short, long = floats(table, "longest_short"), floats(table, "longest_long")
    assert long[0] < 100 < long[1]
    assert short[1] < long[1]
    assert table["curve"].to_pylist()[1][-1] > table["curve"].to_pylist()[0][-1]
    assert chart1.judge(table)[0].holds


def test_the_threshold_is_found_from_the_runs() -> None:
    longest = np.array([10, 20, 30, 70, 80, 90], float)
    grows = longest > 50
    found, error, right = chart1.threshold(longest, grows)
    assert (found, right) == (70.0, 1.0)
    assert error >= 0
    assert chart1.threshold(np.array([10, 60, 40, 90], float), np.array([False, False, True, True]))[2] < 1


def test_chart2_flooding_is_flat_and_link_matching_gains_when_few_match() -> None:
    rows = [
        {"protocol": protocol, "subscriptions": 800, "percent": percent, "seed": 1, "part": "chart", **chart2.USUAL}
        for protocol in (chart2.LINK_MATCHING, chart2.FLOODING)
        for percent in (0.5, 2.0)
    ]
    table = measured(chart2.EXPERIMENT, rows)
    rate = {(each["protocol"], each["percent"]): each["max_rate"] for each in table.to_pylist()}
    assert rate[chart2.FLOODING, 0.5] == rate[chart2.FLOODING, 2.0]
    assert rate[chart2.LINK_MATCHING, 0.5] > rate[chart2.LINK_MATCHING, 2.0] > 1.1 * rate[chart2.FLOODING, 2.0]
    full = floats(table, "max_rate") / floats(table, "full_cpu_rate")
    assert full.min() > 0.8
    assert full.max() < 1.2
    verdicts = chart2.judge(table)
    assert [each.holds for each in verdicts[:4]] == [True, True, True, True]


def test_chart2_says_no_when_flooding_is_not_flat() -> None:
    rows = [
        {"part": "chart", "protocol": protocol, "subscriptions": 10, "percent": percent, "seed": 1, "max_rate": rate}
        | {"run_error": 1.0, "full_cpu_rate": rate}
        for protocol in (chart2.LINK_MATCHING, chart2.FLOODING)
        for percent, rate in ((0.5, 100.0), (2.0, 50.0))
    ]
    flat, higher, *_ = chart2.judge(pa.Table.from_pylist(rows))
    assert not flat.holds
    assert not higher.holds


def test_chart3_steps_add_up_along_the_way() -> None:
    rows = [row for row in chart3.plan(Scale(quick=True)) if row["tree"] == "plain" and row["subscriptions"] == 1000][:2]
    table = measured(chart3.EXPERIMENT, rows)
    for (_,), part in groups(table, "protocol"):
        steps = floats(part, "steps")
        assert part["hops"].to_pylist() == [1, 2, 3, 4, 5, 6]
        assert (np.diff(steps) > 0).all()
        assert steps[0] < part["central"][0].as_py(), "one broker finds out less than everything"
    assert chart3.reach({1: 0.2, 2: 0.9, 3: 1.1, 4: 0.8}) == 2


def test_prototype_steps_grow_less_than_the_subscriptions() -> None:
    table = measured(prototype.EXPERIMENT, [{"tree": "optimized", "sizes": [250, 1000], "events": 100, "seed": 1}])
    times, exponent = prototype.growth(table, "optimized", "steps")
    assert 1 < times < 4
    assert 0 < exponent < 1


@pytest.mark.parametrize("name", [each for each in EXPERIMENTS if "/beyond/" in each])
def test_beyond_runs_in_miniature(name: str, tmp_path: Path) -> None:
    """One seed of the quick plan, cut down further; every verdict is computed, and the figure is a picture."""
    each = experiment(name)
    rows = each.plan(Scale(quick=True, seed_count=1))
    for row in rows:
        row.update({key: min(row[key], 300) for key in ("subscriptions", "events") if key in row})
    table = measured(each, rows)
    verdicts = each.judge(table)
    assert verdicts
    assert all(verdict.claim and verdict.ours and isinstance(bool(verdict.holds), bool) for verdict in verdicts)
    assert each.summarize(table).num_rows >= 4
    picture = draw(each, table, verdicts, tmp_path / "figure.png")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_hybrid_never_changes_what_clients_get() -> None:
    hybrid = experiment("link-matching/beyond/hybrid")
    rows = [row | {"subscriptions": 500, "learnt": 300, "counted": 100} for row in hybrid.plan(Scale(quick=True))]
    table = measured(hybrid, rows)
    for (_,), part in groups(table, "workload"):
        assert len(set(part["deliveries"].to_pylist())) == 1
        flood, never = where(part, threshold=0.0), where(part, threshold=2.0)
        assert floats(flood, "copies")[0] > 1.2 * floats(never, "copies")[0]


def test_a_run_leaves_its_table_its_figure_and_its_verdicts_and_is_not_measured_twice(tmp_path: Path) -> None:
    tiny = Experiment(
        "tiny",
        "Prototype",
        "test",
        lambda scale: [{"tree": tree, "sizes": [50, 100], "events": 20, "seed": 1} for tree in ("plain", "optimized")],
        prototype.measure,
        prototype.judge,
        prototype.summarize,
        prototype.draw,
    )
    told: list[int] = []
    outcome = run(tiny, tmp_path, Scale(), tell=lambda done, total, row: told.append(done))
    assert told == [1, 2]
    assert {each.name for each in tmp_path.iterdir()} >= {"results.parquet", "figure.png", "verdicts.json", "report.md"}
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert f"| {outcome.verdicts[0].claim} |" in page
    assert "| plain | 50 |" in page
    again = run(tiny, tmp_path, Scale(), tell=lambda done, total, row: told.append(done))
    assert told == [1, 2]
    assert again.table.equals(outcome.table)


def test_names_and_their_beginnings() -> None:
    assert [each.name for each in chosen("link-matching/chart2")] == ["link-matching/chart2"]
    assert [each.name for each in chosen("link-matching")] == [
        each for each in EXPERIMENTS if each.startswith("link-matching/")
    ]
    with pytest.raises(ContentcastError, match="did you mean 'link-matching/chart3'"):
        chosen("link-matching/chrt3")
    for name in EXPERIMENTS:
        assert experiment(name).name == name
        for quick in (True, False):
            rows = experiment(name).plan(Scale(quick=quick))
            assert rows
            assert all("seed" in row for row in rows)


def test_error_of_a_mean() -> None:
    mean, error = mean_and_error([10.0, 12.0, 14.0])
    assert (mean, round(error, 2)) == (12.0, 4.97)  # 4.30 * 2 / sqrt(3)
    assert np.isnan(mean_and_error([5.0])[1])


@pytest.mark.parametrize(
    "name", [*(f"figure{each}" for each in ("5", "6", "7", "8", "9a", "9b")), "hotspots", "churn", "latency", "kinds"]
)
def test_the_overlay_in_miniature(name: str) -> None:
    """Every figure of the fourth paper has its table; what must hold at any scale does."""
    each = experiment(f"overlay/{name}")
    table = measured(each, each.plan(Scale(quick=True, seed_count=1)))
    verdicts = {verdict.claim: verdict for verdict in each.judge(table)}
    assert len(each.summarize(table)) > 1
    sure = {
        "figure5": "A publication is mapped to 1, 1 and 4 keys",
        "figure6": "With no selective attribute mapping 2 needs the least memory",
        "figure7": "Hops per publication grow with the logarithm of the number of nodes",
        "figure8": "The copies of a subscription grow with the nodes in mappings 1 and 3, hardly in mapping 2",
        "figure9a": "Most of the gain is there at a period of one publication interval",
        "figure9b": "Discretization cuts the hops of a subscription",
        "hotspots": "Learnt quantiles take the load off the busiest node when values are skewed (events, ring in memory)",
        "churn": "Nothing is lost or delivered twice while half of the nodes are replaced",
        "latency": "A notification that goes straight to the subscriber's node saves time",
        "kinds": "Every event meets every subscription that it matches, of whatever kind",
    }
    assert verdicts[sure[name]].holds, verdicts[sure[name]]
