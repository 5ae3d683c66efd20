"""What the figures of subscription propagation share: values of one approach, ratios between two, and how they are drawn.

Rule: a ratio is between two approaches of the same way (model or real), network, sigma and subsumption.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from contentcast.experiments.figures import label, look
from contentcast.experiments.rows import floats, groups, where
from contentcast.experiments.summaries.periods import BASELINE, COVERING, SUMMARIES, VARIANTS
from contentcast.experiments.summaries.setting import WAYS, main_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def ratios(table: pa.Table, column: str, over: str, under: str = SUMMARIES) -> dict[tuple[str, str, int, float], float]:
    """How many times more `over` takes than `under`, by network, way, sigma and subsumption; seeds averaged."""
    found = {}
    for key, same in groups(table, "where", "way", "sigma", "subsumption"):
        values = [floats(where(same, approach=each), column) for each in (over, under)]
        found[key] = float(values[0].mean() / values[1].mean())
    return found


def span(values: list[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f}" if values else "not measured"


def chosen(found: dict[tuple[str, str, int, float], float], way: str, *, main: bool = True) -> list[float]:
    """The ratios on the first network, which is the paper's unless the user names others, or on all others."""
    first = next(iter(found))[0]
    return [value for (network, mine, _, _), value in found.items() if mine == way and (network == first) == main]


def extremes(found: dict[tuple[str, str, int, float], float], way: str) -> str:
    """The lowest and the highest ratio on the first network, each with its sigma and subsumption."""
    first = next(iter(found))[0]
    values = {key: value for key, value in found.items() if key[0] == first and key[1] == way}
    ends = [pick(values, key=lambda each: values[each]) for pick in (min, max)]
    return " to ".join(f"{values[each]:.1f} (sigma {each[2]:,}, subsumption {each[3]:g})" for each in ends)


def side_by_side(table: pa.Table, column: str) -> pa.Table:
    """A row for each network, way, sigma and subsumption; a column for each approach, and covering over summaries."""
    approaches = [each for each in (*VARIANTS, COVERING, BASELINE) if each in table["approach"].to_pylist()]
    rows = []
    for (network, way, sigma, subsumption), same in groups(table, "where", "way", "sigma", "subsumption"):
        values = {each: floats(where(same, approach=each), column) for each in approaches}
        rows.append(
            {
                "network": network,
                "by": way,
                "sigma": f"{sigma:,}",
                "subsumption": f"{subsumption:g}",
                **{each: f"{found.mean():,.0f}" if len(found) else "" for each, found in values.items()},
                "covering to summaries": f"{values[COVERING].mean() / values[SUMMARIES].mean():.1f}",
            }
        )
    return pa.Table.from_pylist(rows)


def over_sigma(table: pa.Table, figure: Figure, column: str, axis: str) -> None:
    """A panel for each way; covering and summaries at each subsumption, the baseline once."""
    for axes, way in zip(figure.subplots(1, 2).flat, WAYS, strict=True):
        part = main_rows(table, way)
        degrees = sorted(set(part["subsumption"].to_pylist()))
        number = 0
        for approach in dict.fromkeys(part["approach"].to_pylist()):
            shown = (degrees[0], degrees[-1]) if approach in (SUMMARIES, COVERING) else (degrees[0],)
            for subsumption in shown:
                rows = where(part, approach=approach, subsumption=subsumption)
                points = [(sigma, floats(same, column).mean()) for (sigma,), same in groups(rows, "sigma")]
                suffix = f", {subsumption:g}" if len(shown) > 1 else ""
                axes.loglog(*zip(*points, strict=True), label=f"{approach}{suffix}", **look(number))
                number += 1
        label(axes, "new subscriptions at each broker", axis, way)
        axes.legend(fontsize=7)


def growth(table: pa.Table, way: str, approach: str, column: str) -> float | None:
    """The slope of a line in the double logarithmic picture: 1 is in proportion, 0 is flat; None if there is one sigma only."""
    part = where(main_rows(table, way), approach=approach)
    slopes = []
    for _, same in groups(part, "subsumption"):
        points = sorted((sigma, floats(rows, column).mean()) for (sigma,), rows in groups(same, "sigma"))
        if len(points) > 1:
            x, y = (np.log([each[at] for each in points]) for at in (0, 1))
            slopes.append(float(np.polyfit(x, y, 1)[0]))
    return float(np.mean(slopes)) if slopes else None
