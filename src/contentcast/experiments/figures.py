"""How figures look: colours that colour-blind readers tell apart, units on the axes, the paper's claim under the picture.

Source: Okabe & Ito 2008, Color Universal Design; every line also has a marker of its own.
Rule: only this file and the experiments' `draw` import matplotlib, when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from contentcast.experiments.contract import Experiment, Verdict
from contentcast.model import ContentcastError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
DOTS_PER_INCH: Final = 130
CAPTION_COLUMNS_PER_INCH: Final = 15.5

STYLE: Final[Any] = {
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "font.size": 10,
    "axes.titlesize": 11,
}


def look(number: int) -> dict[str, Any]:
    """The colour and marker of the n-th line."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)], "markersize": 5}


def label(axes: Axes, x: str, y: str, title: str = "") -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title)


def draw(experiment: Experiment, table: pa.Table, verdicts: Sequence[Verdict], path: Path) -> Path:
    """The figure as a PNG file, with the claims and what came out beneath it."""
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ContentcastError(
            "figures need matplotlib, which is not installed: pip install 'contentcast[experiments]'"
        ) from None
    with rc_context(STYLE):
        figure = Figure(figsize=experiment.size_inches)
        FigureCanvasAgg(figure)
        experiment.draw(table, figure)
        figure.suptitle(experiment.title, fontsize=12, fontweight="bold")
        width, height = experiment.size_inches
        caption = "\n".join(
            fill(f"{each.claim}. Paper: {each.paper}. Here: {each.ours}.", int(width * CAPTION_COLUMNS_PER_INCH))
            for each in verdicts
        )
        lines = caption.count("\n") + 1
        inches = 0.2 + 0.13 * lines
        figure.set_size_inches(width, height + inches)
        figure.tight_layout(rect=(0, inches / (height + inches), 1, 1))
        figure.text(0.02, 0.08 / (height + inches), caption, fontsize=8, va="bottom", color="#333333")
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f".{path.name}")
        figure.savefig(made, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})  # the same on every version
        made.replace(path)
    return path
