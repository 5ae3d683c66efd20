"""Events from JSON lines, by columns where that gives what reading line by line would give.

There are two ways. The careful one decodes a line, looks at every value and says what is wrong with which attribute. The quick
one hands a piece of many lines to Arrow's JSON reader with the columns of the space; it takes about an eighth of the time. A
piece that the quick way refuses, or in which it might see something otherwise than the careful way, is cut into smaller ones,
and those that are refused again are read carefully.
Rule: the careful way decides. What the quick way lets through has one object a line, no name twice, no int that a double would
change, and no complaint.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isinf
from typing import Any, Final, Unpack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from contentcast.model.errors import EventError
from contentcast.model.events.arrow_columns import Complaint, check_column, check_objects
from contentcast.model.events.event_batch import EventBatch, concat, flattened, one_chunk
from contentcast.model.events.intake import How, Intake, Unreadable
from contentcast.model.events.rows import DEEPEST, ONE_A_LINE, Rejection
from contentcast.model.space import Space
from contentcast.model.values.kinds import Kind

PIECE_LINES: Final = 4_096
"""Lines that go to Arrow together: a few megabytes at most, and enough that a call costs nothing."""
CUT_INTO: Final = 8
"""A piece that is refused is cut into so many."""
FEWEST_LINES: Final = 16
"""Fewer are read carefully at once: a call of Arrow's reader costs as much as ten of them."""
QUICK_KINDS: Final = frozenset(["string", "int", "float", "bool", "timestamp", "bytes"])
EXACT: Final = 2.0**53
"""From here on a double may stand for several ints."""

Line = str | bytes


def from_json_lines(space: Space, lines: Iterable[Line], **how: Unpack[How]) -> EventBatch:
    """One JSON object a line; empty lines are passed over, and count as lines."""
    written = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    return read_lines(space, [line for _, line in written], [number for number, _ in written], Intake.of(how))


def read_lines(space: Space, lines: Sequence[Line], numbers: Sequence[int], intake: Intake, first: int = 0) -> EventBatch:
    """Lines that are not empty, with their numbers in a file; the events are numbered from `first` on."""
    reader = _Reader(space, intake)
    batches = [
        batch
        for start in range(0, len(lines), PIECE_LINES)
        for batch in reader.read(lines[start : start + PIECE_LINES], numbers[start : start + PIECE_LINES], first + start)
    ]
    return concat(batches) if batches else EventBatch.from_rows(space, [], intake=intake)


class _Reader:
    def __init__(self, space: Space, intake: Intake) -> None:
        self.space, self.intake = space, intake
        self._dotted = [name for name in space.names if "." in name]

    def read(self, lines: Sequence[Line], numbers: Sequence[int], first: int) -> Iterator[EventBatch]:
        quick = self._quick(lines, first)
        if quick is not None:
            yield quick
        elif len(lines) >= CUT_INTO * FEWEST_LINES:
            part = -(-len(lines) // CUT_INTO)
            for start in range(0, len(lines), part):
                yield from self.read(lines[start : start + part], numbers[start : start + part], first + start)
        else:
            yield self._careful(lines, numbers, first)

    def _careful(self, lines: Sequence[Line], numbers: Sequence[int], first: int) -> EventBatch:
        rows = ((number, decode(line)) for number, line in zip(numbers, lines, strict=True))
        return EventBatch.from_rows(self.space, rows, intake=self.intake, from_text=True, first=first)

    # --- by columns

    def _quick(self, lines: Sequence[Line], first: int) -> EventBatch | None:
        """None if the lines must be looked at one by one."""
        if len(lines) < FEWEST_LINES or not all(map(_is_simple, lines)):
            return None
        example = decode(lines[0])
        if not isinstance(example, Mapping):
            return None
        try:
            text = b"\n".join(each if isinstance(each, bytes) else each.encode() for each in lines)
        except UnicodeEncodeError:
            return None
        given_flat = {name for name in self._dotted if name in example}
        if self.intake.unknown == "ignore" and self._spelt_otherwise(text, given_flat):
            return None
        schema = self._schema(example, given_flat)
        if schema is None:
            return None
        try:
            table = pyarrow.json.read_json(
                pa.BufferReader(text),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=self.intake.unknown),
            )
            if table.num_rows != len(lines):
                return None
            columns = self._columns(flattened(table))
        except (pa.ArrowException, EventError, UnicodeDecodeError):
            return None
        if columns is None:
            return None
        batch = EventBatch.from_columns(self.space, columns, len(lines), None, self.intake)
        ids = pc.add(batch.ids, first) if first else batch.ids
        return EventBatch(self.space, batch.records, ids)

    def _spelt_otherwise(self, text: bytes, given_flat: set[str]) -> bool:
        """May an attribute be written here nested and not dotted, or dotted and not nested? Arrow would pass over it."""
        if not self._dotted:
            return False
        if b"\\u" in text and _ESCAPED_NAME.search(text):
            return True
        for name in self._dotted:
            parts = name.split(".")
            if name in given_flat:
                others = {".".join(parts[:end]) for end in range(1, len(parts))}
            else:
                ends = [(start, end) for start in range(len(parts)) for end in range(start + 2, len(parts) + 1)]
                others = {".".join(parts[start:end]) for start, end in ends}
            if any(json.dumps(each, ensure_ascii=False).encode() in text for each in others):
                return True
        return False

    def _schema(self, example: Mapping[str, Any], given_flat: set[str]) -> pa.Schema | None:
        """The columns as these lines write them; None if an attribute is inside of another, or of a kind that only the careful
        way reads: Arrow would round the ints in a list of floats.
        """
        if any(kind.name not in QUICK_KINDS for kind in self.space.kinds.values()):
            return None
        tree: dict[str, Any] = {}
        for name, kind in self.space.kinds.items():
            path = [name] if name in given_flat else name.split(".")
            level = tree
            for part in path[:-1]:
                level = level.setdefault(part, {})
                if not isinstance(level, dict):
                    return None
            if path[-1] in level:
                return None
            level[path[-1]] = _written_as(kind, _inside(example, path))
        return pa.schema(_fields(tree))

    def _columns(self, table: pa.Table) -> dict[str, tuple[pa.Array, list[Complaint]]] | None:
        columns = {}
        for name, kind in self.space.kinds.items():
            column = one_chunk(table.column(name))
            if _may_have_changed(column):
                return None
            if kind.name == "bytes":
                checked = check_objects(self.space, name, column.to_pylist(), self.intake, from_text=True)
            else:
                checked = check_column(self.space, name, column, self.intake)
            if checked[1]:
                return None
            columns[name] = checked
        return columns


