"""A summary as a table that a person can read: attribute, row, and who is in it.

    trades: 2 entries of 1 broker (A: version 1), exact
    attribute  row                     entries
    price      = 8.2                   A:2
               > 8.3 AND < 8.7         A:1
    symbol     LIKE 'OT%'              A:2

Rule: at most MOST_ROWS rows of an attribute and MOST_IDS entries of a row are shown; what is left out is counted.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from contentcast.matching.summaries.columns import Columns, Rows
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.values.kinds import Value
from contentcast.model.values.patterns import escaped
from contentcast.model.values.ranges import Interval, prefix_of

MOST_ROWS: Final = 20
MOST_IDS: Final = 8


def describe(columns: Columns, precision: str) -> str:
    brokers = ", ".join(f"{name}: version {version}" for name, version in zip(columns.brokers, columns.versions, strict=True))
    head = f"{columns.space}: {_count(len(columns), 'entry', 'entries')} of {_count(len(columns.brokers), 'broker')}"
    lines = [("attribute", "row", "entries")]
    names = np.array(columns.brokers, object)[columns.broker_of] if columns.brokers else np.empty(0, object)
    for name, rows in columns.rows.items():
        shown = [row for row in range(len(rows.offsets) - 1) if len(rows.of_row(row))]
        for at, row in enumerate(shown[:MOST_ROWS]):
            lines.append((name if not at else "", _row(rows, row), _members(columns, rows, row, names)))
        if len(shown) > MOST_ROWS:
            lines.append(("", f"... and {len(shown) - MOST_ROWS} more rows", ""))
    widths = [max(len(line[at]) for line in lines) for at in (0, 1)]
    table = [f"{first:<{widths[0]}}  {second:<{widths[1]}}  {third}".rstrip() for first, second, third in lines]
    return "\n".join([f"{head}{f' ({brokers})' if brokers else ''}, {precision}", *table])


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _members(columns: Columns, rows: Rows, row: int, names: np.ndarray) -> str:
    members = rows.of_row(row).tolist()
    shown = [f"{names[each]}:{columns.ids[each]}" for each in members[:MOST_IDS]]
    more = f" ... {len(members):,} in all" if len(members) > MOST_IDS else ""
    return " ".join(shown) + more


def _row(rows: Rows, row: int) -> str:
    return said(rows.constraint(row))


def said(constraint: Constraint) -> str:
    """A constraint without its attribute's name."""
    if constraint.absent and not constraint.ranges:
        return "IS NULL"
    parts = [] if constraint.ranges.is_everything and not constraint.only_ranges else [_ranges(constraint)]
    parts += [each.said for each in constraint.like]
    parts += [f"NOT {each.said}" for each in constraint.unlike]
    return " AND ".join(parts)


def _ranges(constraint: Constraint) -> str:
    if constraint.ranges.is_everything:
        return "IS NOT NULL"
    pairs = list(constraint.ranges.pairs())
    prefix = prefix_of(*pairs[0]) if len(pairs) == 1 else None
    if prefix is not None:
        return f"LIKE '{escaped(prefix)}%'"
    return " OR ".join(_interval(each) for each in constraint.ranges.intervals())


def _interval(each: Interval) -> str:
    if each.low == each.high and each.low is not None:
        return f"= {_value(each.low)}"
    sides = [] if each.low is None else [f"{'>=' if each.low_closed else '>'} {_value(each.low)}"]
    sides += [] if each.high is None else [f"{'<=' if each.high_closed else '<'} {_value(each.high)}"]
    return " AND ".join(sides)


def _value(value: Value) -> str:
    return str(value) if not isinstance(value, (str, bytes)) else repr(value)
