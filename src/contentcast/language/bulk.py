"""Predicates by the million: each shape (the text but for its literals) is parsed once, its literals are read by columns.

    issue = 'IBM' AND price < 120      issue = 'SAP' AND price < 9.5       one shape, two columns of literals

Most tables of subscriptions hold a handful of shapes. Arrow's regular expressions find them and pull the literals out; a shape
that is a plain conjunction of comparisons becomes columns of keys and values without a Python object per row; another fills
its tree with each row's literals. A text in which a literal cannot be told apart for certain is parsed by itself.
Rule: the result equals that of `parse_predicate` on each text, errors included (tests/properties/test_bulk.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.language import literals
from contentcast.language.errors import PredicateError
from contentcast.language.grammar import read_tree
from contentcast.language.operands import NotRead
from contentcast.language.parser import MOST_CHARS, check_length, parse_predicate, too_deep
from contentcast.language.quick import quick_tree
from contentcast.model.predicates import tree as nodes
from contentcast.model.predicates.normalise import normalise
from contentcast.model.predicates.table import PredicateTable, TableBuilder
from contentcast.model.space import Space
from contentcast.model.values.keys import KEYED, NO_FLOAT, float_keys, key_ends

Ints = npt.NDArray[np.int64]

_NAME: Final = r"`[^`]*`|[A-Za-z_][A-Za-z0-9_]*"
_A_STRING, _A_NUMBER = "\x01", "\x02"
# First the strings (and quoted names, which stay), then the numbers (and names, which stay): RE2 has no look-around.
_STRINGS: Final = rf"(?s)(`[^`]*`)|{literals.STRING}"
_NUMBERS: Final = rf"({_NAME})|{literals.NUMBER}"
_LEXED: Final = re.compile(rf"(?P<name>{_NAME})|(?P<string>{literals.STRING})|(?P<number>{literals.NUMBER})", re.DOTALL)
_DOUBTFUL: Final = re.compile(
    r"--|/\*|;|['\"]"  # comments, several statements, a quote left over
    rf"|[A-Za-z0-9_.]{_A_STRING}|{_A_STRING}\s*{_A_STRING}"  # X'1F', r'..', 'a' 'b'
    rf"|{_A_NUMBER}[A-Za-z0-9_.`{_A_NUMBER}]|[.]{_A_NUMBER}"  # 12L, 1_000, 1.2.3
)
_PLAIN_TIME: Final = r"^'[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}Z?'$"
_PLAIN_DATE: Final = r"^'[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}'$"
MOST_KEPT: Final = 500_000
"""Characters of shapes whose trees are kept between calls: subscriptions that come a thousand at a time have the shapes of the
last thousand. A tree takes some hundred bytes for a character."""
_KEPT: Final = [0]
_TREES: Final[dict[tuple[Space, str], nodes.Tree]] = {}
_LONGEST_SHAPE: Final = 1_000
"""A longer shape has its texts read one by one: a pattern with a group for each of its literals would be more than RE2 compiles
(20,000 strings in an IN list), and long texts of one shape are rare."""
_DEEPEST_SHAPE: Final = 10
"""A more deeply nested shape too: trees are filled with literals by recursion."""
_REGEX_WORD: Final = re.compile(r"rlike|regexp", re.IGNORECASE)
_MOST_REGEXES: Final = 8
"""A shape with more has its texts read one by one as well: the reader of one text counts what its regular expressions cost."""
_SMALLEST_GROUP: Final = 4
"""Fewer rows than this of one shape are parsed one by one: finding the literals would cost more."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a literal goes in a shape's tree."""

    index: int
    kind: str
    negative: bool


def parse_many(
    space: Space,
    texts: Sequence[str] | pa.Array | pa.ChunkedArray,
    *,
    on_error: Literal["raise", "reject"] = "raise",
    most_chars: int | None = MOST_CHARS,
) -> PredicateTable:
    """A table of the texts' predicates, in order. `on_error="reject"` keeps the errors in `table.refused` instead.

    A text of more than `most_chars` characters is refused; None takes texts of any length.
    """
    column, strange = _as_strings(texts)
    builder = TableBuilder(space)
    for row, text in strange.items():
        _add_text(builder, row, text, on_error, most_chars)
    alone = [np.zeros(0, np.int64)]
    for shape, rows in _by_shape(column):
        rows = rows if not strange else rows[~np.isin(rows, list(strange))]
        if len(rows) < _SMALLEST_GROUP or _is_large(shape) or _DOUBTFUL.search(shape):
            alone.append(rows)
        else:
            _add_shape(builder, shape, column.take(pa.array(rows)), rows, on_error, most_chars)
    together = np.sort(np.concatenate(alone))
    _add_rows(builder, column.take(pa.array(together)), together, on_error, most_chars)
    return builder.table(len(column))


