"""An index as one file that processes map and share.

    CONTENTCAST INDEX 8\\n | length of the description | its checksum | the description (msgpack) | arrays, aligned to 64

The description holds the space, the dictionaries, the text tests, the groups, and for each array its type, shape, place and
checksum (CRC-32). The arrays are mapped, not read; text tests are filed anew on loading.
Rule: the file appears whole or not at all. What is cut off, altered anywhere or not ours is refused: the description and all
sizes and places before anything is mapped, the arrays before they are used. The checksums tell damage, not malice: load files
only from those whom you let write them.
"""

from __future__ import annotations

import math
import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np

from contentcast.matching.index.cells.store import Store
from contentcast.matching.index.index import CellIndex
from contentcast.matching.index.planning.gates import Gate
from contentcast.matching.index.planning.grids import Grid
from contentcast.matching.index.values.dictionaries import Dictionary
from contentcast.matching.index.values.order_codes import OrderCodes
from contentcast.model.errors import ContentcastError
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.test_texts import known_test
from contentcast.model.space import Space
from contentcast.model.values.kinds import TOP, Kind
from contentcast.model.values.ranges import Ranges

Check = Literal["load", "first use"]
"""When the checksums of the arrays are looked at."""

MAGIC: Final = b"CONTENTCAST INDEX 8\n"
_HEAD: Final = len(MAGIC) + 12
_ALIGNED: Final = 64
_TYPES: Final[dict[str, np.dtype[Any]]] = {"<i4": np.dtype("<i4"), "<i8": np.dtype("<i8")}
_OTHER_ARRAYS: Final = {"cuts": "<i8", "points": "<i8", "codes": "<i4"}
"""The arrays of grids and order codes, one for each attribute, and their types."""


class _Array(msgspec.Struct, array_like=True, frozen=True):
    """Where an array stands, counted from the first one, and what it is."""

    kind: str
    shape: tuple[int, ...]
    at: int
    checksum: int

    @property
    def nbytes(self) -> int:
        return int(math.prod(self.shape) * _TYPES[self.kind].itemsize)


def save_index(index: CellIndex, path: Path) -> None:
    arrays = {name: np.ascontiguousarray(array) for name, array in index.store.arrays().items()}
    arrays |= {f"cuts.{name}": np.ascontiguousarray(grid.cuts) for name, grid in index.filing.plan.grids.items()}
    for name, coding in index.filing.order_codes.items():
        arrays |= {f"points.{name}": coding.points, f"codes.{name}": coding.codes}
    places: dict[str, _Array] = {}
    at = 0
    for name, array in arrays.items():
        places[name] = _Array(array.dtype.str, array.shape, at, zlib.crc32(array.data.cast("B") if array.size else b""))
        at += _aligned(array.nbytes)
    description = msgspec.msgpack.encode(_describe(index) | {"arrays": places, "bytes": at, "names": index.names})
    length = len(description).to_bytes(8, "little")
    head = MAGIC + length + zlib.crc32(description, zlib.crc32(length)).to_bytes(4, "little")
    begin = _aligned(len(head) + len(description))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            file.write(head + description)
            for name, array in arrays.items():
                file.seek(begin + places[name].at)
                file.write(array.data)
            file.truncate(begin + at)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load_index(path: Path, check: Check = "load") -> CellIndex:
    """The index in a file. The checksums of its arrays are looked at now, or before the index is used for the first time."""
    described, begin, mapped = _opened(path)
    try:
        places = {name: msgspec.convert(each, _Array) for name, each in described["arrays"].items()}
        wrong = _misplaced(places, len(mapped) - begin)
        if wrong:
            raise ContentcastError(f"{path} is damaged: {wrong}; save it again")
        arrays = {
            name: mapped[begin + each.at : begin + each.at + each.nbytes].view(_TYPES[each.kind]).reshape(each.shape)
            for name, each in places.items()
        }
        if check == "load":
            _check_arrays(path, places, arrays)
        index = _restored(described, arrays)
        index.names = msgspec.convert(described.get("names", {}), dict[int, str])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, msgspec.MsgspecError) as reason:
        raise ContentcastError(f"{path} is damaged: its description makes no sense ({reason!r}); save it again") from None
    if check != "load":
        index.before_first_use = _checking(path, places, arrays)
    return index


