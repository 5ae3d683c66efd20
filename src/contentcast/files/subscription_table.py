"""A table of subscriptions as it lies in files and as matching wants it.

    subscription  predicate        subscriber  broker
    7             price < 120      desk-7      b1
    8             prise < 120      desk-8      b1        refused: trades has no attribute 'prise'; did you mean 'price'?
    9             volume > 10      desk-9      b2
    9             volume > 11      desk-9      b2        refused: subscription 9 is given already; the first is kept

Ids are ints or texts. In a .csv file all values are texts, but for ids if each of them is written as an int is. In a .txt file
each line is a predicate, and its id is the number of the line. Columns of other names are told as `id` and `predicate`; here
they have the names above.
Rule: a row is either kept or refused with its reason, and a refused one stops no other; all its columns stay with the reason.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from contentcast.model.errors import ContentcastError, nearest
from contentcast.model.events.checked_columns import separator_hint
from contentcast.model.plain_files import meant
from contentcast.model.text_tables import check_utf8, plain_ids, read_csv_texts, read_json_texts

ID: Final = "subscription"
TEXT: Final = "predicate"
REASON: Final = "reason"
REFUSED: Final = pa.schema([(ID, pa.int64()), (TEXT, pa.string()), (REASON, pa.string())])
"""The columns of a refused row; those that a table has besides come after them."""
NO_PREDICATE: Final = "the predicate is null; TRUE asks for every event"
GIVEN_ALREADY: Final = "is given already; the first is kept"


@dataclass(frozen=True)
class FileTable:
    """Subscriptions in a file, or in a folder of tables, that may be replaced while a stream runs."""

    path: Path
    id: str = ID
    predicate: str = TEXT

    def __str__(self) -> str:
        return str(self.path)

    @property
    def files(self) -> list[Path]:
        if not self.path.exists():
            raise ContentcastError(f"there is no subscription file {self.path}{meant(self.path)}")
        if self.path.is_file():
            return [self.path]
        found = sorted(
            each for each in self.path.rglob("*") if each.suffix.lower() in _IN_FOLDERS and not _hidden(each, self.path)
        )
        if not found:
            raise ContentcastError(f"{self.path} holds no subscriptions; they come as {_endings()}")
        return found

    @property
    def has_columns(self) -> bool:
        return True

    def fingerprint(self) -> str:
        """Changes when a file is replaced, added or removed."""
        stats = [
            (str(each), status.st_size, status.st_mtime_ns, status.st_ino) for each in self.files if (status := each.stat())
        ]
        return hashlib.blake2b(repr(stats).encode(), digest_size=8).hexdigest()

    def read(self) -> pa.Table:
        parts: list[pa.Table] = []
        texts: list[pa.Table] = []
        for each in self.files:
            reader = _READERS.get(each.suffix.lower())
            if reader is None:
                raise ContentcastError(f"{each}: subscriptions come as {_endings()}, not {each.suffix or 'without an ending'}")
            try:
                (texts if each.suffix.lower() == ".csv" else parts).append(reader(each))
            except (pa.ArrowException, OSError) as reason:
                raise ContentcastError(f"{each} cannot be read: {reason}") from None
        try:
            if texts:  # whether ids are ints is a question to all of these files
                parts.append(self._of_csv(pa.concat_tables(texts, promote_options="default")))
            return renamed(pa.concat_tables(parts, promote_options="default"), self.id, self.predicate)
        except pa.ArrowException as reason:
            raise ContentcastError(f"the files of {self.path} have different columns: {reason}") from None

    def _of_csv(self, table: pa.Table) -> pa.Table:
        for name, change in ((self.id, plain_ids), (self.predicate, lambda column: pc.fill_null(column, ""))):
            if table.column_names.count(name) == 1:
                table = table.set_column(table.column_names.index(name), name, change(table[name]))
        return table


def _hidden(path: Path, above: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(above).parts)


def _endings() -> str:
    return ", ".join(_READERS)


def _read_lines(path: Path) -> pa.Table:
    """One predicate a line; empty lines and lines that begin with # are passed over."""
    lines = check_utf8(path, path.read_bytes()).splitlines()
    rules = [(number, line.strip()) for number, line in enumerate(lines, start=1) if _is_rule(line)]
    return pa.table({ID: pa.array([each[0] for each in rules], pa.int64()), TEXT: pa.array([each[1] for each in rules])})


