"""The third paper's evaluation in miniature: its worked example, its model, and what real subscriptions do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contentcast.experiments.catalog import experiment
from contentcast.experiments.contract import Experiment, Scale
from contentcast.experiments.figures import draw
from contentcast.experiments.routes import subscription_batches
from contentcast.experiments.rows import floats, where
from contentcast.experiments.run import run
from contentcast.experiments.summaries import figure8, figure9, figure10, figure11, load, periods, precision
from contentcast.experiments.summaries.events import send
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
from contentcast.experiments.summaries.setting import MAIN, scenario_on
from contentcast.language import parse_many
from contentcast.matching.covering import Shelf, uncovered
from contentcast.matching.summaries import Precision
from contentcast.model import ContentcastError
from contentcast.network.named import network
from contentcast.network.topology import Topology
from contentcast.workload import scenario
from tests.experiments.test_experiments import measured

TREE = [(1, 2), (2, 5), (3, 5), (4, 5), (6, 5), (5, 7), (7, 8), (8, 9), (8, 10), (10, 11), (11, 12), (11, 13)]
FIGURE_7 = Topology.of([f"{at:02}" for at in range(1, 14)], [(f"{one:02}", f"{other:02}") for one, other in TREE])
BACKBONE = network("cable-wireless-24")
BACKBONE_PLACE = {"where": "cable-wireless-24", "links": ""}


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
        {**BACKBONE_PLACE, "way": way, "sigma": sigma, "subsumption": subsumption, "seed": 1}
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
    shown = figure8.EXPERIMENT.summarize(table)
    assert shown.num_rows == 8
    assert shown["summaries, subsumption"].to_pylist()[:4] == [""] * 4, "the model knows no such thing"
    messages = {floats(where(table, way=way, approach=periods.SUMMARIES), "messages").max() for way in ("model", "real")}
    assert messages == {20.0}, "the routers send the messages of Algorithm 2, and no others"


def test_a_real_period_begins_at_its_beginning() -> None:
    """On this network the brokers were ready in the middle of a period, and two of them told what was new in two parts."""
    topology = network("random:24x30")
    batches = dict(subscription_batches(scenario_on(topology, seed=1, subsumption=0.1), 48))
    assert periods.Period(topology, periods.SUMMARIES, batches).messages == len(propagate(topology).told) == 23


def test_a_verdict_is_about_the_first_network_and_only_about_what_was_measured() -> None:
    rows = [
        {"where": where, "links": "", "way": way, "sigma": 10, "subsumption": 0.1, "seed": 1}
        for where in ("line:4", "star:4")
        for way in ("model", "real")
    ]
    table = measured(figure8.EXPERIMENT, rows)
    assert not [each for each in figure8.judge(table) if "flat" in each.claim], "one sigma has no slope"
    alone = {each.claim: each.ours for each in figure11.judge(where(table, where="line:4"))}
    together = {each.claim: each.ours for each in figure11.judge(table)}
    assert alone.items() < together.items()
    assert set(together) - set(alone) == {"On other networks summaries take less storage than covering, too"}


def test_figure_10_counts_what_the_routers_send() -> None:
    rows = [{**BACKBONE_PLACE, "way": way, "popularity": 0.5, "events": 2, "seed": 1} for way in ("model", "real")]
    table = measured(figure10.EXPERIMENT, rows)
    assert floats(table, "wanted").tolist() == pytest.approx([0.5, 0.5], abs=0.05)
    for line in figure10.LINES:
        by_model, by_routers = floats(table, line)
        assert by_routers == pytest.approx(by_model, rel=0.15), line
    real = where(table, way="real")
    assert floats(real, "side by side, last ms") < floats(real, "summaries, last ms")
    assert floats(real, "summaries, links") > floats(real, "summaries"), "a message to a broker far away crosses several links"
    assert floats(real, "covering, links") == floats(real, "covering")
    assert len(figure10.judge(table)) == 10
    assert figure10.summarize(table).num_rows == 2


def test_the_routers_take_the_hops_of_algorithm_3_event_by_event() -> None:
    """On figure 7: for the brokers that really want an event, the model and the routers count the same messages."""
    source = scenario_on(FIGURE_7, seed=4, popularity=0.4)
    counted = send(FIGURE_7, source, "summaries", subscriptions=13 * 20, events=13 * 6)
    knows = propagate(FIGURE_7).knows
    assert counted.wanted.any(axis=1).all()
    for entered, wanted, messages in zip(counted.entered, counted.wanted, counted.messages, strict=True):
        chain = examiners(FIGURE_7, knows, FIGURE_7.brokers[entered])
        assert messages == event_hops(chain, {FIGURE_7.brokers[at] for at in np.flatnonzero(wanted)})
    assert counted.handled.sum() == counted.messages.sum() + len(counted.messages)


def test_a_network_of_the_users_own(tmp_path: Path) -> None:
    """The row holds the network itself: a worker elsewhere, or a file that is gone by then, does not matter."""
    file = tmp_path / "mine.txt"
    file.write_text("paris rome 10\nrome oslo 5\nrome bern 5\n")
    plan = figure8.plan(Scale(quick=True, networks=(str(file), "line:3")))
    file.unlink()
    assert {each["where"] for each in plan} == {"mine.txt", "line:3"}
    table = measured(figure8.EXPERIMENT, [each for each in plan if each["subsumption"] == 0.5])
    told = where(table, where="mine.txt", way="real", approach=periods.SUMMARIES)
    assert floats(told, "messages").tolist() == [3.0], "paris, oslo and bern tell rome"
    assert figure9.judge(table)[-1].ours == "12 hops"
    with pytest.raises(ContentcastError, match="nowhere"):
        figure8.plan(Scale(networks=("nowhere",)))


def test_rows_that_another_figure_has_are_not_measured_again(tmp_path: Path) -> None:
    asked: list[int] = []

    def measure(number: int) -> dict[str, int]:
        asked.append(number)
        return {"square": number * number}

    def one(name: str) -> Experiment:
        return replace(
            figure8.EXPERIMENT,
            name=name,
            plan=lambda scale: [{"number": 3}],
            measure=measure,
            judge=lambda table: [],
            summarize=lambda table: table,
            draw=lambda table, figure: None,
            same_rows=("squares/first", "squares/second"),
        )

    for name in ("squares/first", "squares/second"):
        folder = tmp_path / f"{name}-quick"
        assert run(one(name), folder, Scale(quick=True)).table["square"].to_pylist() == [9]
    assert asked == [3]
    run(one("squares/second"), tmp_path / "squares/second-quick", Scale(quick=True), fresh=True)
    assert asked == [3, 3]
    with pytest.raises(ContentcastError, match="link-matching/chart1 has its own networks; leave --network out"):
        run(experiment("link-matching/chart1"), tmp_path / "chart1", Scale(networks=("line:3",)))


def test_precision_and_load() -> None:
    rows = [each | {"each": 10, "events": 60} for each in precision.plan(Scale(quick=True))]
    table = measured(precision.EXPERIMENT, rows)
    assert all(each.holds for each in precision.judge(table)[:1])
    assert floats(where(table, setting="1 rows"), "bytes") < floats(where(table, setting="exact"), "bytes")
    assert floats(where(table, setting="1 rows"), "wrong") > 0


def test_a_wrong_yes_is_counted_without_the_summary_s_own_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is right is found from the subscriptions: rows that are too general are told, also of the setting "exact"."""
    row: dict[str, Any] = {"subsumption": 0.5, "each": 10, "events": 60, "seed": 1}
    assert precision.measure(setting="exact", **row)["wrong"] == 0
    monkeypatch.setitem(precision.SETTINGS, "exact", Precision(rows=1))
    assert precision.measure(setting="exact", **row)["wrong"] > 0
    monkeypatch.setattr(precision, "told_to", lambda *_: np.empty(0, np.int64))
    with pytest.raises(AssertionError, match="says no wrongly"):
        precision.measure(setting="exact", **row)


