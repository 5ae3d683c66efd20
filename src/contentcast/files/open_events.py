"""Files of events, or standard input: found and checked at once, and then read a piece at a time.

    opened = open_events(["logs/*.jsonl.gz"], space)       a misspelt name, an unknown ending, a wrong column: told here
    for read, taken in opened.pieces(): ...                events and bad records, and how many bytes of the files they took

Files of one call have one format, as in `spark.read_events`, and give the same columns as there: of JSON lines those of the
space, of CSV also the others of all files as text, of a table all of its own.
Rule: opening reads no event; reading holds one piece at a time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa

from contentcast.files.columns_of_all import csv_columns, table_columns
from contentcast.model.errors import ContentcastError, EventError
from contentcast.model.events.checked_columns import checked_schema, csv_header
from contentcast.model.events.event_files import COMPRESSIONS, STDIN, format_of, open_bytes
from contentcast.model.events.intake import How, Intake, Unknown
from contentcast.model.events.records import (
    FILE,
    LINE,
    Columns,
    CsvFiles,
    JsonTexts,
    Read,
    Reader,
    set_aside,
)
from contentcast.model.plain_files import check_plain, meant
from contentcast.model.space import Space

FORMATS: Final = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".orc": "orc"}
"""By the files' ending."""
PIECE_BYTES: Final = 4 * 2**20
PIECE_ROWS: Final = 65_536
LONGEST_LINE: Final = 64 * 2**20
HEADER_BYTES: Final = 65_536
_LINES_OF_FILES: Final = pa.schema([pa.field(FILE, pa.string())])


@dataclass(frozen=True)
class OpenEvents:
    """`bytes`: of all files as they lie, None for standard input."""

    reader: Reader
    bytes: int | None
    _read: Callable[[], Iterator[tuple[Read, int]]]

    @property
    def schema(self) -> pa.Schema:
        return self.reader.schema

    def pieces(self) -> Iterator[tuple[Read, int]]:
        return self._read()


def _through(reader: Reader, raw: Callable[[], Iterator[tuple[pa.RecordBatch, int]]], bytes: int | None) -> OpenEvents:
    """Raw records of which the reader makes events."""

    def read() -> Iterator[tuple[Read, int]]:
        for batch, taken in raw():
            for each in reader.read(batch):
                yield each, taken
                taken = 0

    return OpenEvents(reader, bytes, read)


def open_events(given: Sequence[str], space: Space, *, format: str | None = None, how: How | None = None) -> OpenEvents:
    """`format`: of all files, where their endings do not say it. `how`: the words of `model.events.intake`."""
    words = How(**how) if how else How()
    Intake.of(words)
    if STDIN in given:
        if len(given) > 1:
            raise EventError("events come from standard input (-) or from files, not from both")
        if format not in (None, "jsonl"):
            raise EventError(f"standard input has JSON lines, not {format}; write it to a file first")
        return _through(JsonTexts(space, LINE, _LINES_OF_FILES, set_aside(words)), _from_stdin, None)
    found = format or format_of_files(given)
    files = files_of(given, found if format is None else None)
    size = sum(each.stat().st_size for each in files)
    match found:
        case "jsonl":
            texts = JsonTexts(space, LINE, _LINES_OF_FILES, set_aside(words))
            return _through(texts, lambda: _json_lines(files), size)
        case "csv":
            beside = csv_columns(((str(each), _header(each)) for each in files), space, words.get("unknown"))
            reader = CsvFiles(space, beside, set_aside(words))
            return OpenEvents(reader, size, lambda: _csv_files(reader, files))
        case "parquet" | "orc":
            table = _dataset(given, files, found, space, words.get("unknown"))
            schema = checked_schema(space, table.schema, words.get("unknown"))
            return _through(Columns(space, schema, set_aside(words)), lambda: _table_pieces(table, size), size)
    raise EventError(f"{found} is read by Spark alone; add --spark, or convert the events to Parquet")


# --- which files


