"""What all experiments of this family share: means of columns, a table to read, lines and bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from contentcast.experiments.figures import label, look
from contentcast.experiments.rows import floats, groups, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def mean(table: pa.Table, column: str, **values: object) -> float:
    return float(floats(where(table, **values), column).mean())


def summary(table: pa.Table, by: tuple[str, ...], *columns: str) -> pa.Table:
    """A row for each group, with the means of these columns."""
    rows = []
    for key, same in groups(table, *by):
        shown = {column: f"{floats(same, column).mean():,.2f}" for column in columns}
        rows.append({**{name: str(value) for name, value in zip(by, key, strict=True)}, **shown})
    return pa.Table.from_pylist(rows)


def lines(axes: Axes, table: pa.Table, by: str, x: str, y: str, titles: tuple[str, str], log: bool = False) -> None:
    for number, ((name,), part) in enumerate(groups(table, by)):
        points = sorted((at, float(floats(same, y).mean())) for (at,), same in groups(part, x))
        (axes.loglog if log else axes.plot)(*zip(*points, strict=True), label=str(name), **look(number))
    label(axes, *titles)
    axes.legend(fontsize=8)


def bars(axes: Axes, table: pa.Table, by: tuple[str, ...], y: str, titles: tuple[str, str], log: bool = False) -> None:
    named = [(" ".join(map(str, key)), float(floats(same, y).mean())) for key, same in groups(table, *by)]
    axes.bar([name for name, _ in named], [value for _, value in named], color=look(0)["color"])
    axes.tick_params(axis="x", labelrotation=30, labelsize=7)
    if log:
        axes.set_yscale("log")
    label(axes, *titles)
