"""A benchmark's result: printed as tables, written as NAME.json (all numbers) and NAME.md (the tables and how to read them)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from benchmarks import machine


@dataclass(frozen=True)
class Table:
    """The first column names the rows; all cells are text. `strong`: rows that the reader looks for first."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    strong: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Result:
    name: str
    title: str
    about: Sequence[str]
    """Paragraphs: what was measured, and how."""
    tables: Sequence[Table]
    notes: Sequence[str]
    """What the reader should know about single cells; and whether the targets hold."""
    data: dict[str, Any]
    quick: bool = False
    facts: dict[str, Any] = field(default_factory=machine.facts)
    when: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d"))

    def show(self, console: Console) -> None:
        console.print(f"\n[bold]{self.title}[/bold]")
        for table in self.tables:
            shown = RichTable(title=table.title or None, box=box.SIMPLE_HEAD, title_justify="left")
            for at, name in enumerate(table.header):
                shown.add_column(name, justify="left" if at == 0 else "right")
            for name, *cells in table.rows:  # headers may break at their spaces, numbers not
                kept = [cell.replace(" ", "\u00a0") for cell in cells]
                shown.add_row(name, *kept, style="bold" if name in table.strong else None)
            console.print(shown)
        for note in self.notes:
            console.print(f"- {note}", highlight=False, markup=False)

    def write(self, folder: Path) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        described = {"benchmark": self.name, "date": self.when, "quick": self.quick, "machine": self.facts, **self.data}
        texts = {f"{self.name}.json": json.dumps(described, indent=2) + "\n", f"{self.name}.md": self.markdown()}
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        return [folder / name for name in texts]

    def markdown(self) -> str:
        quick = " This was a quick run: smaller sizes, fewer rounds." if self.quick else ""
        parts = [f"# {self.title}", *self.about]
        for table in self.tables:
            parts += [f"## {table.title}"] if table.title else []
            parts.append(_markdown_table(table))
        parts.append("\n".join(f"- {note}" for note in self.notes))
        parts.append(f"Measured on {self.when}: {self._machine()}{quick} Again: `make bench ARGS={self.name}`.")
        return "\n\n".join(part for part in parts if part) + "\n"

    def _machine(self) -> str:
        facts = self.facts
        packages = ", ".join(f"{name} {version}" for name, version in facts["packages"].items())
        return (
            f"{facts['processor']}, {facts['cores']} cores (load {facts['load']} at the start), {facts['memory_gb']} GB, "
            f"{facts['system']}, Python {facts['python']}; {packages}."
        )


def _markdown_table(table: Table) -> str:
    rows = [table.header, ["---", *["---:"] * (len(table.header) - 1)], *table.rows]
    lines = []
    for row in rows:
        cells = [f"**{cell}**" if row[0] in table.strong and cell else cell for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def human(number: float) -> str:
    """Three digits: 1.25 M, 373 k, 26.4."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size * 0.9995:
            return f"{_three(number / size)}{letter}"
    return _three(number)


def _three(number: float) -> str:
    return f"{number:.0f}" if number >= 99.95 else f"{number:.1f}" if number >= 9.995 else f"{number:.2f}"


def times(ratio: float) -> str:
    return f"{_three(ratio)} x"
