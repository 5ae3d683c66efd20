"""Arithmetic on the ring of m-bit keys, and where a node stands on it.

Source: Stoica et al. 2001 as Baldoni et al. 2005, section 3.1.1, use it: node identifiers are SHA-1 of their names.

    0 ... low ... key ... high ... 2^m - 1 -> 0        is `key` in (low, high]?    between(key, low, high)

Rule: an arc is (low, high]; (x, x] is the whole ring, because a node that is its own predecessor covers every key.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha1
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

BITS: Final = 64
"""The default length of keys; the paper's experiments use 13."""


class Peer(NamedTuple):
    """A node as others know it: where it stands on the ring, and its name, by which hosts reach it."""

    key: int
    name: str


@lru_cache(maxsize=65_536)
def key_of(name: str, bits: int = BITS) -> int:
    """The first `bits` bits of SHA-1 of the name."""
    return int.from_bytes(sha1(name.encode()).digest()[:8], "big") >> (64 - bits)


def peer(name: str, bits: int = BITS) -> Peer:
    return Peer(key_of(name, bits), name)


def between(key: int, low: int, high: int) -> bool:
    """Is the key in (low, high] on the ring?"""
    if low < high:
        return low < key <= high
    return key > low or key <= high


def strictly_between(key: int, low: int, high: int) -> bool:
    """Is the key in (low, high) on the ring? (x, x) is the ring without x."""
    return key != high and between(key, low, high)


def distance(low: int, high: int, bits: int = BITS) -> int:
    """Steps from `low` to `high`, clockwise."""
    return (high - low) % (1 << bits)


def pieces(low: int, high: int, bits: int = BITS) -> list[tuple[int, int]]:
    """The arc (low, high] as one or two closed intervals of plain numbers."""
    last = (1 << bits) - 1
    if low < high:
        return [(low + 1, high)]
    found = [(0, high)]
    return found if low == last else [(low + 1, last), *found]


def within(lows: Keys, highs: Keys, arc: tuple[int, int], bits: int = BITS) -> Bools:
    """For each closed interval of keys: does it touch the arc?"""
    found = np.zeros(len(lows), bool)
    for first, last in pieces(*arc, bits):
        found |= (lows <= np.uint64(last)) & (highs >= np.uint64(first))
    return found


def cut_out(
    lows: Keys, highs: Keys, rows: npt.NDArray[np.int64], arc: tuple[int, int], bits: int = BITS
) -> tuple[Keys, Keys, npt.NDArray[np.int64]]:
    """The parts of closed intervals of keys that lie on the arc, each with its row."""
    found: list[tuple[Keys, Keys, npt.NDArray[np.int64]]] = []
    for first, last in pieces(*arc, bits):
        low, high = np.maximum(lows, np.uint64(first)), np.minimum(highs, np.uint64(last))
        kept = low <= high
        found.append((low[kept], high[kept], rows[kept]))
    if len(found) == 1:
        return found[0]
    return (
        np.concatenate([each[0] for each in found]),
        np.concatenate([each[1] for each in found]),
        np.concatenate([each[2] for each in found]),
    )


def as_keys(values: Iterable[int]) -> Keys:
    return np.array(list(values), np.uint64)