def _is_large(shape: str) -> bool:
    return (
        len(shape) > _LONGEST_SHAPE
        or too_deep(shape, _DEEPEST_SHAPE) is not None
        or len(_REGEX_WORD.findall(shape)) > _MOST_REGEXES
    )


def _as_strings(texts: Sequence[Any] | pa.Array | pa.ChunkedArray) -> tuple[pa.Array, dict[int, Any]]:
    """One column of strings, and what cannot stand in one, by row. Arrow would make a text of a bool; here only text is one."""
    if isinstance(texts, (pa.Array, pa.ChunkedArray)):
        column = texts
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
            try:
                column.validate(full=True)
                return column.cast(pa.string()), {}
            except pa.ArrowInvalid:  # what is not UTF-8 is no text
                return _as_strings([_decoded(each) for each in column.cast(pa.binary()).to_pylist()])
        texts = column.to_pylist()
    given = list(texts)
    try:
        if set(map(type, given)) <= {str}:
            return pa.array(given, pa.string()), {}
    except UnicodeEncodeError:
        pass
    strange = {row: text for row, text in enumerate(given) if not _is_text(text)}
    return pa.array([None if row in strange else text for row, text in enumerate(given)], pa.string()), strange


def _decoded(raw: bytes | None) -> str | bytes | None:
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return raw


def _is_text(text: object) -> bool:
    return isinstance(text, str) and (text.isascii() or text.encode("utf-8", "replace").decode() == text)


def _by_shape(column: pa.Array) -> Iterator[tuple[str, Ints]]:
    """Each shape with the rows that have it; a text that itself holds a mark, or is missing, has a shape of its own."""
    shapes = pc.replace_substring_regex(column, _STRINGS, rf"\1{_A_STRING}")
    shapes = pc.replace_substring_regex(shapes, _NUMBERS, rf"\1{_A_NUMBER}")
    marked = pc.match_substring_regex(column, f"[{_A_STRING}{_A_NUMBER}]")
    shapes = pc.if_else(pc.fill_null(marked, True), ";", shapes)  # ';' is doubtful: parsed by itself
    encoded = shapes.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
    for at, shape in enumerate(encoded.dictionary.to_pylist()):
        yield shape, order[starts[at] : starts[at + 1]]


def _fail(builder: TableBuilder, row: int, error: PredicateError, on_error: str) -> None:
    if on_error == "raise":
        error.add_note(f"in predicate {row} of the table")
        raise error
    builder.refuse(row, error)


def _add_shape(builder: TableBuilder, shape: str, texts: pa.Array, rows: Ints, on_error: str, most_chars: int | None) -> None:
    example = texts[0].as_py()
    found = [each for each in _LEXED.finditer(example) if each.lastgroup != "name"]
    known = (builder.space, shape)
    tree = _TREES.get(known)
    if tree is None:
        tree = _shape_tree(builder.space, example, found)
        if tree is not None:
            if _KEPT[0] + len(shape) > MOST_KEPT:
                _TREES.clear()
                _KEPT[0] = 0
            _KEPT[0] += len(shape)
            _TREES[known] = tree
    if tree is None:
        _add_rows(builder, texts, rows, on_error, most_chars)
        return
    columns = _literal_columns(example, found, texts)
    by_columns = _conjunction_columns(builder.space, tree, columns)
    if by_columns is None:
        _fill_each(builder, tree, columns, texts, rows, on_error, most_chars)
        return
    wanted, doubtful, empty = by_columns
    sure = ~doubtful & ~empty
    builder.add_group(rows[sure], {name: _chosen(column, sure) for name, column in wanted.items()})
    if doubtful.any():
        _add_rows(builder, texts.filter(pa.array(doubtful)), rows[doubtful], on_error, most_chars)


def _add_rows(builder: TableBuilder, texts: pa.Array, rows: Ints, on_error: str, most_chars: int | None) -> None:
    for row, text in zip(rows.tolist(), texts.to_pylist(), strict=True):
        _add_text(builder, row, text, on_error, most_chars)


