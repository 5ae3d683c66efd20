"""Running an experiment: its plan through `spread`, then its table judged, drawn and shown.

    out/rows/*.parquet      out/results.parquet      out/figure.png      out/verdicts.json      out/report.md

Rule: rows that are there are not measured again; judging and drawing always happen anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Scale, Verdict
from contentcast.experiments.figures import draw
from contentcast.model import ContentcastError
from contentcast.spark.spread import Tell, spread

SparkSession: TypeAlias = Any
"""Only contentcast.spark imports pyspark."""


@dataclass(frozen=True)
class Outcome:
    table: pa.Table
    summary: pa.Table
    verdicts: list[Verdict]
    figure: Path


def run(
    experiment: Experiment,
    out: Path,
    scale: Scale,
    *,
    spark: SparkSession | None = None,
    fresh: bool = False,
    tell: Tell | None = None,
) -> Outcome:
    """Without `spark` the rows are measured here, one after the other."""
    if scale.networks and not experiment.takes_networks:
        raise ContentcastError(f"{experiment.name} has its own networks; leave --network out, or run one of summaries/")
    rows = experiment.plan(scale)
    if not fresh:
        _take_rows(experiment, out)
    table = spread(experiment.measure, rows, out=out, spark=spark, version=experiment.version, fresh=fresh, tell=tell)
    verdicts = experiment.judge(table)
    figure = draw(experiment, table, verdicts, out / "figure.png")
    told = [{**each._asdict(), "holds": bool(each.holds)} for each in verdicts]  # NumPy has a bool of its own
    (out / "verdicts.json").write_bytes(msgspec.json.format(msgspec.json.encode(told)))
    summary = experiment.summarize(table)
    (out / "report.md").write_text(report(experiment, summary, verdicts), encoding="utf-8")
    return Outcome(table, summary, verdicts, figure)


def _take_rows(experiment: Experiment, out: Path) -> None:
    """A row's file is named by what was measured, so one that another experiment wrote is as good."""
    ending = out.name.removeprefix(experiment.name.rpartition("/")[2])  # -quick
    for name in experiment.same_rows:
        there = out.with_name(name.rpartition("/")[2] + ending) / "rows"
        for file in there.glob("*.parquet") if name != experiment.name else ():
            mine = out / "rows" / file.name
            if not mine.exists():
                mine.parent.mkdir(parents=True, exist_ok=True)
                copyfile(file, mine)


def report(experiment: Experiment, summary: pa.Table, verdicts: list[Verdict]) -> str:
    """The claims and the numbers as a page of Markdown; this is how docs/experiments has them."""
    claims = [(each.claim, each.paper, each.ours, "yes" if each.holds else "**no**") for each in verdicts]
    numbers = [tuple("" if value is None else str(value) for value in row.values()) for row in summary.to_pylist()]
    return "\n\n".join(
        [
            f"# {experiment.title}",
            f"{experiment.source}.",
            _markdown(("claim", "the paper", "here", "holds"), claims),
            _markdown(summary.column_names, numbers),
            f"![{experiment.title}](figure.png)\n",
        ]
    )


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(each)} |" for each in lines)
