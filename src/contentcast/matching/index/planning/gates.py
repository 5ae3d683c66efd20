"""A gate: what an event must show before it looks at the entries behind it; and what looking costs.

    equal    the codes of one or more attributes, looked up in a hash table         symbol = 'IBM' AND exchange = 'NYSE'
    cells    the cell of a grid over one attribute into which the event's value falls (`grids`)   price BETWEEN 8.3 AND 8.7
    text     the numbers of the text tests that the event's value satisfies          venue LIKE '%dark%'
    open     none: every event looks at the entries behind it

The costs are in nanoseconds, measured on the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

PROBE_NS: Final = 12.0
CANDIDATE_NS: Final = 0.3
TEST_NS: Final = 0.15
BITMAPS: Final = -1
"""In place of a gate's number: the entry lives in the bitmaps."""

Test = tuple[str, Any]
"""('word', number of the half), ('range' | 'low' | 'high' | 'set', attribute) or ('text', attribute)."""


@dataclass(frozen=True, slots=True)
class Gate:
    """`kind` as above; `mask` under which a word's codes are the key (equal), or `attribute` (cells, text)."""

    kind: str
    word: int = 0
    mask: int = 0
    attribute: str = ""


OPEN_GATE: Final = Gate("open")
