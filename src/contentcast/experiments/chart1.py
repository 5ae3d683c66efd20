"""Chart 1: how a queue looks below, at and above the limit; and from which length in a short run it will grow without end.

Source: Banavar et al. 1999, section 4.1, "Network Loading Results". The set-up is that of chart 2, in the middle of it.
The rates are shares of the rate at which the busiest broker's CPU is full, so that they lie around the limit for every seed.
Rule: what a long run came to is read from its last third; the short run is its beginning, so both have the same luck.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.figures import COLOURS, label
from contentcast.experiments.limits import LONG_FACTOR, PILOT_EVENTS, SNAPSHOT_S
from contentcast.experiments.replay import replay
from contentcast.experiments.routes import Network, enough
from contentcast.experiments.rows import floats, groups, where
from contentcast.hosting.costs import PAPER_FAST
from contentcast.network.named import network
from contentcast.workload import scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARES: Final = (0.92, 0.95, 0.97, 0.98, 0.99, 1.0, 1.01, 1.02, 1.03, 1.05, 1.08)
DRAWN: Final = (0.95, 0.99, 1.01, 1.08)
QUICK_SHARES: Final = (0.92, 0.99, 1.01, 1.08)
SEEDS: Final = 12
CURVE_POINTS: Final = 300
RESAMPLED: Final = 300
PAPER_THRESHOLD: Final = (80, 12)
SETUP: Final = {"attributes": 15, "values": 3, "decay": 0.835}


def plan(scale: Scale) -> list[Row]:
    subscriptions, shares, seeds = (2000, QUICK_SHARES, 2) if scale.quick else (9750, SHARES, SEEDS)
    return [{"subscriptions": subscriptions, "shares": list(shares), "seed": seed} for seed in scale.seeds(seeds)]


def measure(subscriptions: int, shares: list[float], seed: int) -> list[dict[str, Any]]:
    """One network; a long run at each share of its limit."""
    costs, long_s = PAPER_FAST, SNAPSHOT_S * LONG_FACTOR
    source = scenario("gryphon", seed=seed, **SETUP)
    built = Network(network("gryphon-39"), source, "link-matching-paper", subscriptions, tree={"factored": ["a1"]})
    pilot = built.route(PILOT_EVENTS)
    wanted = enough(float(pilot.limits(costs).min()) * max(shares) * 1.1, long_s, len(pilot.publishers))
    routes = built.route(wanted)
    limits = routes.limits(costs)
    busiest, full = int(limits.argmin()), float(limits.min())
    found = []
    for share in shares:
        run = replay(routes, routes.times(share * full, long_s, seed), costs, long_s)
        times, lengths = run.curve(busiest)
        shown = np.linspace(0, SNAPSHOT_S, CURVE_POINTS)
        at = np.searchsorted(times, shown, side="right") - 1
        longest_after = run.waiting(busiest)[1]
        found.append(
            {
                "share": share,
                "rate": share * full,
                "full_rate": full,
                "broker": routes.topology.brokers[busiest],
                "longest_short": run.longest(busiest, SNAPSHOT_S),
                "longest_long": int(longest_after.max(initial=0)),
                "grows": not run.idle_after(busiest, long_s * 2 / 3),
                "curve_s": shown.tolist(),
                "curve": np.where(at >= 0, lengths[np.maximum(at, 0)] if len(lengths) else 0, 0).tolist(),
            }
        )
    return found


# --- judging


def threshold(longest: npt.NDArray[np.float64], grows: npt.NDArray[np.bool_], seed: int = 0) -> tuple[float, float, float]:
    """The length that best tells from the short run what the long run comes to; its error (half of a 95 % interval, by
    resampling the runs); and the share of runs that it foretells.
    """
    dice = np.random.default_rng(seed)
    found = []
    for _ in range(RESAMPLED):
        chosen = dice.integers(0, len(longest), len(longest))
        found.append(_best(longest[chosen], grows[chosen]))
    best = _best(longest, grows)
    low, high = np.percentile(found, [2.5, 97.5])
    return best, float(high - low) / 2, float(((longest >= best) == grows).mean())


def _best(longest: npt.NDArray[np.float64], grows: npt.NDArray[np.bool_]) -> float:
    """Of all lengths the one with the fewest runs on the wrong side; the middle one if there are several."""
    lengths = np.unique(longest)
    wrong = np.array([((longest >= each) != grows).sum() for each in lengths])
    return float(np.median(lengths[wrong == wrong.min()]))


def judge(table: pa.Table) -> list[Verdict]:
    shares, grows = floats(table, "share"), floats(table, "grows").astype(bool)
    low, high = grows[shares == shares.min()], grows[shares == shares.max()]
    found, error, right = threshold(floats(table, "longest_short"), grows)
    short = floats(table, "longest_short")
    drained, grew = short[~grows].max(initial=0), short[grows].min(initial=np.inf)
    middle = (short >= grew) & (short <= drained)
    rates = floats(table, "full_rate")
    return [
        Verdict(
            "Below the limit the queue drains, above it grows without end",
            "408 events/s drains, 450 grows",
            f"{shares.min():g} of {rates.mean():.0f} events/s: {int((~low).sum())} of {len(low)} runs drain; "
            f"{shares.max():g} of it: {int(high.sum())} of {len(high)} grow",
            bool(not low.any() and high.all()),
        ),
        Verdict(
            "Near the limit a short run looks ambiguous; ten times as long shows it",
            "417 and 425 look alike, one drains, one grows",
            f"{int(middle.sum())} of {len(short)} runs reach {grew:.0f} to {drained:.0f} in 1.5 s, of which both comes"
            if middle.any()
            else f"runs that drain reached {drained:.0f} in 1.5 s, those that grow {grew:.0f} or more",
            bool(middle.any()),
        ),
        Verdict(
            "A queue that reaches a threshold in 1.5 s grows without end, one that does not drains",
            "with high probability",
            f"it foretells {right:.0%} of {len(grows)} runs",
            right >= 0.8,
        ),
        Verdict(
            "The threshold",
            "{} ± {}".format(*PAPER_THRESHOLD),
            f"{found:.0f} ± {error:.0f}",
            abs(found - PAPER_THRESHOLD[0]) <= error + PAPER_THRESHOLD[1],
        ),
    ]


def summarize(table: pa.Table) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "share of full CPU": share,
                "events/s per publisher": round(float(floats(part, "rate").mean()), 1),
                "longest queue in 1.5 s (median)": int(np.median(floats(part, "longest_short"))),
                "longest in 15 s (median)": int(np.median(floats(part, "longest_long"))),
                "runs that grow": f"{int(floats(part, 'grows').sum())} of {part.num_rows}",
            }
            for (share,), part in groups(table, "share")
        ]
    )


def draw(table: pa.Table, figure: Figure) -> None:
    curves, fates = figure.subplots(1, 2, width_ratios=(3, 2))
    first = where(table, seed=table["seed"][0].as_py())
    shares = first["share"].to_pylist()
    drawn = [each for each in DRAWN if each in shares] or shares[:4]
    for number, row in enumerate(each for each in first.to_pylist() if each["share"] in drawn):
        curves.plot(
            row["curve_s"],
            row["curve"],
            color=COLOURS[number],
            lw=1.4,
            ls=("-", "--", "-.", "-")[number % 4],
            label=f"{row['rate']:.0f} events/s ({row['share']:.0%}): {'grows' if row['grows'] else 'drains'}",
        )
    found, error, _ = threshold(floats(table, "longest_short"), floats(table, "grows").astype(bool))
    curves.axhspan(found - error, found + error, color="grey", alpha=0.15)
    curves.axhline(found, color="grey", lw=1, label=f"threshold {found:.0f} ± {error:.0f}")
    broker = first["broker"][0].as_py()
    label(curves, "virtual time (s)", f"events waiting at {broker}", "the busiest queue in 1.5 s")
    curves.legend(fontsize=8, loc="upper left")
    for number, (grows, name) in enumerate(((False, "drains"), (True, "grows"))):
        part = where(table, grows=grows)
        fates.scatter(
            floats(part, "share") * 100,
            floats(part, "longest_short"),
            s=18,
            marker="os"[number],
            color=COLOURS[number],
            label=name,
        )
    fates.axhspan(found - error, found + error, color="grey", alpha=0.15)
    fates.axhline(found, color="grey", lw=1)
    label(
        fates, "publish rate (% of that which fills the CPU)", "longest queue in 1.5 s (events)", "what ten times as long shows"
    )
    fates.legend(title="after 15 s it", fontsize=8)


EXPERIMENT: Final = Experiment(
    "link-matching/chart1",
    "Chart 1: queue lengths below, at and above the limit",
    "Banavar et al. 1999, section 4.1",
    plan,
    measure,
    judge,
    summarize,
    draw,
    size_inches=(10.0, 4.5),
)
