"""The columns of several files that are read as one: those of all files, not those of the first alone.

    a.csv      issue,price              ->   issue, price, note
    b.csv      issue,price,note              a row of a.csv has no note
    a.parquet  volume: int32            ->   volume: int64
    b.parquet  volume: int64
    c.parquet  volume: string                is refused

Rule: each file is checked by itself against the space, and an error names the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from contentcast.model.errors import ContentcastError, EventError
from contentcast.model.events.checked_columns import check_header, checked_schema
from contentcast.model.events.intake import Unknown
from contentcast.model.space import Space


def csv_columns(headers: Iterable[tuple[str, Sequence[str]]], space: Space, unknown: Unknown | None) -> dict[str, str]:
    """The columns that the space does not have; they stay, as text. `headers`: of each file its name and its header."""
    found: dict[str, str] = {}
    for file, header in headers:
        if not header:  # an empty file
            continue
        with _naming(file):
            check_header(space, header, unknown)
        found |= {name: "string" for name in header if name and name not in space}
    return found


def table_columns(schemas: Iterable[tuple[str, pa.Schema]], space: Space, unknown: Unknown | None) -> pa.Schema:
    """The columns of all tables, with types that hold the values of each. `schemas`: of each file its name and its columns."""
    found: dict[str, pa.Field] = {}
    checked: list[pa.Schema] = []
    for file, schema in schemas:
        if schema in checked:
            continue
        with _naming(file):
            checked_schema(space, schema, unknown)
            for field in schema:
                before = found.get(field.name)
                found[field.name] = field if before is None else before.with_type(_common(before, field)).with_nullable(True)
        checked.append(schema)
    return pa.schema(list(found.values()))


def _common(one: pa.Field, other: pa.Field) -> pa.DataType:
    """The type that holds the values of both columns."""
    if one.type == other.type:
        return one.type
    types = [_plain(one.type), _plain(other.type)]
    if all(map(pa.types.is_timestamp, types)):  # no zone means UTC
        zone = next((each.tz for each in types if each.tz), None)
        types = [pa.timestamp(each.unit, zone) for each in types]
    # Arrow would also take bytes for text, and numbers for the truth.
    if pa.types.is_binary(types[0]) == pa.types.is_binary(types[1]):
        pair = [pa.schema([pa.field(one.name, each)]) for each in types]
        try:
            return pa.unify_schemas(pair, promote_options="permissive").field(0).type
        except pa.ArrowException:
            pass
    raise EventError(f"column {one.name} is {other.type} here and {one.type} in another file; write them alike")


def _plain(type_: pa.DataType) -> pa.DataType:
    """Without dictionaries and long offsets, which are ways to store the same values."""
    if pa.types.is_dictionary(type_):
        return _plain(type_.value_type)
    return {pa.large_string(): pa.string(), pa.string_view(): pa.string(), pa.large_binary(): pa.binary()}.get(type_, type_)


@contextmanager
def _naming(file: str) -> Iterator[None]:
    try:
        yield
    except ContentcastError as reason:
        raise type(reason)(f"{file}: {reason}") from None
