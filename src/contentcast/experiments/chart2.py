"""Chart 2: the highest publish rate that the network carries, over the share of subscriptions that an event matches.

Source: Banavar et al. 1999, section 4.1, "Network Loading Results": 15 attributes of 3 values, 1 factored, P = 0.98; D varies.
Flooding is the paper's, in which clients filter, and beside it ours, in which their broker does. Not given in the paper: which
brokers the lateral links join, what receiving and sending cost, the Zipf exponent and how much regions differ; the rows of
`sensitivity` vary them one at a time.
Rule: a rate is carried if in 1.5 s no queue reaches the threshold of chart 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.figures import label, look
from contentcast.experiments.limits import OVERLOAD_QUEUE, max_rates
from contentcast.experiments.routes import PLAIN_TREE, Network, centralized
from contentcast.experiments.rows import floats, groups, mean_and_error, where, with_error
from contentcast.hosting.costs import PAPER_FAST, Costs
from contentcast.network.named import network
from contentcast.workload import scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUBSCRIPTIONS: Final = (5070, 9750, 14820)
DECAYS: Final = {0.5: 0.862, 1.0: 0.833, 1.5: 0.812, 2.0: 0.795}
"""The D with which about so many percent of the subscriptions match, at a Zipf exponent of 1."""
PROTOCOLS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "link matching, paper": ("link-matching-paper", {}),
    "link matching": ("link-matching", {}),
    "flooding, clients filter": ("flooding", {"filter_at": "client"}),
    "flooding, brokers filter": ("flooding", {}),
}
LINK_MATCHING, OURS, FLOODING, _ = PROTOCOLS
USUAL: Final[Row] = {
    "laterals": 3,
    "zipf": 1.0,
    "locality": 1.0,
    "step_us": 10.0,
    "transport": 1.0,
    "tree": "optimized",
    "threshold": OVERLOAD_QUEUE,
}
VARIED: Final[dict[str, tuple[Any, ...]]] = {
    "laterals": (0, 9),
    "zipf": (0.5, 1.5),
    "locality": (0.0, 0.5),
    "step_us": (2.0, 100.0),
    "transport": (0.25, 4.0),
    "tree": ("plain",),
    "threshold": (80,),
}
SEEDS, OTHER_SEEDS, VARIED_SEEDS = 5, 3, 3
PAPER_ERROR: Final = 5
ARRIVALS: Final = 4
"""Runs of one workload whose events come at other times."""
MATCHED_EVENTS: Final = 1000


def plan(scale: Scale) -> list[Row]:
    sizes: tuple[int, ...]
    percents: tuple[float, ...]
    if scale.quick:
        sizes, percents, seeds, others = (2000,), (0.5, 2.0), scale.seeds(2), scale.seeds(1)
    else:
        sizes, percents, seeds, others = SUBSCRIPTIONS, tuple(DECAYS), scale.seeds(SEEDS), scale.seeds(OTHER_SEEDS)
    rows = [
        {"part": "chart", "protocol": protocol, "subscriptions": size, "percent": percent, "seed": seed, **USUAL}
        for protocol in PROTOCOLS
        for size in sizes
        for percent in percents
        for seed in (seeds if protocol == LINK_MATCHING else others)
    ]
    varied = {"laterals": (0,)} if scale.quick else VARIED
    rows += [
        {
            "part": "sensitivity",
            "protocol": protocol,
            "subscriptions": sizes[len(sizes) // 2],
            "percent": 0.5 if scale.quick else 1.0,
            "seed": seed,
            **USUAL,
            name: value,
        }
        for name, values in varied.items()
        for value in values
        for protocol in (LINK_MATCHING, FLOODING)
        for seed in (seeds[:1] if scale.quick else scale.seeds(VARIED_SEEDS))
    ]
    return rows


def costs_of(step_us: float, transport: float) -> Costs:
    usual = PAPER_FAST
    return replace(
        usual,
        step_s=step_us * 1e-6,
        receive_s=usual.receive_s * transport,
        send_s=usual.send_s * transport,
        deliver_s=usual.deliver_s * transport,
    )


def measure(
    protocol: str,
    subscriptions: int,
    percent: float,
    seed: int,
    laterals: int,
    zipf: float,
    locality: float,
    step_us: float,
    transport: float,
    tree: str,
    threshold: int,
    part: str = "chart",
) -> dict[str, Any]:
    name, options = PROTOCOLS[protocol]
    decay = DECAYS[percent]
    source = scenario("gryphon", seed=seed, attributes=15, values=3, decay=decay, zipf=zipf, locality=locality)
    grown = {"factored": ["a1"], **(PLAIN_TREE if tree == "plain" else {})}
    built = Network(network("gryphon-39", laterals=laterals), source, name, subscriptions, tree=grown, **options)
    costs = costs_of(step_us, transport)
    rates, routes = max_rates(built, costs, range(ARRIVALS), threshold=threshold)
    rate, error = mean_and_error(rates)
    limits = routes.limits(costs)
    _, matched = centralized(source, subscriptions, MATCHED_EVENTS, {"factored": ["a1"]})
    events = len(routes.entered)
    return {
        "decay": decay,
        "matched_percent": 100 * float(matched.mean()) / subscriptions,
        "max_rate": rate,
        "run_error": error,
        "full_cpu_rate": float(limits.min()),
        "busiest": routes.topology.brokers[int(limits.argmin())],
        "brokers_reached": routes.visits / events,
        "deliveries": float(routes.deliveries.sum()) / events,
        "steps": float(routes.steps.sum()) / routes.visits,
    }


# --- judging


def _rates(table: pa.Table, protocol: str, **values: Any) -> tuple[float, float]:
    return mean_and_error(floats(where(table, protocol=protocol, **values), "max_rate"))


def judge(table: pa.Table) -> list[Verdict]:
    chart = where(table, part="chart")
    sizes, percents = sorted(set(chart["subscriptions"].to_pylist())), sorted(set(chart["percent"].to_pylist()))
    flooding = [_rates(chart, FLOODING, subscriptions=size, percent=percent)[0] for size in sizes for percent in percents]
    spread = (max(flooding) - min(flooding)) / np.mean(flooding)
    few = [_gain(chart, size, percents[0]) for size in sizes]
    many = [_gain(chart, size, percents[-1]) for size in sizes]
    fewest, most = _gain(chart, sizes[0], percents[0]), _gain(chart, sizes[-1], percents[-1])
    errors = floats(chart, "run_error")
    between = [_rates(chart, LINK_MATCHING, subscriptions=size, percent=percent)[1] for size in sizes for percent in percents]
    ours = ""
    if where(chart, protocol=OURS).num_rows:
        ours = f"; with the clients in a tree of their own {_gain(chart, sizes[-1], percents[-1], OURS):.2f}"
    full = floats(chart, "max_rate") / floats(chart, "full_cpu_rate")
    return [
        Verdict(
            "Flooding overloads at the same rate whatever the matches and the subscriptions",
            "one flat line",
            f"{np.mean(flooding):.0f} events/s, {spread:.1%} between the lowest and the highest",
            bool(spread < 0.05),
        ),
        Verdict(
            "Link matching carries far higher rates when few subscriptions match",
            "much higher",
            f"{fewest:.2f} times flooding at {sizes[0]} subscriptions and {percents[0]} %",
            fewest > 1.3,
        ),
        Verdict(
            "The more match, the smaller the difference",
            "not as great",
            f"from {min(few):.2f}-{max(few):.2f} times flooding at {percents[0]} % "
            f"to {min(many):.2f}-{max(many):.2f} at {percents[-1]} %",
            all(high > low for high, low in zip(few, many, strict=True)),
        ),
        Verdict(
            "Link matching is never below flooding",
            "all lines above flooding's",
            f"{most:.2f} times flooding at {sizes[-1]} subscriptions and {percents[-1]} %{ours}",
            min(*few, *many) >= 1,
        ),
        Verdict(
            "The confidence interval is small",
            "± 5 events/s",
            f"± {np.median(between):.0f} (median), ± {max(between):.0f} (largest) over workloads, each the mean of "
            f"{ARRIVALS} runs; ± {np.median(errors):.0f} over the runs of one",
            bool(np.median(between) <= PAPER_ERROR),
        ),
        Verdict(
            "Overload begins where the busiest CPU is full (our check of the bisection)",
            "not shown",
            f"bisection / full CPU: {full.min():.2f} to {full.max():.2f}",
            bool(full.min() > 0.85 and full.max() < 1.2),
        ),
    ]


def _gain(chart: pa.Table, size: int, percent: float, protocol: str = LINK_MATCHING) -> float:
    """Link matching over flooding."""
    of = {"subscriptions": size, "percent": percent}
    return _rates(chart, protocol, **of)[0] / _rates(chart, FLOODING, **of)[0]


def summarize(table: pa.Table) -> pa.Table:
    chart, rows = where(table, part="chart"), []
    for (size, percent), part in groups(chart, "subscriptions", "percent"):
        row: Row = {
            "what": f"{size:,} subscriptions, D = {part['decay'][0].as_py()}",
            "match %": with_error(*mean_and_error(floats(part, "matched_percent")), 2),
        }
        for protocol in PROTOCOLS:
            row[protocol] = with_error(*_rates(part, protocol))
        row["LM / flooding"] = f"{_gain(chart, size, percent):.2f}"
        rows.append(row)
    for name, value, part in varied(table):
        row = {"what": f"{name} = {value}", "match %": with_error(*mean_and_error(floats(part, "matched_percent")), 2)}
        for protocol in (LINK_MATCHING, FLOODING):
            row[protocol] = with_error(*_rates(part, protocol))
        gain = _rates(part, LINK_MATCHING)[0] / _rates(part, FLOODING)[0]
        rows.append(row | {"LM / flooding": f"{gain:.2f}"})
    names = ["what", "match %", *PROTOCOLS, "LM / flooding"]
    return pa.table({name: [row.get(name, "") for row in rows] for name in names})


def varied(table: pa.Table) -> list[tuple[str, Any, pa.Table]]:
    """The rows of `sensitivity`, by what was changed."""
    part = where(table, part="sensitivity")
    found = []
    for name, usual in USUAL.items():
        for (value,), rows in groups(part, name):
            if value != usual:
                found.append((name, value, rows))
    return found


def draw(table: pa.Table, figure: Figure) -> None:
    rates, matters = figure.subplots(1, 2, width_ratios=(3, 2))
    chart = where(table, part="chart")
    number = 0
    for protocol, style in ((LINK_MATCHING, "-"), (OURS, "--"), (FLOODING, ":")):
        for (size,), part in groups(where(chart, protocol=protocol), "subscriptions"):
            points = []
            for (_,), same in groups(part, "percent"):
                mean, error = mean_and_error(floats(same, "max_rate"))
                points.append((floats(same, "matched_percent").mean(), mean, 0.0 if np.isnan(error) else error))
            x, y, errors = zip(*points, strict=True)
            first = protocol != FLOODING or size == chart["subscriptions"][0].as_py()
            if first:
                text = "flooding, clients filter" if protocol == FLOODING else f"{protocol}, {size:,}"
                rates.errorbar(x, y, errors, label=text, ls=style, capsize=3, **look(number % 3 if protocol != FLOODING else 6))
            number += 1
    label(rates, "subscriptions that match an event (%)", "highest rate (events/s per publisher)", "rate without overload")
    rates.set_ylim(bottom=0)
    rates.legend(fontsize=7.5, handlelength=3.5)
    rows = varied(table)
    names, gains = [], []
    base = (
        where(chart, subscriptions=rows[0][2]["subscriptions"][0].as_py(), percent=rows[0][2]["percent"][0].as_py())
        if rows
        else chart
    )
    for name, value, part in [("as", "drawn", base), *rows]:
        names.append(f"{name} {value}" if name == "as" else f"{name} = {value}")
        gains.append(_rates(part, LINK_MATCHING)[0] / _rates(part, FLOODING)[0])
    matters.barh(names[::-1], gains[::-1], color=["#56B4E9"] * (len(names) - 1) + ["#0072B2"])
    matters.axvline(1, color="black", lw=1)
    size = base["subscriptions"][0].as_py()
    label(matters, "link matching (paper) / flooding", "", f"what is not given, varied\n({size:,} subscriptions)")
    matters.tick_params(axis="y", labelsize=8)


EXPERIMENT: Final = Experiment(
    "link-matching/chart2",
    "Chart 2: the highest publish rate without overload",
    "Banavar et al. 1999, section 4.1",
    plan,
    measure,
    judge,
    summarize,
    draw,
    size_inches=(11.0, 5.0),
)