def _is_rule(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


_READERS: Final[dict[str, Any]] = {
    ".parquet": pyarrow.parquet.read_table,
    ".csv": read_csv_texts,
    ".jsonl": read_json_texts,
    ".txt": _read_lines,
}
_IN_FOLDERS: Final = tuple(ending for ending in _READERS if ending != ".txt")
"""A .txt file among tables is a note to the reader rather than a list of rules."""


def renamed(table: pa.Table, id: str, predicate: str) -> pa.Table:
    """With the user's own columns under the names that are used here."""
    for mine, theirs in ((ID, id), (TEXT, predicate)):
        if mine == theirs:
            continue
        if theirs not in table.column_names:
            raise ContentcastError(f"the subscriptions have no column {theirs!r}{nearest(theirs, table.column_names)}")
        if mine in table.column_names:
            raise ContentcastError(f"the subscriptions have a column {mine} beside {theirs}; rename or drop it")
        table = table.rename_columns([mine if name == theirs else name for name in table.column_names])
    return table


@dataclass(frozen=True)
class Checked:
    """`columns` has what a match gives out, `texts` the predicates, row by row; `refused` the rows that have no usable id."""

    columns: pa.Table
    texts: pa.ChunkedArray
    refused: pa.Table

    def refuse(self, errors: dict[int, ContentcastError]) -> pa.Table:
        """All that was refused, with the rows whose predicate cannot be read."""
        rows = pa.array(sorted(errors), pa.int64())
        reasons = pa.array([_plain(str(errors[row])) for row in sorted(errors)], pa.string())
        reasons = pc.if_else(pc.is_null(self.texts.take(rows)), NO_PREDICATE, reasons)
        more = _refused_rows(self.columns, self.texts, rows, reasons)
        return pa.concat_tables([self.refused, more]).combine_chunks()


def _refused_rows(columns: pa.Table, texts: pa.ChunkedArray, rows: pa.Array, reasons: pa.Array) -> pa.Table:
    others = [name for name in columns.column_names if name not in REFUSED.names]
    taken = [columns[ID].take(rows), texts.take(rows), reasons, *(columns[name].take(rows) for name in others)]
    return pa.table(dict(zip([*REFUSED.names, *others], taken, strict=True)))


def check_table(table: pa.Table) -> Checked:
    for name in (ID, TEXT):
        if name not in table.column_names:
            near = nearest(name, table.column_names, "they have")
            kind, option = ("int or text", "id") if name == ID else ("text", "predicate")
            raise ContentcastError(
                f"the subscriptions have no column {name!r}{near}; they need {name} ({kind}), or say which it is: {option}="
                + separator_hint(table.column_names)
            )
        if table.column_names.count(name) > 1:
            raise ContentcastError(f"the subscriptions have the column {name} twice; rename or drop one")
    table = plain_columns(table)
    ids, texts = table[ID], table[TEXT]
    if pa.types.is_null(ids.type) or pa.types.is_integer(ids.type):
        ids = ids.cast(pa.int64())
    elif not pa.types.is_string(ids.type) and len(table):
        raise ContentcastError(f"subscription ids are ints or texts, and the column {ID} is {ids.type}; cast it first")
    if not pa.types.is_string(texts.type) and not pa.types.is_null(texts.type):
        raise ContentcastError(f"predicates are text, and the column {TEXT} is {texts.type}; cast it first")
    texts = texts.cast(pa.string())
    table = table.set_column(table.column_names.index(ID), pa.field(ID, ids.type), ids).drop_columns([TEXT])
    first = _first_of_each(ids)
    kept, wrong = pa.array(np.flatnonzero(first)), pa.array(np.flatnonzero(~first))
    said = [
        "the subscription has no id (null)" if each is None else f"subscription {each} {GIVEN_ALREADY}"
        for each in ids.take(wrong).to_pylist()
    ]
    refused = _refused_rows(table, texts, wrong, pa.array(said, pa.string()))
    if len(wrong):
        table, texts = table.take(kept), texts.take(kept)
    return Checked(table.combine_chunks(), texts, refused)


def _first_of_each(ids: pa.ChunkedArray) -> Any:
    """For each row whether it is the first with its id."""
    present = ids.is_valid().to_numpy()
    whole = ids.combine_chunks() if ids.num_chunks != 1 else ids.chunk(0)
    codes = whole.drop_null().dictionary_encode().indices.to_numpy() if len(whole) else np.zeros(0, np.int64)
    first = np.zeros(len(present), np.bool_)
    first[np.flatnonzero(present)[np.unique(codes, return_index=True)[1]]] = True
    return first


def plain_columns(table: pa.Table) -> pa.Table:
    """Without dictionaries and large types, timestamps in microseconds: as a worker of Spark has them."""
    for at, field in enumerate(table.schema):
        wanted = _plain_type(field.type)
        if wanted != field.type:
            table = table.set_column(at, pa.field(field.name, wanted), table[at].cast(wanted))
    return table


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type_):
        return _plain_type(type_.value_type)
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", None if type_.tz is None else "UTC")
    large = {pa.large_string(): pa.string(), pa.string_view(): pa.string(), pa.large_binary(): pa.binary()}
    return large.get(type_, type_)


def _plain(text: str) -> str:
    """What a text column can hold; the error of a text that is none quotes its bytes."""
    return text.encode("utf-8", "backslashreplace").decode()


def has_clash(mine: list[str], theirs: list[str], case_sensitive: bool) -> list[str]:
    """Which names would come twice in one row of the result."""
    folded = {each if case_sensitive else each.casefold() for each in theirs}
    return [each for each in mine if (each if case_sensitive else each.casefold()) in folded]
