"""What messages are made of: names, 64-bit numbers, arrays of numbers, lists of texts; little-endian throughout.

    name       length u16 | UTF-8
    numbers    scheme u8 | [base i64 | [least step i64]] | one entry of 1, 2, 4 or 8 bytes for each
    texts      lengths (numbers) | all bytes one after the other

Rule: an array has at least one byte for each entry (a step array for all but the first), so that a count that lies is found
out before anything is allocated: nothing read takes more than a small multiple of the bytes that brought it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias
from zlib import crc32

import numpy as np
import numpy.typing as npt

from contentcast.model import ContentcastError, Space
from contentcast.model.errors import nearest

Ints = npt.NDArray[np.int64]


class SpaceVersions:
    """The spaces that somebody has heard of, in all their versions: attributes may be added while events are under way."""

    def __init__(self, spaces: Iterable[Space] = ()) -> None:
        self._known: dict[str, dict[int, Space]] = {}
        for each in spaces:
            self.declare(each)

    def declare(self, space: Space) -> None:
        """From now on its print is known. Of two that differ in their domains only, the later one counts."""
        self._known.setdefault(space.name, {})[space_print(space)] = space

    def named(self, name: str) -> list[Space]:
        return list(self._known.get(name, {}).values())

    def find(self, name: str, stamp: int) -> Space | None:
        return self._known.get(name, {}).get(stamp)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


Spaces: TypeAlias = Mapping[str, Space] | Callable[[str], Space | None] | SpaceVersions
"""Where a decoder finds a space by its name, or by its name and print."""

MOST_NAME_BYTES: Final = 65_535
_SHORT: Final = struct.Struct("<H")
_LONG: Final = struct.Struct("<q")
_PRINT: Final = struct.Struct("<I")
SPACE_PRINT_BYTES: Final = _PRINT.size


class WireError(ContentcastError):
    """Bytes that are no message, or a message that no bytes can hold.

    `before` has the payloads that were whole before an `Unframer` met what it could not read.
    """

    def __init__(self, reason: str, before: Sequence[bytes] = ()) -> None:
        super().__init__(reason)
        self.before = tuple(before)


# --- out


def names_field(names: Iterable[str], what: str) -> bytes:
    return texts_field([utf8(each, what) for each in names])


def name_field(name: str, what: str) -> bytes:
    raw = utf8(name, what)
    if len(raw) > MOST_NAME_BYTES:
        raise WireError(f"the name of {what} takes {len(raw)} bytes; at most {MOST_NAME_BYTES} fit")
    return _SHORT.pack(len(raw)) + raw


def name_bytes(name: str) -> int:
    """The length of `name_field`."""
    return _SHORT.size + (len(name) if name.isascii() else len(name.encode("utf-8", "surrogatepass")))


def utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise WireError(f"the name of {what}, {text!r}, is not text that UTF-8 can hold") from None


def packed(form: struct.Struct, what: str, *values: Any) -> bytes:
    try:
        return form.pack(*values)
    except struct.error as reason:
        raise WireError(f"{what} does not fit the wire: {reason}") from None


_DELTA, _BASED = 0x80, 0x40
_SIGNED: Final = {1: "<i1", 2: "<i2", 4: "<i4", 8: "<i8"}
_UNSIGNED: Final = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}


def numbers_field(values: Ints) -> bytes:
    """The shortest of three: as they are, from the least one up, or as steps from each to the next."""
    if not len(values):
        return b""
    least, most = int(values.min()), int(values.max())
    width = next(each for each in (1, 2, 4, 8) if -(1 << 8 * each - 1) <= least and most < 1 << 8 * each - 1)
    if width == 1:
        return b"\x01" + values.astype("<i1").tobytes()
    based = _width(most - least)
    found = [(1 + width * len(values), 0), (9 + based * len(values), _BASED)]
    least_step = stepped = 0
    steps = values[1:] - values[:-1]  # wraps around 2^64, and so does the sum that undoes it
    if len(steps):
        least_step = int(steps.min())
        stepped = _width(int(steps.max()) - least_step)
        found.append((17 + stepped * len(steps), _DELTA))
    scheme = min(found)[1]
    if scheme == 0:
        return bytes([width]) + values.astype(_SIGNED[width]).tobytes()
    if scheme == _BASED:
        offsets = values.view(np.uint64) - np.uint64(least % 2**64)
        return bytes([_BASED | based]) + _LONG.pack(least) + offsets.astype(_UNSIGNED[based]).tobytes()
    more = steps.view(np.uint64) - np.uint64(least_step % 2**64)
    head = bytes([_DELTA | stepped]) + _LONG.pack(int(values[0])) + _LONG.pack(least_step)
    return head + more.astype(_UNSIGNED[stepped]).tobytes()


def _width(span: int) -> int:
    return next(each for each in (1, 2, 4, 8) if span < 1 << 8 * each)


def texts_field(texts: Sequence[bytes]) -> bytes:
    return numbers_field(np.array([len(each) for each in texts], np.int64)) + b"".join(texts)


@lru_cache(maxsize=1024)
def space_field(space: Space) -> bytes:
    """The space's name and a print of its attributes' names and kinds, which both ends must have alike.

    Declared domains are not part of it: one may be widened broker by broker, and a value outside is refused by itself.
    """
    return name_field(space.name, "a space") + _PRINT.pack(space_print(space))


@lru_cache(maxsize=1024)
def space_print(space: Space) -> int:
    attributes = "\0".join(f"{name}\0{kind.name}" for name, kind in space.kinds.items())
    return crc32(attributes.encode())


# --- in


class Reader:
    """Takes fields from the front of some bytes; whatever is not there is a `WireError`."""

    def __init__(self, data: bytes | bytearray | memoryview, spaces: Spaces) -> None:
        self.data = memoryview(data)
        self.at = 0
        self.spaces = spaces

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def need(self, count: int, what: str) -> None:
        if count > self.left:
            raise WireError(f"{what} needs {count} bytes and {self.left} are left; the message is cut off or a length lies")

    def take(self, count: int, what: str) -> memoryview:
        self.need(count, what)
        self.at += count
        return self.data[self.at - count : self.at]

    def unpack(self, form: struct.Struct, what: str) -> tuple[Any, ...]:
        self.need(form.size, what)
        found = form.unpack_from(self.data, self.at)
        self.at += form.size
        return found

    def array(self, dtype: str, count: int, what: str) -> npt.NDArray[Any]:
        """A copy, so that it is aligned and lets go of the message."""
        raw = self.take(count * np.dtype(dtype).itemsize, what)
        return np.frombuffer(raw, dtype, count).copy()

    def name(self, what: str) -> str:
        (length,) = self.unpack(_SHORT, f"the length of the name of {what}")
        try:
            return str(self.take(length, f"the name of {what}"), "utf-8")
        except UnicodeDecodeError as reason:
            raise WireError(f"the name of {what} is not UTF-8: {reason}") from None

    def numbers(self, count: int, what: str) -> Ints:
        if not count:
            return np.empty(0, np.int64)
        scheme = self.take(1, what)[0]
        width = scheme & ~(_DELTA | _BASED)
        if width not in _SIGNED or (scheme & _DELTA and scheme & _BASED):
            raise WireError(f"{what}: there is no way {scheme} to write numbers")
        if scheme == width:
            return self.array(_SIGNED[width], count, what).astype(np.int64)
        (base,) = self.unpack(_LONG, what)
        start = np.uint64(base % 2**64)
        if scheme & _BASED:
            return (self.array(_UNSIGNED[width], count, what).astype(np.uint64) + start).view(np.int64)
        (least_step,) = self.unpack(_LONG, what)
        self.need((count - 1) * width, what)
        found = np.empty(count, np.uint64)
        found[0] = start
        found[1:] = self.array(_UNSIGNED[width], count - 1, what)
        found[1:] += np.uint64(least_step % 2**64)
        return np.cumsum(found, dtype=np.uint64).view(np.int64)

    def within(self, count: int, end: int, what: str, least: int = 0) -> Ints:
        """Numbers from `least` up to but not including `end`."""
        found = self.numbers(count, what)
        if count and (int(found.min()) < least or int(found.max()) >= end):
            raise WireError(f"{what}: {int(found.min())} to {int(found.max())} is not within {least} to {end - 1}")
        return found

    def texts(self, count: int, what: str) -> list[bytes]:
        lengths = self.numbers(count, f"the lengths of {what}")
        if count:
            self.need(int(lengths.max()), what)
            if int(lengths.min()) < 0:
                raise WireError(f"{what}: a length of {int(lengths.min())}")
        ends = np.cumsum(lengths)  # cannot wrap: each is at most the message, and there are no more of them than it has bytes
        raw = self.take(int(ends[-1]) if count else 0, what).tobytes()
        return [raw[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]

    def names(self, count: int, what: str) -> list[str]:
        raw = self.texts(count, what)
        try:
            return [each.decode() for each in raw]
        except UnicodeDecodeError as reason:
            raise WireError(f"{what}: not UTF-8: {reason}") from None

    def space(self) -> Space:
        name = self.name("a space")
        (stamp,) = self.unpack(_PRINT, f"the print of the space {name!r}")
        if isinstance(self.spaces, SpaceVersions):
            found = self.spaces.find(name, stamp) or next(iter(self.spaces.named(name)), None)
        else:
            found = self.spaces(name) if callable(self.spaces) else self.spaces.get(name)
        if found is None:
            near = nearest(name, [] if callable(self.spaces) else self.spaces, "declared here:")
            raise WireError(f"no space {name!r} is declared here{near}")
        if space_print(found) != stamp:
            raise WireError(f"the space {name!r} has other attributes at the sender; declare it alike at both ends: {found!r}")
        return found

    def end(self, what: str) -> None:
        if self.left:
            raise WireError(f"{self.left} bytes are left over after {what}")
