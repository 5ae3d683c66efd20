"""Joins of events with rules, by Polars and by DuckDB: one equi-join for each shape of rule, then a filter.

The shape of a rule is the set of attributes that it tests by equality or by a narrow range: symbol; symbol and exchange; price.
Narrow ranges are joined on cells (see `cells`): Polars' own inequality join took 5 to 11 s for a batch of W2 100k, where all
joins here took 0.05 to 0.1 s. Wide ranges are left to the filter; text tests are the condition of a join of their own. Where
nearly each rule has a shape of its own, a shape is only its first two attributes, and the filter does the rest.

Tried and left out: all shapes in one join on one column of integer keys, text tests as pieces of the events' texts. No faster
on W2; 2 to 4 times as fast on W1, where bitmaps lead at 1k and 10k, while at 100k it was ahead of the thin ones (22.6 k against
14.9 k events/s in one run); 50 times as fast on strings, where hyperscan leads. Single runs on a busy machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.peers.cells import Cells, for_joins
from benchmarks.peers.rules import Ints, Matches, Rules

MOST_SHAPES: Final = 1024


class Shape(NamedTuple):
    """Rules of one shape, with a column for each test: `is a`, `cell a`, `low a`, `high a`, `text a`. Null: no such test.

    `on`: the columns of the join (on the events' side `a` and `cell a`). The others are for the filter.
    """

    on: dict[str, str]
    """Column of the events -> column of the rules."""
    same: tuple[str, ...]
    between: tuple[str, ...]
    text: tuple[str, str] | None
    """The attribute and startswith, endswith or contains."""
    table: pa.Table


def cells_of(rules: Rules) -> dict[str, Cells]:
    found = {name: for_joins(ranges) for name, ranges in rules.between.items()}
    return {name: cells for name, cells in found.items() if cells is not None}


def shapes(rules: Rules, cells: Mapping[str, Cells]) -> Iterator[Shape]:
    table = _table(rules)
    for names, members in _by_attributes(rules, cells):
        part = table.take(pa.array(members))
        used = [name for name in part.column_names if part[name].null_count < len(members)]
        same = tuple(name for name in rules.equal if name not in names and f"is {name}" in used)
        between = tuple(name for name in rules.between if f"low {name}" in used)
        part = _without_null_bounds(part.select(used), between)
        for name in names:
            if name in cells:
                part = _with_cells(part, name, cells[name])
        on = {f"cell {name}" if name in cells else name: f"{'cell' if name in cells else 'is'} {name}" for name in names}
        texts = [name for name in rules.texts if f"how {name}" in used]
        if not texts:
            yield Shape(on, same, between, None, part)
        for name in texts:
            hows = np.array(part[f"how {name}"].to_pylist(), object)
            for how in dict.fromkeys(hows.tolist()):
                yield Shape(on, same, between, (name, how), part.take(pa.array(np.flatnonzero(hows == how))))


def _table(rules: Rules) -> pa.Table:
    columns: dict[str, Any] = {"rule": pa.array(np.arange(rules.count))}
    for name, tests in rules.equal.items():
        columns[f"is {name}"] = tests.value.take(_row_of(rules, tests.rule))
    for name, ranges in rules.between.items():
        columns[f"low {name}"] = pa.array(ranges.low).take(_row_of(rules, ranges.rule))
        columns[f"high {name}"] = pa.array(ranges.high).take(_row_of(rules, ranges.rule))
    for name, texts in rules.texts.items():
        columns[f"how {name}"] = pa.array(texts.how).take(_row_of(rules, texts.rule))
        columns[f"text {name}"] = pa.array(texts.text).take(_row_of(rules, texts.rule))
    return pa.table(columns)


def _row_of(rules: Rules, tested: Ints) -> pa.Array:
    where = np.full(rules.count, -1, np.int64)
    where[tested] = np.arange(len(tested))
    return pa.array(where, mask=where < 0)


def _by_attributes(rules: Rules, cells: Mapping[str, Cells]) -> Iterator[tuple[tuple[str, ...], Ints]]:
    names = [name for name in rules.attributes if name in rules.equal or name in cells]
    tested = np.zeros((rules.count, len(names)), np.bool_)
    for at, name in enumerate(names):
        tested[(rules.equal.get(name) or rules.between[name]).rule, at] = True
    kinds, which = np.unique(tested, axis=0, return_inverse=True)
    if len(kinds) > MOST_SHAPES:
        tested &= np.cumsum(tested, axis=1) <= 2
        kinds, which = np.unique(tested, axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    members = np.split(order, np.cumsum(np.bincount(which.ravel()))[:-1])
    for kind, each in zip(kinds, members, strict=True):
        yield tuple(name for name, yes in zip(names, kind, strict=True) if yes), each


def _without_null_bounds(table: pa.Table, between: tuple[str, ...]) -> pa.Table:
    """Rules of the shape without this range get the greatest one: the filter then needs no test for null."""
    for name in between:
        for side in ("low", "high"):
            column = table[f"{side} {name}"]
            ends = (-np.inf, np.inf) if pa.types.is_floating(column.type) else (-(2**63), 2**63 - 1)
            filled = column.fill_null(pa.scalar(ends[side == "high"], column.type))
            table = table.set_column(table.column_names.index(f"{side} {name}"), f"{side} {name}", filled)
    return table


def _with_cells(table: pa.Table, name: str, cells: Cells) -> pa.Table:
    """A row for each cell that the rule meets."""
    rule = table["rule"].to_numpy()
    first = np.searchsorted(cells.rule, rule)
    count = np.searchsorted(cells.rule, rule, side="right") - first
    nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    rows = np.repeat(np.arange(len(rule)), count)
    return table.take(pa.array(rows)).append_column(f"cell {name}", pa.array(cells.code[first[rows] + nth]))


def with_cells(events: pa.RecordBatch, cells: Mapping[str, Cells]) -> pa.Table:
    """The events with their row number and a cell for each attribute that has some."""
    table = pa.Table.from_batches([events]).append_column("event", pa.array(np.arange(events.num_rows)))
    for name, each in cells.items():
        table = table.append_column(f"cell {name}", pa.array(each.of(events.column(name).to_numpy())))
    return table


class Polars:
    """Lazy queries, one for each shape, collected together."""

    def __init__(self, rules: Rules) -> None:
        import polars as pl

        col = pl.col
        text_tests = {
            "startswith": lambda name: col(name).str.starts_with(col(f"text {name}")),
            "endswith": lambda name: col(name).str.ends_with(col(f"text {name}")),
            "contains": lambda name: col(name).str.contains(col(f"text {name}"), literal=True),
        }
        self._cells = cells_of(rules)
        self._shapes: list[tuple[Shape, Any, list[Any]]] = []
        for shape in shapes(rules, self._cells):
            tests = [col(f"is {name}").is_null() | (col(f"is {name}") == col(name)) for name in shape.same]
            for name in shape.between:
                tests += [col(name) >= col(f"low {name}"), col(name) <= col(f"high {name}")]
            if shape.text is not None:
                tests.append(text_tests[shape.text[1]](shape.text[0]))
            self._shapes.append((shape, pl.DataFrame(shape.table).lazy(), tests))

    def match(self, events: pa.RecordBatch) -> Matches:
        import polars as pl

        rows = pl.DataFrame(with_cells(events, self._cells)).lazy()
        queries = []
        for shape, rules, tests in self._shapes:
            if shape.on:
                joined = rows.join(rules, left_on=list(shape.on), right_on=list(shape.on.values()))
                joined = joined.filter(*tests) if tests else joined
            else:
                joined = rows.join_where(rules, *tests) if tests else rows.join(rules, how="cross")
            queries.append(joined.select("event", "rule"))
        found = pl.concat(pl.collect_all(queries))
        return Matches(found["rule"].to_numpy(), event=found["event"].to_numpy())


class Duck:
    """One query: the shapes' joins under UNION ALL."""

    def __init__(self, rules: Rules) -> None:
        import duckdb

        self._connection = duckdb.connect(config={"threads": 1})
        self._cells = cells_of(rules)
        text_tests = {"startswith": "starts_with", "endswith": "ends_with", "contains": "contains"}
        queries = []
        for number, shape in enumerate(shapes(rules, self._cells)):
            self._connection.register("given", shape.table)
            self._connection.execute(f"CREATE TABLE rules_{number} AS SELECT * FROM given")
            tests = [f'events."{mine}" = rules_{number}."{theirs}"' for mine, theirs in shape.on.items()]
            tests += [f'("is {name}" IS NULL OR "is {name}" = "{name}")' for name in shape.same]
            for name in shape.between:
                tests += [f'"{name}" >= "low {name}"', f'"{name}" <= "high {name}"']
            if shape.text is not None:
                name, how = shape.text
                tests.append(f'{text_tests[how]}("{name}", "text {name}")')
            queries.append(f"SELECT event, rule FROM events JOIN rules_{number} ON {' AND '.join(tests) or 'TRUE'}")
        self._query = " UNION ALL ".join(queries)

    def match(self, events: pa.RecordBatch) -> Matches:
        self._connection.register("events", with_cells(events, self._cells))
        found = self._connection.execute(self._query).fetchnumpy()
        return Matches(found["rule"], event=found["event"])