def test_the_load_of_brokers_by_the_model_and_by_the_routers() -> None:
    plan = load.plan(Scale(quick=True, networks=("tree:3x3",)))
    loads = measured(load.EXPERIMENT, [each | {"events": 8} for each in plan])
    assert floats(loads, "most").max() <= 1.0
    assert all(floats(loads, "mean") <= floats(loads, "most"))
    assert all(floats(loads, "best_connected") <= floats(loads, "most"))
    assert len(load.judge(loads)) == 5
    for form in (load.PLAIN, *load.VIRTUAL, load.COVERING):
        by_model, by_routers = floats(where(loads, form=form), "mean")
        assert by_routers == pytest.approx(by_model, rel=0.2), form


@pytest.mark.parametrize("name", ["figure8", "figure9", "figure10", "figure11", "precision", "load"])
def test_every_figure_can_be_drawn(name: str, tmp_path: Path) -> None:
    each = experiment(f"summaries/{name}")
    assert each.name == f"summaries/{name}"
    small = {"each": 5, "events": 20} if name == "precision" else {"events": 1} if name in ("figure10", "load") else {}
    plan = each.plan(Scale(quick=True, networks=("line:4",) if each.takes_networks else ()))
    assert len({tuple(row.items()) for row in plan}) == len(plan) > 1
    table = measured(each, [row | small for row in plan])
    assert draw(each, table, each.judge(table), tmp_path / "figure.png").stat().st_size > 10_000
    assert each.summarize(table).num_rows


@pytest.mark.parametrize("name", ["figure8", "figure10", "load"])
def test_the_whole_plan_has_the_papers_network_first_and_others_several_seeds_and_both_ways(name: str) -> None:
    plan = experiment(f"summaries/{name}").plan(Scale())
    assert list(dict.fromkeys(row["where"] for row in plan)) == [MAIN, "gryphon-39", "tree:2x5", "random:24x30"]
    assert len({row["seed"] for row in plan if row["where"] == MAIN and row["way"] == "real"}) == 2
    if name == "figure8":
        assert {row["sigma"] for row in plan if row["way"] == "real"} == {10, 100, 1000}
    if name == "figure10":
        assert {row["popularity"] for row in plan if row["way"] == "real"} == {0.1, 0.25, 0.5, 0.75, 0.9, 1.0}