def _add_text(builder: TableBuilder, row: int, text: str, on_error: str, most_chars: int | None) -> None:
    try:
        if isinstance(text, str):
            check_length(text, "predicate", most_chars)
        tree = quick_tree(builder.space, text) if isinstance(text, str) else None
        builder.add(
            row, parse_predicate(builder.space, text, most_chars=most_chars) if tree is None else normalise(builder.space, tree)
        )
    except PredicateError as error:
        _fail(builder, row, error, on_error)


def _shape_tree(space: Space, example: str, found: list[re.Match[str]]) -> nodes.Tree | None:
    """The example's tree with slots for its literals; None if it does not parse or a literal would not be accounted for."""
    index_at = {each.start(): index for index, each in enumerate(found)}
    slots: set[int] = set()

    def read_literal(start: int, raw: str, kind: str, negative: bool) -> Slot:
        index = index_at[start]
        slots.add(index)
        return Slot(index, kind, negative)

    try:
        tree = read_tree(space, example, read_literal)
    except (NotRead, KeyError):
        return None
    return tree if len(slots) == len(found) else None


def _literal_columns(example: str, found: list[re.Match[str]], texts: pa.Array) -> list[pa.Array]:
    """The raw text of each literal, as one column per place."""
    if not found:
        return []
    pattern, at = ["(?s)^"], 0
    for index, each in enumerate(found):
        literal = literals.STRING if each.lastgroup == "string" else literals.NUMBER
        pattern.append(f"{re.escape(example[at : each.start()])}(?P<l{index}>{literal})")
        at = each.end()
    pattern.append(re.escape(example[at:]) + "$")
    parts = pc.extract_regex(texts, "".join(pattern))
    return [parts.field(index) for index in range(len(found))]


# --- a plain conjunction, by columns

Column: TypeAlias = Any
"""For each row (first, last) keys as two arrays, or as an Arrow array the one value wanted."""

Mask = npt.NDArray[np.bool_]


def _conjunction_columns(
    space: Space, tree: nodes.Tree, literal_columns: list[pa.Array]
) -> tuple[dict[str, Column], Mask, Mask] | None:
    """What the rows ask of each attribute; which rows must be parsed singly; which rows nothing satisfies."""
    tests = _plain_tests(space, tree)
    if not tests:
        return None
    count = len(literal_columns[0])
    wanted: dict[str, Column] = {}
    doubtful, empty = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    for name, op, slot in tests:
        raw = literal_columns[slot.index]
        if slot.kind == "string":
            wanted[name], unsure = _strings(raw)
        else:
            keys, unsure = _keys(slot, raw)
            first, last = wanted.get(name) or tuple(np.full(count, end) for end in key_ends(space.kinds[name]))
            first, last, nothing = _narrowed(first, last, op, keys, key_ends(space.kinds[name]))
            if slot.kind == "float":
                first, last = np.where(first == NO_FLOAT, 0, first), np.where(last == NO_FLOAT, NO_FLOAT - 1, last)
                nothing |= first > last
            wanted[name] = first, last
            empty |= nothing
        doubtful |= unsure
    return wanted, doubtful, empty & ~doubtful


def _plain_tests(space: Space, tree: nodes.Tree) -> list[tuple[str, str, Slot]] | None:
    """The tests of a conjunction, if each compares a number with a slot, or asks of a string, once, which value it is."""
    found: list[tuple[str, str, Slot]] = []
    for test in tree.parts if isinstance(tree, nodes.And) else (tree,):
        match test:
            case nodes.Compare(name, op, Slot() as slot) if op in ("=", "<", "<=", ">", ">="):
                found.append((name, op, slot))
            case nodes.Between(name, Slot() as low, Slot() as high):
                found += [(name, ">=", low), (name, "<=", high)]
            case _:
                return None
    strings = [(name, op) for name, op, _ in found if space[name].kind not in KEYED]
    return found if len(set(strings)) == len(strings) and all(op == "=" for _, op in strings) else None


def _strings(raw: pa.Array) -> tuple[pa.Array, Mask]:
    """String literals without their quotes. Not sure: one with an escape or a doubled quote inside."""
    unsure = pc.or_(pc.match_substring(raw, "\\"), pc.match_substring_regex(raw, "(?s)^.+(''|\"\").+$"))
    return pc.utf8_slice_codeunits(raw, 1, -1), unsure.to_numpy(zero_copy_only=False)


