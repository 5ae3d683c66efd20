"""Events from files that people have: JSON lines, CSV and Parquet, one or many, compressed or not, and standard input.

Text files have no timestamps and no bytes, so there they are ISO 8601 (no zone means UTC) or a number since 1970, and base64.
Rule: files take at most the bytes that `most_bytes` allows, whatever they say of themselves; what is no event is named.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from glob import glob
from pathlib import Path
from typing import Any, BinaryIO, Final, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from contentcast.model.errors import ContentcastError, EventError
from contentcast.model.events.csv_files import read_csv
from contentcast.model.events.event_batch import EventBatch, concat
from contentcast.model.events.intake import How, Intake
from contentcast.model.events.json_lines import read_lines
from contentcast.model.plain_files import check_plain
from contentcast.model.space import Space

MOST_ROWS: Final = 50_000_000
MOST_BYTES: Final = 2**30
"""Of all events once they are read. A Parquet file of half a megabyte can hold gigabytes of one repeated string."""
STDIN: Final = "-"
BLOCK_BYTES: Final = 4 * 2**20
FORMATS: Final = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
COMPRESSIONS: Final = {".gz": "gzip", ".zst": "zstd"}

Paths = str | Path | Sequence[str | Path]


def read_events(
    path: Paths, space: Space, *, most_rows: int = MOST_ROWS, most_bytes: int = MOST_BYTES, **how: Unpack[How]
) -> EventBatch:
    """Events of a file, of several, of a pattern such as `logs/*.jsonl.gz`, or of standard input (`-`, JSON lines).

    By a file's ending: .parquet, .csv, or .jsonl / .ndjson / .json with one object a line; text also with .gz or .zst after it.
    More than `most_rows` events, or events that take more than `most_bytes`, are refused.
    """
    intake = Intake.of(how)
    paths = expand(path)
    batches: list[EventBatch] = []
    count = 0
    for each in paths:
        batch = _read_file(each, space, intake, most_rows - count, most_bytes)
        most_bytes -= int(batch.records.nbytes) if len(paths) > 1 else 0
        if len(paths) > 1:
            batch = _placed(batch, count, each)
        count += len(batch) + len(batch.rejected)
        batches.append(batch)
    return batches[0] if len(batches) == 1 else concat(batches)


def expand(path: Paths) -> list[str]:
    """The files that are meant; a pattern gives its files in the order of their names."""
    given = [str(each) for each in ([path] if isinstance(path, (str, Path)) else path)]
    if not given:
        raise EventError("which events? Give the path of a file")
    found: list[str] = []
    for each in given:
        if each != STDIN and not Path(each).exists() and any(letter in each for letter in "*?["):
            inside = sorted(name for name in glob(each, recursive=True) if Path(name).is_file())
            if not inside:
                raise EventError(f"no file has a name like {each}")
            found += inside
        else:
            found.append(each)
    return found


def format_of(path: str) -> tuple[str | None, str | None]:
    """The format and the compression that a name says."""
    suffixes = [each.lower() for each in Path(path).suffixes]
    compression = COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    suffixes = suffixes[:-1] if compression else suffixes
    return (FORMATS.get(suffixes[-1]) if suffixes else None), compression


def _placed(batch: EventBatch, first: int, file: str) -> EventBatch:
    """One of several files: its events are numbered on, and what is told of them says the file."""
    rejected = tuple(replace(each, event=each.event + first, file=file) for each in batch.rejected)
    left_out = tuple(replace(each, event=each.event + first, file=file) for each in batch.left_out)
    return EventBatch(batch.space, batch.records, pc.add(batch.ids, first), rejected, left_out)


def _read_file(path: str, space: Space, intake: Intake, most_rows: int, most_bytes: int) -> EventBatch:
    if path == STDIN:
        return _read_json_lines(space, sys.stdin.buffer, intake, most_rows, most_bytes)
    found, compression = format_of(path)
    if found is None or (compression and found == "parquet"):
        ending = "".join(Path(path).suffixes[-2:]) or "without an ending"
        raise EventError(f"{path}: events come as .parquet, .csv or .jsonl, not {ending} (text may have .gz or .zst after it)")
    try:
        check_plain(Path(path), most_bytes)
    except ContentcastError as reason:
        raise EventError(f"{reason}; a larger file is taken with most_bytes=" if "bytes" in str(reason) else reason) from None
    try:
        if found == "parquet":
            return _read_parquet(space, Path(path), intake, most_rows, most_bytes)
        with open_bytes(path, compression) as file:
            if found == "csv":
                return read_csv(space, _bounded(file, most_bytes), intake, most_rows)
            return _read_json_lines(space, file, intake, most_rows, most_bytes)
    except FileNotFoundError:
        raise EventError(f"there is no event file {path}") from None
    except UnicodeDecodeError:
        raise EventError(f"{path}: the name of a column is not UTF-8 text") from None
    except (EventError, pa.ArrowException, OSError) as reason:
        raise EventError(f"{path}: {reason}") from None


# --- text


def open_bytes(path: str, compression: str | None) -> Any:
    """What the file holds once it is unpacked."""
    return Path(path).open("rb") if compression is None else pa.input_stream(path, compression=compression)


class _Bounded(io.RawIOBase):
    """A file of which no more than so many bytes are read."""

    def __init__(self, file: BinaryIO, most_bytes: int) -> None:
        self._file, self._most, self._left = file, most_bytes, most_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        block = self._file.read(len(into))
        self._left -= len(block)
        if self._left < 0:
            raise EventError(_too_large(self._most))
        into[: len(block)] = block
        return len(block)


def _bounded(file: BinaryIO, most_bytes: int) -> BinaryIO:
    return io.BufferedReader(_Bounded(file, most_bytes), BLOCK_BYTES)


def line_blocks(file: BinaryIO, most_bytes: int) -> Iterator[list[bytes]]:
    """The lines of a file, some megabytes at a time."""
    rest: list[bytes] = []  # the pieces of a line that is not over; added to each other they would be copied again and again
    taken = 0
    while block := bytes(file.read(BLOCK_BYTES)):
        if not taken:
            block = block.removeprefix(b"\xef\xbb\xbf")
        taken += len(block)
        if taken > most_bytes:
            raise EventError(_too_large(most_bytes))
        whole, mark, after = block.rpartition(b"\n")
        if mark:
            yield _lines(b"".join([*rest, whole]))
            rest = []
        rest.append(after)
    if any(rest):
        yield _lines(b"".join(rest))


def _lines(block: bytes) -> list[bytes]:
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return block.split(b"\n")


def _read_json_lines(space: Space, file: BinaryIO, intake: Intake, most_rows: int, most_bytes: int) -> EventBatch:
    """Bytes that are not UTF-8 become lone surrogates, and the check of that value names them."""
    batches: list[EventBatch] = []
    before = count = 0
    for lines in line_blocks(file, most_bytes):
        written = [(number, line) for number, line in enumerate(lines, start=before + 1) if line.strip()]
        before += len(lines)
        if count + len(written) > most_rows:
            raise EventError(f"more than {most_rows:,} events; more are taken with most_rows=")
        batches.append(read_lines(space, [line for _, line in written], [number for number, _ in written], intake, count))
        count += len(written)
    return concat(batches) if batches else EventBatch.from_rows(space, [], intake=intake)


# --- Parquet


def _read_parquet(space: Space, path: Path, intake: Intake, most_rows: int, most_bytes: int) -> EventBatch:
    """Batch by batch, each string once as long as that is how the file has it, so that its size is known before it is there."""
    from pyarrow import dataset  # imports pandas, if it is there: a quarter of a second

    found = dataset.dataset(path, format="parquet", partitioning="hive")
    rows = largest = 0
    for fragment in found.get_fragments():
        rows += fragment.metadata.num_rows
        groups = (fragment.metadata.row_group(at).total_byte_size for at in range(fragment.metadata.num_row_groups))
        largest = max(largest, *groups, 0)
    if rows > most_rows:
        raise EventError(f"{rows:,} events, more than {most_rows:,}; more are taken with most_rows=")
    if largest > most_bytes:
        raise EventError(_too_large(most_bytes))
    texts = {field.name for field in found.schema if field.type in (pa.string(), pa.binary())}
    folded = dataset.ParquetFileFormat(read_options=dataset.ParquetReadOptions(dictionary_columns=texts))
    # Arrow does not read nested strings so; there the batches are small.
    nested = any(pa.types.is_nested(field.type) for field in found.schema)
    source = dataset.dataset(path, format=folded, partitioning="hive")
    batches: list[pa.RecordBatch] = []
    taken = 0
    for batch in source.to_batches(
        batch_size=_FEW_ROWS if nested else _MANY_ROWS, batch_readahead=0, fragment_readahead=0, use_threads=False
    ):
        taken += sum(_bytes_of(column) for column in batch.columns)
        if taken > most_bytes:
            raise EventError(_too_large(most_bytes))
        batches.append(batch)
    how = How(**asdict(intake))  # type: ignore[typeddict-item]
    return EventBatch.from_arrow(space, pa.Table.from_batches(batches, schema=source.schema), **how)


_MANY_ROWS, _FEW_ROWS = 16_384, 1_024


def _too_large(most_bytes: int) -> str:
    return f"its events take more than {most_bytes:,} bytes; more are taken with most_bytes="


def _bytes_of(column: pa.Array) -> int:
    """What the column takes once each row has its own string."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return 4 * len(column) + (pc.sum(lengths).as_py() or 0)
