"""Records of a log as bytes: a length and a checksum before each, so that a torn end is seen and cut.

    length u32 | CRC-32 of the record u32 | record

Rule: reading stops at the first record that is not whole. Whether that is a torn end or damage, the caller decides.
"""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

_HEAD: Final = struct.Struct("<II")
RECORD_HEAD_BYTES: Final = _HEAD.size


def framed(record: bytes) -> bytes:
    return _HEAD.pack(len(record), crc32(record)) + record


def read_records(data: bytes | bytearray | memoryview) -> tuple[list[bytes], int]:
    """The whole records from the start, and how many bytes they take."""
    view = memoryview(data)
    found: list[bytes] = []
    at = 0
    while at + _HEAD.size <= len(view):
        length, check = _HEAD.unpack_from(view, at)
        end = at + _HEAD.size + length
        if end > len(view):
            break
        record = bytes(view[at + _HEAD.size : end])
        if crc32(record) != check:
            break
        found.append(record)
        at = end
    return found, at
