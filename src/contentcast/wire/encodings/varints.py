"""Arrays of small numbers, lists of ascending numbers and sorted texts, in as few bytes as each of them needs.

    varints    each number from 0 up in groups of 7 bits, the lowest first; the highest bit of a byte says that more follow
    lists      how long each is (varints) | which are bitmaps (one bit each) | the others as first number and steps (varints)
               | for each bitmap its first number and its bytes (varints), then the bits
    texts      for each: bytes shared with the one before, at most 15, and how many follow (varints) | the bytes that follow

Rule: every number takes at least one byte, and a text at most 15 bytes more than it brings: what is read takes no more than a
small multiple of the bytes that brought it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from contentcast.wire.fields import Ints, Reader, WireError

MOST_SHARED: Final = 15
_MOST_BYTES: Final = 9  # of one number below 2**63
_BITMAP_FROM: Final = 4
"""Members from which a bitmap may be shorter than steps: three steps take three bytes, its head takes two."""


def varints(values: Ints) -> bytes:
    """Numbers from 0 to 2**63 - 1."""
    if not len(values):
        return b""
    lengths = _lengths(values)
    ends = np.cumsum(lengths)
    found = np.zeros(int(ends[-1]), np.uint8)
    left = values.astype(np.uint64)
    for place in range(int(lengths.max())):
        more = lengths > place
        last = lengths == place + 1
        at = (ends - lengths + place)[more]
        found[at] = (left[more] & np.uint64(127)).astype(np.uint8) | np.where(last[more], 0, 128).astype(np.uint8)
        left >>= np.uint64(7)
    return found.tobytes()


def _lengths(values: Ints) -> Ints:
    """How many bytes each number takes."""
    lengths = np.ones(len(values), np.int64)
    for place in range(1, _MOST_BYTES):
        lengths += values >= 1 << 7 * place
    return lengths


def read_varints(reader: Reader, count: int, what: str, end: int = 2**63 - 1) -> Ints:
    """Numbers from 0 up to but not including `end`."""
    if not count:
        return np.empty(0, np.int64)
    reader.need(count, what)
    raw = np.frombuffer(reader.data[reader.at : reader.at + _MOST_BYTES * count], np.uint8)
    stops = np.flatnonzero(raw < 128)[:count]
    if len(stops) < count:
        raise WireError(f"{what}: {count} numbers are promised and {len(stops)} are there")
    begins = np.concatenate([[0], stops[:-1] + 1])
    lengths = stops - begins + 1
    if int(lengths.max()) > _MOST_BYTES:
        raise WireError(f"{what}: a number of {int(lengths.max())} bytes is beyond 63 bits")
    found = np.zeros(count, np.int64)
    for place in range(int(lengths.max())):
        more = lengths > place
        found[more] |= (raw[begins[more] + place].astype(np.int64) & 127) << 7 * place
    reader.at += int(stops[-1]) + 1
    if int(found.max()) >= end:
        raise WireError(f"{what}: {int(found.max())} is not below {end}")
    return found


def read_flags(reader: Reader, count: int, what: str) -> npt.NDArray[np.bool_]:
    raw = np.frombuffer(reader.take(-(-count // 8), what), np.uint8)
    bits = np.unpackbits(raw, bitorder="little")
    if bits[count:].any():
        raise WireError(f"{what}: a bit is set behind the last one")
    return bits[:count].astype(bool)


def flags(truths: npt.NDArray[np.bool_]) -> bytes:
    return np.packbits(truths, bitorder="little").tobytes()


# --- lists of ascending numbers


def ascending_lists(offsets: Ints, members: Ints) -> bytes:
    """List l is members[offsets[l]:offsets[l + 1]], each number once; for each list steps or bits, whichever is shorter."""
    weights = np.diff(offsets)
    steps = members.copy()
    steps[1:] -= members[:-1] + 1
    filled = np.flatnonzero(weights)
    starts = offsets[filled]
    steps[starts] = members[starts]
    sizes = np.concatenate([[0], np.cumsum(_lengths(steps))]) if len(steps) else np.zeros(1, np.int64)
    as_steps = sizes[offsets[1:]] - sizes[offsets[:-1]]
    spans = np.zeros(len(weights), np.int64)
    spans[filled] = members[offsets[filled + 1] - 1] - members[starts] + 1
    as_bits = -(-spans // 8)
    first = np.zeros(len(weights), np.int64)
    first[filled] = members[starts]
    head = _lengths(first) + _lengths(as_bits)
    bitmap = (weights >= _BITMAP_FROM) & (as_bits + head < as_steps)
    in_steps = np.repeat(~bitmap, weights)
    parts = [varints(weights), flags(bitmap), varints(steps[in_steps])]
    chosen = np.flatnonzero(bitmap)
    parts.append(varints(np.stack([first[chosen], as_bits[chosen]], axis=1).ravel()))
    for each in chosen.tolist():
        bits = np.zeros(int(spans[each]), bool)
        bits[members[offsets[each] : offsets[each + 1]] - first[each]] = True
        parts.append(flags(bits))
    return b"".join(parts)


def read_lists(reader: Reader, count: int, end: int, what: str) -> tuple[Ints, Ints]:
    """offsets and members of so many lists, every member below `end`."""
    weights = read_varints(reader, count, f"{what}, how many", end + 1)
    bitmap = read_flags(reader, count, f"{what}, which are bitmaps")
    plain = int(weights[~bitmap].sum())
    steps = read_varints(reader, plain, what, end)
    heads = read_varints(reader, 2 * int(bitmap.sum()), f"{what}, bitmaps", max(end, 1) + 8).reshape(-1, 2)
    pieces = []
    for (first, length), wanted in zip(heads.tolist(), weights[bitmap].tolist(), strict=True):
        bits = np.unpackbits(np.frombuffer(reader.take(length, what), np.uint8), bitorder="little")
        mine = np.flatnonzero(bits) + first
        if len(mine) != wanted:
            raise WireError(f"{what}: a bitmap of {len(mine)} entries where {wanted} are promised")
        pieces.append(mine)
    offsets = np.concatenate([[0], np.cumsum(weights)])
    members = np.empty(int(offsets[-1]), np.int64)
    in_steps = np.repeat(~bitmap, weights)
    members[~in_steps] = np.concatenate([np.empty(0, np.int64), *pieces])
    members[in_steps] = _summed(steps, weights[~bitmap])
    _check_members(offsets, members, end, what)
    return offsets, members


def _summed(steps: Ints, weights: Ints) -> Ints:
    """The members of lists whose first members and steps these are."""
    if not len(steps):
        return steps
    filled = weights[weights > 0]
    starts = np.cumsum(filled) - filled
    more = steps + 1
    more[starts] -= 1
    total = np.cumsum(more)
    before = np.zeros(len(filled), np.int64)
    before[1:] = total[starts[1:] - 1]
    return total - np.repeat(before, filled)


def _check_members(offsets: Ints, members: Ints, end: int, what: str) -> None:
    if len(members) and (int(members.max()) >= end or int(members.min()) < 0):
        raise WireError(f"{what}: {int(members.max())} is not below {end}")
    inside = np.ones(len(members), bool)
    inside[offsets[:-1][offsets[:-1] < len(members)]] = False
    if (members[1:] <= members[:-1])[inside[1:]].any():
        raise WireError(f"{what}: they do not ascend")


# --- sorted texts


def sorted_texts(texts: Sequence[bytes]) -> bytes:
    shared, rest = [], []
    before = b""
    for text in texts:
        same = 0
        for one, other in zip(before[:MOST_SHARED], text, strict=False):
            if one != other:
                break
            same += 1
        shared.append(same)
        rest.append(text[same:])
        before = text
    lengths = np.array([shared, [len(each) for each in rest]], np.int64).T.ravel()
    return varints(lengths) + b"".join(rest)


def read_sorted_texts(reader: Reader, count: int, what: str) -> list[bytes]:
    """Texts in ascending order, each once."""
    sizes = read_varints(reader, 2 * count, f"the lengths of {what}", 2**32).reshape(-1, 2)
    shared, lengths = sizes[:, 0], sizes[:, 1]
    if count and int(shared.max()) > MOST_SHARED:
        raise WireError(
            f"{what}: a text shares {int(shared.max())} bytes with the one before; at most {MOST_SHARED} can be said"
        )
    raw = reader.take(int(lengths.sum()), what).tobytes()
    found: list[bytes] = []
    at, before = 0, b""
    for same, length in zip(shared.tolist(), lengths.tolist(), strict=True):
        text = before[:same] + raw[at : at + length]
        if same > len(before) or (found and text <= before):
            raise WireError(f"{what}: the texts do not ascend")
        found.append(text)
        at, before = at + length, text
    return found