def check_there(given: Sequence[str]) -> None:
    """Names what is not there, with what it may be a slip of. Addresses of other machines are left to who opens them."""
    for each in given:
        if each == STDIN or "://" in each:
            continue
        path = Path(each)
        if path.exists():
            check_plain(path)
        elif any(letter in each for letter in "*?[{"):
            if "{" not in each and not glob(each, recursive=True):
                raise EventError(f"no file has a name like {each}")
        else:
            raise EventError(f"there is no event file {each}{meant(path)}")


def files_of(given: Sequence[str], format: str | None) -> list[Path]:
    """All files that are meant, patterns and folders opened; of a folder those of the format, if it is told."""
    check_there(given)
    found: list[Path] = []
    for path in (Path(name) for each in given for name in sorted(_found(each))):
        if path.is_dir():
            inside = [one for one in sorted(path.rglob("*")) if one.is_file() and not _hidden(one, path)]
            found += [one for one in inside if format is None or FORMATS.get(_ending(one)) == format]
        else:
            found.append(path)
    if not found:
        raise EventError(f"there are no events in {', '.join(given)} yet")
    return found


def endings(paths: Sequence[str]) -> set[str]:
    """Of the files, of those in a folder, of those that a pattern finds; of a packed file both endings."""
    seen: set[str] = set()
    for each in (found for given in paths for found in _found(given)):
        folder = Path(each)
        inside = folder.rglob("*") if "://" not in each and folder.is_dir() else [folder]
        for path in inside:
            if path.suffix and not path.name.startswith((".", "_")):
                packed = path.suffix.lower() in COMPRESSIONS
                seen.add("".join(path.suffixes[-2:] if packed else path.suffixes[-1:]).lower())
    return seen


def _found(given: str) -> list[str]:
    """What a pattern finds, or the name itself; a pattern may say the ending as well (`*.csv`), and Spark knows some more."""
    is_pattern = any(letter in given for letter in "*?[") and "://" not in given and not Path(given).exists()
    return (glob(given, recursive=True) if is_pattern else []) or [given]


def format_of_files(paths: Sequence[str], stream: bool = False) -> str:
    """By the endings of the files."""
    seen = endings(paths)
    formats = {FORMATS[each] for each in (each.removesuffix(".gz").removesuffix(".zst") for each in seen) if each in FORMATS}
    if len(formats) == 1:
        return formats.pop()
    if stream and not seen:
        return "parquet"  # an empty folder, to be filled
    named, known = ", ".join(paths), ", ".join(FORMATS)
    if len(formats) > 1:
        raise EventError(
            f"{named}: files of one format at a time, and these end in {', '.join(sorted(seen))}; name some of them"
        )
    ended = f"the ending {' or '.join(sorted(seen))} does not say" if seen else "no file has an ending that says"
    formats_known = ", ".join(dict.fromkeys(FORMATS.values()))
    raise EventError(f"{named}: {ended} how the events are written (known: {known}); say it: --format {formats_known} or delta")


def _ending(path: Path) -> str:
    packed = path.suffix.lower() in COMPRESSIONS
    return (path.suffixes[-2] if packed and len(path.suffixes) > 1 else path.suffix).lower()


def _hidden(path: Path, above: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(above).parts)


# --- text


def _from_stdin() -> Iterator[tuple[pa.RecordBatch, int]]:
    """As it comes: what one look brings is matched before the next."""
    source: Any = sys.stdin.buffer
    yield from _lines(lambda: source.read1(PIECE_BYTES), "standard input", None)


def _json_lines(files: list[Path]) -> Iterator[tuple[pa.RecordBatch, int]]:
    for path in files:
        size, done = path.stat().st_size, 0
        with _reading(path), open_bytes(str(path), format_of(path.name)[1]) as file:
            bytes_of = _file_position(file, path)
            for batch, _ in _lines(lambda: bytes(file.read(PIECE_BYTES)), str(path), path.absolute().as_uri()):
                now = min(bytes_of(), size)
                yield batch, now - done
                done = now


