"""Many events as dicts of plain values: made into columns and checked by columns, not value by value.

    [{"issue": "IBM", "price": 119.5}, {"issue": "SAP"}]     issue ["IBM", "SAP"]   price [119.5, null]

Rule: only what `RowChecker` would take as it is comes out. Anything else (another type, an unknown name, a nested object, a
value outside its domain) gives None; then `RowChecker` looks at each event and names what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from contentcast.model.events.arrow_columns import check_column
from contentcast.model.space import Space

FROM_EVENTS: Final = 40
"""Fewer events are checked faster one by one: 16 in 0.6 of the time, 32 in 0.9. 1,000 take 3.7 times as long one by one."""
_ABSENT: Final = type(None)
_TAKEN: Final[dict[str, frozenset[type]]] = {
    "string": frozenset({str, _ABSENT}),
    "int": frozenset({int, _ABSENT}),
    "float": frozenset({float, int, _ABSENT}),
    "bool": frozenset({bool, _ABSENT}),
    "bytes": frozenset({bytes, _ABSENT}),
}


def plain_columns(space: Space, events: Sequence[Any]) -> list[pa.Array] | None:
    if set(map(type, events)) != {dict} or not all(map(frozenset(space.names).issuperset, events)):
        return None
    columns = []
    for name, kind in space.kinds.items():
        taken = _TAKEN.get(kind.name)
        values = [event.get(name) for event in events]
        if taken is None or not taken.issuperset(map(type, values)):
            return None
        try:
            column, complaints = check_column(space, name, pa.array(values, kind.arrow))
        except (pa.ArrowException, OverflowError, UnicodeEncodeError):  # beyond 64 bits, not exact as a double, no Unicode
            return None
        if complaints:
            return None
        columns.append(column)
    return columns
