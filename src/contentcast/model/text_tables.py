"""Tables in text files, with the values as they are written: nothing is guessed from how a value looks.

    subscription,predicate,broker       007 stays a text, as do 01, TRUE, 08:00 and 2024-01-01
    007,price < 120,01

Ids alone may be ints: if each of a column is written as an int is (7, not 007 or +7), the column is ints.
Rule: a value of a text file comes out as it stands there, or its file is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from contentcast.model.errors import ContentcastError
from contentcast.model.events.checked_columns import csv_header

_PLAIN_INT: Final = r"\A(?:0|-?[1-9][0-9]*)\z"


def read_csv_texts(path: Path) -> pa.Table:
    """All columns as text. An empty field is null, a quoted empty one the empty text."""
    content = path.read_bytes()
    check_utf8(path, content)
    return pyarrow.csv.read_csv(
        pa.BufferReader(content),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in csv_header(content)},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )


def read_json_texts(path: Path) -> pa.Table:
    """JSON lines by columns. What stands in quotes is a text, also if it looks like a time."""
    check_utf8(path, path.read_bytes())
    found = pyarrow.json.read_json(path)
    plain = pa.schema([field.with_type(_without_times(field.type)) for field in found.schema])
    if plain == found.schema:
        return found
    return pyarrow.json.read_json(path, parse_options=pyarrow.json.ParseOptions(explicit_schema=plain))


def plain_ids(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Ints, if each id is written as an int is; else the column as it came."""
    if not pa.types.is_string(column.type) or column.null_count == len(column):
        return column
    if not pc.all(pc.match_substring_regex(column, _PLAIN_INT)).as_py():
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:  # beyond 64 bits
        return column


def check_utf8(path: Path, content: bytes) -> str:
    """The text of the file; one in another encoding is refused with the line where that shows."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as reason:
        line = content.count(b"\n", 0, reason.start) + 1
        found = content[reason.start : reason.start + 1]
        raise ContentcastError(f"{path}, line {line}: {found!r} is not UTF-8 text; save the file as UTF-8") from None


def _without_times(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_temporal(type_):
        return pa.string()
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_without_times(field.type)) for field in type_])
    return pa.list_(_without_times(type_.value_type)) if pa.types.is_list(type_) else type_