def _narrowed(first: Ints, last: Ints, op: str, keys: Ints, ends: tuple[int, int]) -> tuple[Ints, Ints, Mask]:
    """The closed range of keys that is left after one more test, and which rows have none left."""
    least, greatest = ends
    nothing = (keys == least) & (op == "<") | (keys == greatest) & (op == ">")
    if op in ("=", ">=", ">"):
        first = np.maximum(first, np.where(nothing, keys, keys + (op == ">")))
    if op in ("=", "<=", "<"):
        last = np.minimum(last, np.where(nothing, keys, keys - (op == "<")))
    return first, last, nothing | (first > last)


def _keys(slot: Slot, raw: pa.Array) -> tuple[Ints, Mask]:
    """Literals as keys. Not sure, and read singly: a fraction against an int, a number out of range, a time with a zone."""
    if slot.kind in ("timestamp", "date"):
        plain = pc.match_substring_regex(raw, _PLAIN_DATE if slot.kind == "date" else _PLAIN_TIME)
        texts = pc.utf8_slice_codeunits(pc.if_else(plain, raw, "'2000-01-01 00:00:00'"), 1, 11 if slot.kind == "date" else 20)
        try:
            ticks = texts.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:  # the 30th of February
            return np.zeros(len(raw), np.int64), np.ones(len(raw), np.bool_)
        return ticks, ~plain.to_numpy(zero_copy_only=False)
    if slot.kind == "float":
        numbers = raw.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return float_keys(-numbers if slot.negative else numbers), np.isinf(numbers)
    short = pc.match_substring_regex(raw, "^[0-9]{1,18}$")  # always within 64 bits
    numbers = pc.if_else(short, raw, "0").cast(pa.int64()).to_numpy(zero_copy_only=False)
    unsure = ~short.to_numpy(zero_copy_only=False)
    return (-numbers if slot.negative else numbers), unsure


def _chosen(column: Column, rows: Mask) -> Column:
    if isinstance(column, pa.Array):
        return column.filter(pa.array(rows)) if not rows.all() else column
    return column[0][rows], column[1][rows]


# --- any other shape, row by row


def _fill_each(
    builder: TableBuilder,
    tree: nodes.Tree,
    columns: list[pa.Array],
    texts: pa.Array,
    rows: Ints,
    on_error: str,
    most_chars: int | None,
) -> None:
    raws = [column.to_pylist() for column in columns]
    filled = _filler(tree)
    for at, row in enumerate(rows.tolist()):
        try:
            builder.add(row, normalise(builder.space, filled([raw[at] for raw in raws])))
        except (ValueError, RecursionError):  # this row's literal is refused: the plain parser says where and why
            _add_rows(builder, texts.slice(at, 1), rows[at : at + 1], on_error, most_chars)


def _filler(tree: nodes.Tree) -> Callable[[list[str]], nodes.Tree]:
    """What makes a tree of a row's literals, where the given one has slots for them."""
    match tree:
        case nodes.And(parts) | nodes.Or(parts):
            fillers, whole = [_filler(part) for part in parts], type(tree)
            return lambda raws: whole(tuple(fill(raws) for fill in fillers))
        case nodes.Not(part):
            fill = _filler(part)
            return lambda raws: nodes.Not(fill(raws))
        case nodes.Lowered(test) | nodes.Sized(test):
            inner, around = _filler(test), type(tree)
            return lambda raws: around(inner(raws))  # type: ignore[arg-type]
        case nodes.Exists(name, element, predicate) | nodes.ForAll(name, element, predicate):
            fill, of = _filler(predicate), type(tree)
            return lambda raws: of(name, element, fill(raws))
        case nodes.Compare() | nodes.TextTest() | nodes.Between() | nodes.Like() | nodes.Rlike() | nodes.InCidr():
            given = [getattr(tree, each.name) for each in fields(tree)]
            sort = type(tree)
            return lambda raws: sort(*(_read(each, raws) if isinstance(each, Slot) else each for each in given))
        case nodes.In(name, values):
            return lambda raws: nodes.In(name, tuple(_read(each, raws) if isinstance(each, Slot) else each for each in values))
    return lambda raws: tree


def _read(slot: Slot, raws: list[str]) -> Any:
    raw = raws[slot.index]
    if slot.kind == "string":
        return literals.read_string(raw)
    if slot.kind in ("timestamp", "date"):
        return literals.read_timestamp(literals.read_string(raw), date_only=slot.kind == "date")
    read = literals.read_float if slot.kind == "float" else literals.read_number
    return read(raw, slot.negative)
