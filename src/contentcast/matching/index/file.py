"""An index as one file that processes map and share.

    CONTENTCAST INDEX 7\\n | length and checksum of the description | the description (msgpack) | arrays, aligned to 64

The description holds the space, the dictionaries, the text constraints, the groups and where each array lies; the arrays are
mapped, so opening takes as long as reading the description and no array is read until it is used. Text constraints are filed
anew on opening.
Rule: the file appears whole or not at all, and one that is cut off, altered in its description or not ours is refused.
"""

from __future__ import annotations

import math
import os
import zlib
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from contentcast.matching.index.codes import Dictionary
from contentcast.matching.index.engine import CellIndex
from contentcast.matching.index.grids import Grid
from contentcast.matching.index.groups import Group
from contentcast.matching.index.plan import Gate
from contentcast.matching.index.referring import References
from contentcast.matching.index.scales import Scale
from contentcast.model.errors import ContentcastError
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.space import Space
from contentcast.model.values.kinds import TOP, Kind
from contentcast.model.values.patterns import Pattern
from contentcast.model.values.ranges import Ranges

MAGIC: Final = b"CONTENTCAST INDEX 7\n"
_ALIGNED: Final = 64
_NUMBERS: Final = (
    "free", "cell_count", "table_end", "several_count", "run_count", "run_end",
)  # fmt: skip
"""Of the store, how much of its arrays is used."""


def save_index(index: CellIndex, path: Path) -> None:
    arrays = {name: np.ascontiguousarray(array) for name, array in index.store.arrays().items()}
    arrays |= {f"cuts.{name}": grid.cuts for name, grid in index.filing.grids.items()}
    for name, scale in index.filing.scales.items():
        arrays |= {f"points.{name}": scale.points, f"codes.{name}": scale.codes}
    places: dict[str, tuple[str, tuple[int, ...], int]] = {}
    at = 0
    for name, array in arrays.items():
        places[name] = (array.dtype.str, array.shape, at)
        at += -(-array.nbytes // _ALIGNED) * _ALIGNED
    description = msgspec.msgpack.encode(_describe(index) | {"arrays": places, "bytes": at})
    head = MAGIC + len(description).to_bytes(8, "little") + zlib.crc32(description).to_bytes(4, "little")
    begin = -(-(len(head) + len(description)) // _ALIGNED) * _ALIGNED
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            file.write(head + description)
            for name, array in arrays.items():
                file.seek(begin + places[name][2])
                file.write(array.data)
            file.truncate(begin + at)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load_index(path: Path) -> CellIndex:
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC) + 12)
            if not head.startswith(MAGIC):
                older = head.startswith(MAGIC[:-3])
                what = (
                    "was written by another version; save it again" if older else "is not an index that MatchIndex.save wrote"
                )
                raise ContentcastError(f"{path} {what}")
            length = int.from_bytes(head[len(MAGIC) : len(MAGIC) + 8], "little")
            raw = file.read(length)
        if len(raw) < length or zlib.crc32(raw).to_bytes(4, "little") != head[len(MAGIC) + 8 :]:
            raise ContentcastError(f"{path} is damaged; save it again")
        described = msgspec.msgpack.decode(raw)
        begin = -(-(len(head) + length) // _ALIGNED) * _ALIGNED
        if path.stat().st_size != begin + described["bytes"]:
            raise ContentcastError(
                f"{path} is cut off: {path.stat().st_size} bytes of {begin + described['bytes']}; save it again"
            )
        mapped = np.memmap(path, np.uint8, "r")
    except FileNotFoundError:
        raise ContentcastError(f"there is no index file {path}") from None
    arrays = {
        name: mapped[begin + at : begin + at + math.prod(shape) * np.dtype(kind).itemsize].view(kind).reshape(shape)
        for name, (kind, shape, at) in described["arrays"].items()
    }
    return _restored(described, arrays)


def _describe(index: CellIndex) -> dict[str, Any]:
    store = index.store
    return {
        "space": index.space.to_dict(),
        "count": index.count,
        "planned_for": index.planned_for,
        "words": index.filing.words,
        "spare": index.filing.spare,
        "gates": [_gate(gate) for gate in index.filing.gates],
        "grids": {name: (grid.levels.tolist(), grid.most) for name, grid in index.filing.grids.items()},
        "groups": [(_gate(each.gate), each.level, each.tests, each.table, each.size, each.keys) for each in store.groups],
        "dictionaries": {
            name: (each.shift, each.bits, each.word, each.values) for name, each in index.attributes.dictionaries.items()
        },
        "texts": {
            name: [None if each is None else _constraint(each) for each in text.constraints]
            for name, text in index.attributes.texts.items()
        },
        "sets": index.attributes.sets,
        "numbers": {each: getattr(store, each) for each in _NUMBERS},
        "several": store.several_numbers,
        "barren": sorted(store.barren),
        "bitmaps": store.bitmaps.names,
    }


def _gate(gate: Gate) -> tuple[str, int, int, str]:
    return gate.kind, gate.word, gate.mask, gate.attribute


def _constraint(constraint: Constraint) -> tuple[Any, ...]:
    cuts = [None if cut is TOP else cut for cut in constraint.ranges.cuts]
    return cuts, constraint.absent, [each.text for each in constraint.like], [each.text for each in constraint.unlike]


def _constraint_of(kind: Kind, described: Any) -> Constraint:
    cuts, absent, like, unlike = described
    ranges = Ranges(kind, tuple(TOP if cut is None else cut for cut in cuts))
    return Constraint(ranges, absent, tuple(map(Pattern, like)), tuple(map(Pattern, unlike)))


def _restored(described: dict[str, Any], arrays: dict[str, Any]) -> CellIndex:
    index = CellIndex(Space.from_dict(described["space"]))
    index.count, index.planned_for = described["count"], described["planned_for"]
    for name, (shift, bits, word, values) in described["dictionaries"].items():
        index.attributes.dictionaries[name] = Dictionary.of(index.space.kinds[name], values, shift, bits, word)
    for name, constraints in described["texts"].items():
        text = index.attributes.text(name)
        kind = index.space.kinds[name]
        text.restore([None if each is None else _constraint_of(kind, each) for each in constraints])
    for pairs in described["sets"]:
        index.attributes.set_number(tuple(pairs))
    store = index.store
    for name, number in described["numbers"].items():
        setattr(store, name, number)
    store.several_numbers, store.barren = described["several"], set(described["barren"])
    for name, array in arrays.items():
        sort, _, rest = name.partition(".")
        if sort == "cuts":
            levels, most = described["grids"][rest]
            index.filing.grids[rest] = Grid(array, np.array(levels, np.int64), most)
        elif sort == "points":
            index.filing.scales[rest] = Scale(array, arrays[f"codes.{rest}"])
        elif sort == "bitmaps":
            setattr(store.bitmaps, rest, array)
        elif not rest:
            setattr(store, name, array)
    store.bitmaps.names = described["bitmaps"]
    store.references = References(*(arrays[f"references.{name}"] for name in References._fields))
    store.groups = [
        Group(Gate(*gate), level, tuple((kind, arg) for kind, arg in tests), table, size, keys)
        for gate, level, tests, table, size, keys in described["groups"]
    ]
    index.filing.gates = [Gate(*gate) for gate in described["gates"]]
    index.filing.words = described["words"]
    index.filing.spare = {name: tuple(each) for name, each in described["spare"].items()}
    return index