def _opened(path: Path) -> tuple[dict[str, Any], int, Any]:
    """The description, where the arrays begin, and the file as bytes, if it is one of ours and whole."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe or a device would be read for ever
            raise ContentcastError(f"{path} is no file")
        with path.open("rb") as file:
            head = file.read(_HEAD)
            if not head.startswith(MAGIC):
                older = head.startswith(MAGIC[:-3])
                what = (
                    "was written by another version; save it again" if older else "is not an index that MatchIndex.save wrote"
                )
                raise ContentcastError(f"{path} {what}")
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(head[len(MAGIC) : len(MAGIC) + 8], "little")
            if len(head) < _HEAD or length > size - _HEAD:
                raise ContentcastError(f"{path} is damaged or cut off: its description is not all there; save it again")
            raw = file.read(length)
            if zlib.crc32(raw, zlib.crc32(head[len(MAGIC) : len(MAGIC) + 8])).to_bytes(4, "little") != head[len(MAGIC) + 8 :]:
                raise ContentcastError(f"{path} is damaged: the checksum of its description is wrong; save it again")
            described = msgspec.msgpack.decode(raw)
            begin = _aligned(_HEAD + length)
            if size != begin + described["bytes"]:
                raise ContentcastError(f"{path} is cut off: {size} bytes of {begin + described['bytes']}; save it again")
            mapped = np.memmap(file, np.uint8, "r")
    except FileNotFoundError:
        raise ContentcastError(f"there is no index file {path}") from None
    except OSError as reason:
        raise ContentcastError(f"{path} cannot be read: {reason.strerror}") from None
    return described, begin, mapped


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _misplaced(places: dict[str, _Array], size: int) -> str | None:
    """What is wrong with the arrays' names, types, shapes and places, if anything is."""
    wanted = {name: (array.dtype.str, array.ndim) for name, array in Store().arrays().items()}
    for name, each in places.items():
        sort, _, rest = name.partition(".")
        kind, dimensions = (_OTHER_ARRAYS[sort], 1) if rest and sort in _OTHER_ARRAYS else wanted.get(name, ("", 0))
        if (each.kind, len(each.shape)) != (kind, dimensions):
            return f"there is no array {name} of {each.kind} and {len(each.shape)} dimensions"
        if min(each.shape) < 0 or each.at < 0 or each.at % _ALIGNED or each.at + each.nbytes > size:
            return f"the array {name} does not lie in the file"
    missing = wanted.keys() - places.keys()
    return f"the array {min(missing)} is missing" if missing else None


def _check_arrays(path: Path, places: dict[str, _Array], arrays: dict[str, Any]) -> None:
    for name, array in arrays.items():
        if zlib.crc32(array.data.cast("B") if array.size else b"") != places[name].checksum:
            raise ContentcastError(f"{path} is damaged: the checksum of its array {name} is wrong; save it again")


def _checking(path: Path, places: dict[str, _Array], arrays: dict[str, Any]) -> Callable[[], None]:
    return lambda: _check_arrays(path, places, arrays)


def _describe(index: CellIndex) -> dict[str, Any]:
    plan = index.filing.plan
    return {
        "space": index.space.to_dict(),
        "count": index.count,
        "planned_for": index.replanner.planned_for,
        "words": plan.words,
        "spare": plan.spare,
        "gates": [(gate.kind, gate.word, gate.mask, gate.attribute) for gate in plan.gates],
        "grids": {name: (grid.levels.tolist(), grid.most) for name, grid in plan.grids.items()},
        "dictionaries": {
            name: (each.shift, each.bits, each.word, each.values) for name, each in index.attributes.dictionaries.items()
        },
        "texts": {
            name: [None if each is None else _constraint(each) for each in text.constraints]
            for name, text in index.attributes.texts.items()
        },
        "sets": index.attributes.sets,
        "store": index.store.describe(),
    }


def _constraint(constraint: Constraint) -> tuple[Any, ...]:
    cuts = [None if cut is TOP else cut for cut in constraint.ranges.cuts]
    return cuts, constraint.absent, [each.text for each in constraint.like], [each.text for each in constraint.unlike]


def _constraint_of(kind: Kind, described: Any) -> Constraint:
    cuts, absent, like, unlike = described
    ranges = Ranges(kind, tuple(TOP if cut is None else cut for cut in cuts))
    return Constraint(ranges, absent, tuple(map(known_test, like)), tuple(map(known_test, unlike)))


def _restored(described: dict[str, Any], arrays: dict[str, Any]) -> CellIndex:
    index = CellIndex(Space.from_dict(described["space"]))
    index.count = described["count"]
    index.replanner.planned(described["planned_for"])
    attributes, plan = index.attributes, index.filing.plan
    for name, (shift, bits, word, values) in described["dictionaries"].items():
        attributes.dictionaries[name] = Dictionary.of(index.space.kinds[name], values, shift, bits, word)
    for name, constraints in described["texts"].items():
        kind = index.space.kinds[name]
        attributes.text(name).restore([None if each is None else _constraint_of(kind, each) for each in constraints])
    for pairs in described["sets"]:
        attributes.set_number(tuple(pairs))
    for name, (levels, most) in described["grids"].items():
        plan.grids[name] = Grid(arrays[f"cuts.{name}"], np.array(levels, np.int64), most)
    for name in [each.partition(".")[2] for each in arrays if each.startswith("points.")]:
        index.filing.order_codes[name] = OrderCodes(arrays[f"points.{name}"], arrays[f"codes.{name}"])
    index.store.restore(
        described["store"], {name: each for name, each in arrays.items() if name.partition(".")[0] not in _OTHER_ARRAYS}
    )
    plan.in_bitmaps = list(index.store.bitmaps.names)
    plan.gates = [Gate(*gate) for gate in described["gates"]]
    plan.words = described["words"]
    plan.spare = {name: tuple(each) for name, each in described["spare"].items()}
    return index