def _file_position(file: BinaryIO, path: Path) -> Callable[[], int]:
    """How many bytes of the file have been read; of a packed one nobody knows, so all of it counts at its first piece."""
    return file.tell if format_of(path.name)[1] is None else lambda: sys.maxsize


def _lines(read: Callable[[], bytes], named: str, file: str | None) -> Iterator[tuple[pa.RecordBatch, int]]:
    rest = b""
    while block := read():
        whole, mark, rest = (rest + block).rpartition(b"\n")
        if mark:
            yield _batch(whole, file), len(block)
        elif len(rest) > LONGEST_LINE:
            raise EventError(f"{named}: a line has more than {LONGEST_LINE:,} bytes; JSON lines have one event a line")
    if rest:
        yield _batch(rest, file), 0


def _batch(block: bytes, file: str | None) -> pa.RecordBatch:
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = pa.array(block.split(b"\n"), pa.binary())
    return pa.record_batch([lines, pa.repeat(pa.scalar(file, pa.string()), len(lines))], names=[LINE, FILE])


def _csv_files(reader: CsvFiles, files: list[Path]) -> Iterator[tuple[Read, int]]:
    for path in files:
        size, done = path.stat().st_size, 0
        with _reading(path), open_bytes(str(path), format_of(path.name)[1]) as file:
            bytes_of = _file_position(file, path)
            for read in reader.read_file(path.absolute().as_uri(), file):
                now = min(bytes_of(), size)
                yield read, now - done
                done = now


def _header(path: Path) -> list[str]:
    with _reading(path), open_bytes(str(path), format_of(path.name)[1]) as file:
        return csv_header(bytes(file.read(HEADER_BYTES)))


@contextmanager
def _reading(path: Path, why: bool = True) -> Iterator[None]:
    """`why`: also tell it in the words of who reads."""
    try:
        yield
    except (pa.ArrowException, OSError) as reason:
        if isinstance(reason, PermissionError):
            raise
        more = f" ({reason})" if why else ""
        raise EventError(f"{path} cannot be read: it is damaged, or not what its ending says{more}") from None


# --- tables


def _dataset(given: Sequence[str], files: list[Path], format: str, space: Space, unknown: Unknown | None) -> Any:
    """All files as one table with the columns of all; a folder's partitions (`day=1/`) are columns too."""
    from pyarrow import dataset  # imports pandas, if it is there: a quarter of a second

    for path in files:
        if path.stat().st_size == 0:
            raise EventError(f"{path} cannot be read: it is empty, not even without events; remove it or write it again")
    how: Any = {"format": format}
    if len(given) == 1 and Path(given[0]).is_dir():
        how |= {"partitioning": "hive", "partition_base_dir": str(given[0])}
    names = [str(each) for each in files]
    with _reading(files[0], why=False):
        found = dataset.dataset(names, **how)
    schemas = list(_schemas(found))
    in_paths = [field for field in found.schema if field.name not in schemas[0][1].names]
    if all(schema == schemas[0][1] for _, schema in schemas):
        return found
    whole = [(file, _with(schema, in_paths)) for file, schema in schemas]
    return dataset.dataset(names, schema=table_columns(whole, space, unknown), **how)


def _schemas(table: Any) -> Iterator[tuple[str, pa.Schema]]:
    """Of each file its name and its columns."""
    for fragment in table.get_fragments():
        with _reading(Path(fragment.path), why=False):
            yield fragment.path, fragment.physical_schema


def _with(schema: pa.Schema, more: list[pa.Field]) -> pa.Schema:
    for field in more:
        schema = schema.append(field) if field.name not in schema.names else schema
    return schema


def _table_pieces(table: Any, size: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    try:
        rows = max(1, table.count_rows())
        for batch in table.to_batches(batch_size=PIECE_ROWS, batch_readahead=2, fragment_readahead=1):
            if batch.num_rows:
                yield batch, size * batch.num_rows // rows
    except (pa.ArrowException, OSError) as reason:
        raise ContentcastError(f"the events cannot be read: {reason}") from None
