"""Order keys: int, float, bool and timestamp values as 64-bit ints that sort as the values do.

Kernels and tables hold a half-open interval [low, high) of such a kind as the closed pair of keys (first, last); since every
key between the ends stands for a value, nothing is lost and no sentinel is needed. One does not: -1 of a float would be -0.0,
whose key is that of 0.0; no pair begins or ends there.

    float   the bits, with the negative half turned round      int, bool   themselves
    timestamp   microseconds since 1970, UTC
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.model.values.kinds import INT_GREATEST, INT_LEAST, TIMESTAMP_GREATEST, TIMESTAMP_LEAST, TOP, Kind, Value

KEYED: Final = frozenset({"int", "float", "bool", "timestamp"})
"""The kinds that have keys; strings and bytes are ordered but do not fit into 64 bits."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_TURN: Final = 0x7FFF_FFFF_FFFF_FFFF
NO_FLOAT: Final = -1
"""The key that no float has."""


def key_of(kind: Kind, value: Value) -> int:
    if kind.name == "float":
        bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
        return bits if bits >= 0 else bits ^ _TURN
    if kind.name == "timestamp":
        return int((value - _EPOCH) // _MICROSECOND)
    return int(value)


def value_of(kind: Kind, key: int) -> Value:
    if kind.name == "float":
        return struct.unpack("<d", struct.pack("<q", key if key >= 0 else key ^ _TURN))[0]
    if kind.name == "timestamp":
        return _EPOCH + key * _MICROSECOND
    return bool(key) if kind.name == "bool" else key


def float_keys(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """`key_of` for a whole column."""
    bits = (values + 0.0).view(np.int64)  # + 0.0 turns -0.0 into 0.0
    return np.where(bits >= 0, bits, bits ^ np.int64(_TURN))


_ENDS: Final[dict[str, tuple[Any, Any]]] = {
    "int": (INT_LEAST, INT_GREATEST),
    "float": (float("-inf"), float("inf")),
    "bool": (False, True),
    "timestamp": (TIMESTAMP_LEAST, TIMESTAMP_GREATEST),
}


def column_keys(kind: Kind, column: pa.Array) -> npt.NDArray[np.int64]:
    """The keys of a column's values; a null has that of 0 or FALSE."""
    if kind.name == "timestamp":
        column = column.cast(pa.int64())
    if column.null_count:
        column = column.fill_null(False if kind.name == "bool" else 0)
    values = column.to_numpy(zero_copy_only=False)
    return float_keys(values) if kind.name == "float" else values.astype(np.int64, copy=False)


def key_ends(kind: Kind) -> tuple[int, int]:
    """The least and the greatest key."""
    least, greatest = _ENDS[kind.name]
    return key_of(kind, least), key_of(kind, greatest)


def last_key(kind: Kind, high: Value) -> int:
    """The key of the last value below the cut `high`."""
    if high is TOP:
        return key_ends(kind)[1]
    last = key_of(kind, high) - 1
    return last - 1 if last == NO_FLOAT and kind.name == "float" else last


def cut_after(kind: Kind, last: int) -> Value:
    """The cut right above the key `last`: the inverse of `last_key`."""
    if last == key_ends(kind)[1]:
        return TOP
    return value_of(kind, last + 1) + 0.0 if kind.name == "float" else value_of(kind, last + 1)  # never -0.0
