"""What an experiment is: a plan, a function that measures one row of it, and how the table is judged and drawn.

    plan(scale) -> rows        measure(**row) -> results        judge(table) -> verdicts        draw(table, figure)

Rule: measure is a plain function of the row's plain values, so that Spark's workers can call it by name; judge and draw know
the table and nothing else, so that a kept table can be judged and drawn again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of it: `quick` is a small version that shows the same in seconds; seeds as asked for, or as usual."""

    quick: bool = False
    first_seed: int = 1
    seed_count: int | None = None
    networks: tuple[str, ...] = ()
    """Networks to measure on, by name or file, for experiments that take them; none: the experiment's own."""

    def seeds(self, usual: int) -> list[int]:
        return list(range(self.first_seed, self.first_seed + (self.seed_count or usual)))


class Verdict(NamedTuple):
    """A claim, what the paper has for it, what came out here, and whether that is the same finding."""

    claim: str
    paper: str
    ours: str
    holds: bool


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    source: str
    """The paper and its section, or who asked the question."""
    plan: Callable[[Scale], list[Row]]
    measure: Callable[..., Mapping[str, Any] | Sequence[Mapping[str, Any]]]
    judge: Callable[[pa.Table], list[Verdict]]
    summarize: Callable[[pa.Table], pa.Table]
    """The few rows that a reader wants to see."""
    draw: Callable[[pa.Table, Figure], None]
    version: int = 1
    """Grows when the function's results change: rows kept from before are then measured again."""
    size_inches: tuple[float, float] = field(default=(9.0, 5.5))
    takes_networks: bool = False
    same_rows: tuple[str, ...] = ()
    """Experiments with the same plan and measure: rows that one of them has are taken from there."""