_ESCAPED_NAME: Final = re.compile(rb'"[^"\n]*\\u[^"\n]*"\s*:')


def _is_simple(line: Line) -> bool:
    """Is it one object and no more, and not deep? `}` before and `{` after a line break stand only between two objects."""
    if isinstance(line, bytes):
        line = line.strip()
        return line[:1] == b"{" and line[-1:] == b"}" and line.count(b"{") + line.count(b"[") <= DEEPEST and b"\n" not in line
    line = line.strip()
    return line[:1] == "{" and line[-1:] == "}" and line.count("{") + line.count("[") <= DEEPEST and "\n" not in line


def _inside(example: Any, path: Sequence[str]) -> Any:
    for part in path:
        example = example.get(part) if isinstance(example, Mapping) else None
    return example


def _written_as(kind: Kind, example: Any) -> pa.DataType:
    """The type under which Arrow reads it: the attribute's own, or as the first line writes it."""
    if kind.name == "timestamp":
        if isinstance(example, bool) or not isinstance(example, (int, float)):
            return pa.string()
        return pa.int64() if isinstance(example, int) else pa.float64()
    if kind.name == "bytes":
        return pa.string()
    return pa.float64() if kind.name == "int" and isinstance(example, float) else kind.arrow


def _fields(tree: Mapping[str, Any]) -> list[pa.Field]:
    return [pa.field(name, pa.struct(_fields(each)) if isinstance(each, dict) else each) for name, each in tree.items()]


def _may_have_changed(column: pa.Array) -> bool:
    """Was a number read as a double that may have been an int which no double equals?"""
    if not pa.types.is_floating(column.type) or column.null_count == len(column):
        return False
    largest = pc.max(pc.abs(column)).as_py()
    return bool(pc.any(pc.is_nan(column)).as_py()) or largest >= EXACT


# --- one line


def decode(line: Line) -> Any:
    """What the line says, or why it is no JSON."""
    text = line if isinstance(line, str) else line.decode("utf-8", "surrogateescape")
    try:
        if text.count("{") + text.count("[") > DEEPEST:
            _check_depth(text)
        return _DECODER.decode(text)
    except json.JSONDecodeError as reason:
        why = f"not JSON: {reason.msg} at column {reason.colno}" + (f"; {ONE_A_LINE}" if _PART.fullmatch(text) else "")
    except RecursionError:
        why = "nested too deeply"
    except ValueError as reason:
        why = str(reason)
    return Rejection(0, None, text.rstrip("\r\n"), why)


_PART: Final = re.compile(r'\s*(?:[\[\]{}],?|\{.*\},|"(?:[^"\\]|\\.)*"\s*:.*)\s*', re.DOTALL)
"""A line as it stands in an array, or in an object over several lines: `[`, `{...},`, `"price": 5,`, `},`."""


def _check_depth(line: str) -> None:
    """Before json reads it: that recurses, and how deep it can depends on who calls."""
    depth = 0
    for sign in _SIGNS.finditer(line):
        depth += (sign[0] in "{[") - (sign[0] in "}]")
        if depth > DEEPEST:
            raise ValueError(f"nested too deeply, at column {sign.start() + 1}: objects go {DEEPEST} deep")


# A string that is never closed ends the search: nothing after it is looked at twice.
_SIGNS = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z)|[{}\[\]]', re.DOTALL)


def float_of(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise ValueError(f"{text} is beyond the range of a float")
    return value


def int_of(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"{text[:20]}... is beyond every number here: {len(text)} digits")
    return int(text)


MOST_DIGITS: Final = 400
"""The longest int that a float can equal has 309; Python itself refuses beyond 4300 and says so in its own words."""


def _float_or_why(text: str) -> float | Unreadable:
    value = float(text)
    return Unreadable(f"{text} is beyond the range of a float", text) if isinf(value) else value


def _int_or_why(text: str) -> int | Unreadable:
    if len(text) > MOST_DIGITS:
        return Unreadable(f"{text[:20]}... is beyond every number here: {len(text)} digits", text)
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    for name, value in pairs:
        if name in seen:
            found[name] = Unreadable(f"{name} is given twice", value)
        seen.add(name)
    return found


# What json would change silently it must not: 1e999 to infinity, and the first of two values of one name to nothing. Whether
# that matters depends on whether the space has the name.
_DECODER: Final = json.JSONDecoder(parse_float=_float_or_why, parse_int=_int_or_why, object_pairs_hook=_object)
