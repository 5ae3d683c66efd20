"""The third paper's evaluation in miniature: its worked example, its model, and what real subscriptions do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from contentcast.experiments.catalog import experiment
from contentcast.experiments.contract import Scale
from contentcast.experiments.figures import draw
from contentcast.experiments.rows import floats, where
from contentcast.experiments.summaries import figure8, figure9, figure10, figure11, load, periods, precision
from contentcast.experiments.summaries.model import (
    by_broadcast,
    by_covering,
    by_summaries,
    covering_hops,
    event_hops,
    examiners,
    propagate,
    reached,
    summary_bytes,
)
from contentcast.language import parse_many
from contentcast.matching.covering import Shelf, uncovered
from contentcast.network.named import network
from contentcast.network.topology import Topology
from contentcast.workload import scenario
from tests.experiments.test_experiments import measured

TREE = [(1, 2), (2, 5), (3, 5), (4, 5), (6, 5), (5, 7), (7, 8), (8, 9), (8, 10), (10, 11), (11, 12), (11, 13)]
FIGURE_7 = Topology.of([f"{at:02}" for at in range(1, 14)], [(f"{one:02}", f"{other:02}") for one, other in TREE])
BACKBONE = network("cable-wireless-24")


def test_example_3_by_the_model() -> None:
    """Figure 7: 5 ends with the summaries of 1 to 6, and an event at 1 that 4, 8 and 13 want takes five messages."""
    knows = propagate(FIGURE_7).knows
    assert knows["05"] == {f"{at:02}" for at in range(1, 7)}
    assert knows["08"] == {"07", "08", "09", "10"}
    assert knows["11"] == {"11", "12", "13"}
    chain = examiners(FIGURE_7, knows, "01")
    assert chain == ["01", "05", "08", "11"]
    assert event_hops(chain, {"04", "08", "13"}) == 5
    assert covering_hops(FIGURE_7, "01", {"04", "08", "13"}) == 8


def test_the_model_at_its_ends() -> None:
    assert by_covering(BACKBONE, 1, 0.0).hops == 24 * 23
    assert by_covering(BACKBONE, 1, 0.9).hops < by_covering(BACKBONE, 1, 0.1).hops
    assert by_broadcast(BACKBONE, 10).bytes == pytest.approx(23 * 24 * BACKBONE.mean_hops * 10 * 50)
    assert by_summaries(BACKBONE, 10, 0.5).hops < 24
    assert summary_bytes(10, [0.0]) == 4 * (16 + 20 + 20) + 6 * (20 + 50 + 20), "five ids and five values in each of ten"
    assert summary_bytes(10, [1.0, 1.0]) == 4 * (16 + 40) + 6 * (20 + 40), "nothing but ranges and ids"
    assert np.allclose(reached(BACKBONE, 0.0), 1.0)


@pytest.mark.parametrize("subsumption", [0.2, 0.8])
def test_subscriptions_of_the_scenario_really_cover_each_other_to_the_stated_degree(subsumption: float) -> None:
    source = scenario("summaries", seed=3, subsumption=subsumption, by_degree=False)
    rows = source.subscriptions(24 * 150)
    table = parse_many(source.space, rows["predicate"])
    brokers = np.array(rows["broker"].to_pylist())
    shares = []
    for broker in source.brokers[:4]:
        mine = np.flatnonzero(brokers == broker)
        shelf = Shelf(source.space)
        kept = uncovered(shelf, shelf.add(table.take(mine)))
        shares.append(1 - len(kept) / len(mine))
    assert np.mean(shares) == pytest.approx(subsumption, abs=0.08)


def test_a_real_period_costs_summaries_least_and_the_baseline_most() -> None:
    rows = [
        {"where": "cable-wireless-24", "way": way, "sigma": sigma, "subsumption": subsumption, "seed": 1}
        for way, sigma in (("model", 10), ("model", 100), ("real", 4), ("real", 8))
        for subsumption in (0.1, 0.9)
    ]
    table = measured(figure8.EXPERIMENT, rows)
    for way in ("model", "real"):
        by = [floats(where(table, way=way, approach=each), "bytes") for each in periods.APPROACHES]
        assert (by[0] < by[1]).all()
        assert (by[1] < by[2]).all()
    real = where(table, way="real", approach=periods.COVERING)
    assert floats(where(real, subsumption=0.9), "hops").mean() < floats(where(real, subsumption=0.1), "hops").mean() <= 552
    verdicts = {each.claim: each for each in (*figure8.judge(table), *figure9.judge(table), *figure11.judge(table))}
    assert verdicts["Summaries need fewer hops than there are brokers, at any subsumption (real)"].holds
    assert not verdicts["The bytes of summaries are nearly flat in sigma (model)"].holds
    assert figure8.EXPERIMENT.summarize(table).num_rows == 28


def test_figure_10_counts_what_the_routers_send() -> None:
    rows = [{"where": "cable-wireless-24", "way": way, "popularity": 0.5, "events": 2, "seed": 1} for way in ("model", "real")]
    table = measured(figure10.EXPERIMENT, rows)
    assert floats(table, "wanted").tolist() == pytest.approx([0.5, 0.5], abs=0.05)
    shared, alone = floats(table, "covering, shared"), floats(table, "covering, alone")
    assert (shared < alone).all()
    assert shared[0] == pytest.approx(shared[1], rel=0.15)
    assert len(figure10.judge(table)) == 4


def test_precision_and_load() -> None:
    rows = [each | {"each": 10, "events": 60} for each in precision.plan(Scale(quick=True))]
    table = measured(precision.EXPERIMENT, rows)
    assert all(each.holds for each in precision.judge(table)[:1])
    assert floats(where(table, setting="1 rows"), "bytes") < floats(where(table, setting="exact"), "bytes")
    assert floats(where(table, setting="1 rows"), "wrong") > 0
    loads = measured(load.EXPERIMENT, [each | {"events": 2} for each in load.plan(Scale(quick=True))])
    assert floats(loads, "most").max() <= 1.0
    assert all(floats(loads, "mean") <= floats(loads, "most"))
    assert len(load.judge(loads)) == 2


@pytest.mark.parametrize("name", ["figure8", "figure9", "figure10", "figure11", "precision", "load"])
def test_every_figure_can_be_drawn(name: str, tmp_path: Path) -> None:
    each = experiment(f"summaries/{name}")
    assert each.name == f"summaries/{name}"
    plan = each.plan(Scale(quick=True))
    assert plan
    assert len({tuple(row.items()) for row in plan}) == len(plan)
    if name in ("figure10", "load"):
        table: pa.Table = measured(each, [row | {"events": 1} for row in plan if row.get("way") != "real"])
        if name == "figure10":
            real = pa.Table.from_pylist([row | {"way": "real"} for row in table.to_pylist()])
            table = pa.concat_tables([table, real])
    elif name == "precision":
        table = measured(each, [row | {"each": 5, "events": 20} for row in plan])
    else:
        model = measured(each, [row for row in plan if row["way"] == "model"])
        table = pa.concat_tables([model, pa.Table.from_pylist([row | {"way": "real"} for row in model.to_pylist()])])
    assert draw(each, table, each.judge(table), tmp_path / "figure.png").stat().st_size > 10_000
