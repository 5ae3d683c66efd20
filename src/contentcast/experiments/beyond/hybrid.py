"""The hybrid of link matching and flooding, by its threshold: steps saved against copies sent for nobody.

Source: Banavar et al. 1999, section 6: "it may be valuable to adopt a hybrid approach that varies between pure link matching
and flooding depending upon the probability that a given Maybe trit resolves to a Yes". Two workloads on the 39-broker network:
one in which nearly every broker wants every event, and one in which few want it.
Learning has a price of its own, since some events are searched to the end: a threshold above 1 learns and never guesses, which
tells what guessing saves from what learning costs.
Rule: counted after the first events, from which the hybrid learns most; what it goes on learning is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.figures import label, look
from contentcast.experiments.routes import Network
from contentcast.experiments.rows import floats, groups, where
from contentcast.hosting.costs import PAPER, PAPER_FAST
from contentcast.network.named import network, placed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEARNS_ONLY: Final = 1.01
NEVER: Final = 2.0
"""Stands for link matching itself, which neither guesses nor learns."""
THRESHOLDS: Final = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, LEARNS_ONLY, NEVER)
WORKLOADS: Final = {
    "many match": ("gryphon-39", 0.795, 14820),
    "few match": ("gryphon-39", 0.9, 1000),
    "many match, a hub of 38 links": ("star:38", 0.795, 14820),
}
"""The network, D, and the number of subscriptions."""
MANY, FEW, HUB = WORKLOADS


def plan(scale: Scale) -> list[Row]:
    thresholds = (0.0, 0.9, LEARNS_ONLY, NEVER) if scale.quick else THRESHOLDS
    learnt, counted = (600, 300) if scale.quick else (6000, 2000)
    return [
        {
            "workload": workload,
            "threshold": threshold,
            "subscriptions": min(3000, size) if scale.quick else size,
            "learnt": learnt,
            "counted": counted,
            "seed": seed,
        }
        for workload, (_, _, size) in WORKLOADS.items()
        for threshold in thresholds
        for seed in scale.seeds(1)
    ]


def measure(workload: str, threshold: float, subscriptions: int, learnt: int, counted: int, seed: int) -> dict[str, Any]:
    name, decay, _ = WORKLOADS[workload]
    topology = network(name)
    protocol, options = ("link-matching", {}) if threshold == NEVER else ("hybrid", {"threshold": threshold})
    source = placed("gryphon", topology, seed=seed, attributes=15, decay=decay)
    built = Network(topology, source, protocol, subscriptions, tree={"factored": ["a1"]}, **options)
    built.route(learnt)
    routes = built.route(counted, first=learnt)
    return {
        "steps": float(routes.steps.sum()) / counted,
        "copies": float(routes.copies.sum()) / counted,
        "deliveries": float(routes.deliveries.sum()) / counted,
        "cpu_ms": 1000 * float(routes.cpu_s(PAPER_FAST).sum()) / counted,
        "cpu_slow_ms": 1000 * float(routes.cpu_s(PAPER).sum()) / counted,
        "busiest_steps": float(routes.steps[:, int(routes.copies.sum(axis=0).argmax())].mean()),
        "rate": float(routes.limits(PAPER_FAST).min()),
    }


def saved(table: pa.Table, workload: str) -> pa.Table:
    """For each threshold, in shares of what link matching takes: what guessing saves, what learning costs, and both."""
    part = where(table, workload=workload)
    names = ("steps", "busiest_steps", "copies", "deliveries", "cpu_ms", "cpu_slow_ms", "rate")
    mean = {
        threshold: {name: float(floats(same, name).mean()) for name in names}
        for (threshold,), same in groups(part, "threshold")
    }
    base, learns = mean[NEVER], mean[LEARNS_ONLY]
    return pa.Table.from_pylist(
        [
            {
                "threshold": threshold,
                "steps": each["steps"],
                "busiest_steps": each["busiest_steps"],
                "busiest saved by guessing": (learns["busiest_steps"] - each["busiest_steps"]) / base["busiest_steps"],
                "busiest saved in all": 1 - each["busiest_steps"] / base["busiest_steps"],
                "steps saved by guessing": (learns["steps"] - each["steps"]) / base["steps"],
                "steps spent on learning": (learns["steps"] - base["steps"]) / base["steps"],
                "copies for nobody": each["copies"] - base["copies"],
                "CPU saved by guessing, 10 us a step": (learns["cpu_ms"] - each["cpu_ms"]) / base["cpu_ms"],
                "CPU saved in all, 10 us a step": 1 - each["cpu_ms"] / base["cpu_ms"],
                "CPU saved in all, 100 us a step": 1 - each["cpu_slow_ms"] / base["cpu_slow_ms"],
                "same deliveries": bool(abs(each["deliveries"] - base["deliveries"]) < 1e-9),
            }
            for threshold, each in mean.items()
            if threshold != NEVER
        ]
    )


def judge(table: pa.Table) -> list[Verdict]:
    many, few, hub = (saved(table, workload).to_pylist() for workload in (MANY, FEW, HUB))
    by_guessing, in_all = "CPU saved by guessing, 10 us a step", "CPU saved in all, 10 us a step"
    best = max(hub, key=lambda each: float(each["busiest saved by guessing"]))
    best_of_many, flood = max(many, key=lambda each: float(each[by_guessing])), few[0]
    same = all(each["same deliveries"] for each in [*many, *few, *hub])
    return [
        Verdict(
            "Guessing saves steps at a broker with many links behind which nearly all is wanted",
            "may be valuable",
            f"threshold {best['threshold']:g}: {best['busiest saved by guessing']:.0%} of the hub's steps, for "
            f"{best['copies for nobody']:.2f} copies of an event for nobody",
            best["threshold"] != LEARNS_ONLY and best["busiest saved by guessing"] > 0.05,
        ),
        Verdict(
            "It still saves there after what learning costs",
            "not said",
            f"{best['busiest saved in all']:+.0%} of the hub's steps, {best[in_all]:+.0%} of all brokers' CPU time",
            best["busiest saved in all"] > 0,
        ),
        Verdict(
            "On the paper's network it saves CPU time when many match",
            "may be valuable",
            f"at best {best_of_many[by_guessing]:+.1%} by guessing, {best_of_many[in_all]:+.0%} with learning",
            best_of_many[in_all] > 0,
        ),
        Verdict(
            "It does not pay where few want an event",
            "not said",
            f"threshold {flood['threshold']:g}: {flood['copies for nobody']:.1f} copies for nobody, "
            f"{-flood[in_all]:.0%} more CPU time",
            flood[in_all] < 0,
        ),
        Verdict("What clients get stays the same", "must", "at all thresholds" if same else "not at all thresholds", same),
    ]


def summarize(table: pa.Table) -> pa.Table:
    rows = []
    for workload in WORKLOADS:
        for each in saved(table, workload).to_pylist():
            threshold = "learns only" if each["threshold"] == LEARNS_ONLY else f"{each['threshold']:g}"
            rows.append(
                {
                    "workload": workload,
                    "threshold": threshold,
                    "steps per event": f"{each['steps']:,.0f}",
                    "at the busiest broker": f"{each['busiest_steps']:.1f}",
                    "copies for nobody": f"{each['copies for nobody']:.2f}",
                    **{name: f"{value:.0%}" for name, value in each.items() if "s saved" in name or "spent" in name},
                    **{name: f"{value:.0%}" for name, value in each.items() if "in all, 10" in name},
                }
            )
    return pa.Table.from_pylist(rows)


def draw(table: pa.Table, figure: Figure) -> None:
    for axes, workload in zip(figure.subplots(1, 3).flat, WORKLOADS, strict=True):
        found = saved(table, workload)
        found = found.filter(pa.array(floats(found, "threshold") != LEARNS_ONLY))
        x = floats(found, "threshold")
        for number, column in enumerate(
            ("steps saved by guessing", "busiest saved by guessing", "CPU saved in all, 10 us a step")
        ):
            axes.plot(x, 100 * floats(found, column), label=column, **look(number))
        axes.axhline(0, color="black", lw=1)
        label(axes, "threshold: how often Maybe became Yes", "share of link matching's (%)", workload)
        beside = axes.twinx()
        beside.plot(x, floats(found, "copies for nobody"), color="black", ls=":", label="copies for nobody (right)")
        beside.set_ylabel("copies for nobody per event")
        beside.grid(False)
        lines = [*axes.get_lines()[:3], *beside.get_lines()]
        axes.legend(lines, [str(each.get_label()) for each in lines], fontsize=7, loc="best")


EXPERIMENT: Final = Experiment(
    "link-matching/beyond/hybrid",
    "The hybrid: steps saved against copies for nobody",
    "Banavar et al. 1999, section 6 (future work)",
    plan,
    measure,
    judge,
    summarize,
    draw,
    size_inches=(13.0, 4.4),
)
