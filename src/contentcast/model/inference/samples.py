"""Where a sample comes from: dicts, files, Arrow, pandas, or a schema that says all without any events.

Rule: of many files, and of a large one, a spread of places is looked at, so that what changed on the way is seen.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet

from contentcast.model.errors import ContentcastError, SpaceError, counted
from contentcast.model.events.event_files import STDIN, expand, format_of, line_blocks, open_bytes
from contentcast.model.events.intake import Unreadable
from contentcast.model.events.json_lines import decode
from contentcast.model.events.rows import Rejection
from contentcast.model.inference.json_schema import is_json_schema, see_json_schema
from contentcast.model.inference.sightings import Sightings, read_text
from contentcast.model.plain_files import check_plain
from contentcast.model.space import ARROW_KINDS, is_list

MOST_FILES: Final = 200
PLACES: Final = 8
PLACE_BYTES: Final = 2 * 2**20
SMALL_BYTES: Final = PLACES * PLACE_BYTES
_FEW_ROWS: Final = 128

Advance = Callable[[int], None]


def look(sample: Any, most: int, advance: Advance | None) -> tuple[Sightings, str]:
    """What was seen, and in words what was looked at."""
    seen = Sightings()
    if isinstance(sample, Mapping):
        if not is_json_schema(sample):
            raise SpaceError(
                "a sample is a list of events, a table, a file or a JSON Schema; of one event give a list: [event]"
            )
        see_json_schema(seen, sample)
        return seen, "a JSON Schema"
    if isinstance(sample, pa.Schema):
        _see_arrow(seen, "", sample)
        return seen, "an Arrow schema"
    if isinstance(sample, (pa.Table, pa.RecordBatch)):
        _see_table(seen, sample, most)
        return seen, f"{min(most, sample.num_rows):,} of {sample.num_rows:,} rows"
    if hasattr(sample, "iloc"):
        _see_frame(seen, sample, most)
        return seen, f"{min(most, len(sample)):,} of {len(sample):,} rows"
    if isinstance(sample, (str, Path)) or (isinstance(sample, Sequence) and sample and isinstance(sample[0], (str, Path))):
        return seen, _see_files(seen, sample, most, advance)
    if not isinstance(sample, Iterable):
        raise SpaceError(f"a sample is a list of events, a table, a file or a schema, not {type(sample).__name__}")
    for number, event in enumerate(sample):
        if number == most:
            break
        seen.see(event)
    return seen, counted(seen.events, "event")


# --- tables


def _see_arrow(seen: Sightings, above: str, fields: Any, in_list: bool = False) -> None:
    for each in fields:
        name, type_ = above + each.name, each.type
        sighting = seen.of(name)
        if sighting is None:
            continue
        while pa.types.is_dictionary(type_):
            type_ = type_.value_type
        if pa.types.is_struct(type_):
            sighting.kinds["object"] += 1
            _see_arrow(seen, f"{name}.", [type_.field(at) for at in range(type_.num_fields)], in_list)
        elif is_list(type_):
            inner = type_.value_type
            while pa.types.is_dictionary(inner):
                inner = inner.value_type
            if pa.types.is_struct(inner):
                sighting.kinds["list"] += 1
                sighting.elements["object"] += 1
                _see_arrow(seen, f"{name}.", [inner.field(at) for at in range(inner.num_fields)], in_list=True)
            else:
                kind = _arrow_kind(inner)
                sighting.declared = None if kind is None or in_list else f"list of {kind}"
                if is_list(inner) or in_list:
                    sighting.why_not = "is a list of lists" if is_list(inner) else "is a list inside a list of objects"
                elif kind is None:
                    sighting.why_not = f"is {type_}; cast it first"
        else:
            kind = _arrow_kind(type_)
            sighting.declared = None if kind is None else f"list of {kind}" if in_list else kind
            if kind is None:
                sighting.why_not = f"is {type_}; cast it first"


def _arrow_kind(type_: pa.DataType) -> str | None:
    return next((kind for recognises, kind in ARROW_KINDS if recognises(type_)), None)


def _see_table(seen: Sightings, table: pa.Table | pa.RecordBatch, most: int) -> None:
    """Types say most; texts may be timestamps, and are looked at."""
    step = max(1, table.num_rows // most)
    some = table.take(pa.array(range(0, table.num_rows, step)[:most], pa.int64()))
    for event in some.to_pylist():
        seen.see(event)
    _see_arrow(seen, "", table.schema)
    for each in seen.fields.values():
        if (each.declared == "string" and each.kinds["timestamp"]) or (
            each.declared == "list of string" and each.elements["timestamp"]
        ):
            each.declared = None


def _see_frame(seen: Sightings, frame: Any, most: int) -> None:
    step = max(1, len(frame) // most)
    for event in frame.iloc[::step].head(most).to_dict("records"):
        seen.see({str(name): value for name, value in event.items()})
    for label, column in frame.items():
        sighting = seen.of(str(label))
        if sighting is not None and column.dtype != object and not (column.dtype.kind == "f" and column.isna().any()):
            try:
                sighting.declared = _arrow_kind(pa.array(column.head(1), from_pandas=True).type)
            except (pa.ArrowException, ValueError, TypeError):
                sighting.why_not = f"is {column.dtype}, which Arrow cannot hold"
            if sighting.declared == "string":
                sighting.declared = None


# --- files


def _see_files(seen: Sightings, sample: Any, most: int, advance: Advance | None) -> str:
    files = expand(sample)
    if len(files) == 1 and files[0].endswith(".json") and Path(files[0]).is_file():
        found = _json_schema(files[0])
        if found is not None:
            see_json_schema(seen, found)
            return f"the JSON Schema {files[0]}"
    step = max(1, len(files) // MOST_FILES)
    chosen = files[::step][:MOST_FILES]
    share = max(1, -(-most // len(chosen)))
    for each in chosen:
        try:
            _see_file(seen, each, share)
        except FileNotFoundError:
            raise SpaceError(f"there is no file {each}") from None
        except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as reason:
            raise SpaceError(f"{each} cannot be read: {reason}") from None
        if advance is not None:
            advance(1)
    of = f"{len(chosen)} of {len(files)} files" if len(files) > 1 else files[0]
    return f"{counted(seen.events, 'event')} of {of}"


def _json_schema(path: str) -> Mapping[str, Any] | None:
    try:
        if Path(path).stat().st_size > SMALL_BYTES:
            return None
        text = Path(path).read_text(encoding="utf-8-sig")
        found = json.loads(text)
    except (ValueError, RecursionError, OSError):
        return None
    return found if isinstance(found, Mapping) and is_json_schema(found) else None


def _see_file(seen: Sightings, path: str, share: int) -> None:
    found, compression = ("jsonl", None) if path == STDIN else format_of(path)
    if path != STDIN:
        check_plain(Path(path))
    if found is None:
        raise SpaceError(f"{path}: a sample comes as .parquet, .csv or .jsonl, or as a JSON Schema")
    if found == "parquet":
        file = pyarrow.parquet.ParquetFile(path)
        _see_table(seen, pa.Table.from_batches(_some_rows(file, share), schema=file.schema_arrow), share)
        return
    if found == "csv":
        with open_bytes(path, compression) as raw, io.TextIOWrapper(_readable(raw), "utf-8-sig", "replace", newline="") as text:
            for number, row in enumerate(csv.DictReader(text)):
                if number == share:
                    break
                seen.see({name: read_text(value or "") for name, value in row.items() if name is not None})
        return
    for line in _spread(path, compression, share):
        event = decode(line)
        if isinstance(event, Rejection):
            seen.no_events += 1
        else:
            seen.see(_readable_values(event))


def _some_rows(file: pyarrow.parquet.ParquetFile, share: int) -> list[pa.RecordBatch]:
    """Of the first rows as many as are not large: a few kilobytes of Parquet can hold gigabytes of one repeated string."""
    found: list[pa.RecordBatch] = []
    rows = taken = 0
    for batch in file.iter_batches(batch_size=min(share, _FEW_ROWS)):
        found.append(batch.slice(0, share - rows))
        rows, taken = rows + len(found[-1]), taken + batch.nbytes
        if rows >= share or taken > SMALL_BYTES:
            break
    return found


def _readable(raw: Any) -> Any:
    return io.BytesIO(raw.read(SMALL_BYTES)) if isinstance(raw, pa.NativeFile) else raw


def _readable_values(event: Any) -> Any:
    """Without what the decoder could not make a value of."""
    if isinstance(event, Mapping):
        return {name: _readable_values(each) for name, each in event.items() if not isinstance(each, Unreadable)}
    return event


def _spread(path: str, compression: str | None, share: int) -> Iterator[bytes]:
    """Lines from the whole of a small file, and from some places of a large one; of a packed one from its beginning."""
    import sys

    size = Path(path).stat().st_size if path != STDIN else 0
    if path == STDIN or compression is not None or size <= SMALL_BYTES:
        with sys.stdin.buffer if path == STDIN else open_bytes(path, compression) as file:
            lines: list[bytes] = []
            try:
                for block in line_blocks(file, SMALL_BYTES):
                    lines += [line for line in block if line.strip()]
            except ContentcastError:
                pass  # that is enough
        step = max(1, len(lines) // share)
        yield from lines[::step][:share]
        return
    with Path(path).open("rb") as file:
        for place in range(PLACES):
            file.seek(size * place // PLACES)
            block = file.read(PLACE_BYTES).split(b"\n")
            inside = [line for line in block[1 if place else 0 : -1] if line.strip()]
            yield from inside[: -(-share // PLACES)]
