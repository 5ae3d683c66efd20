"""Payloads as frames on a stream of bytes, and back; without I/O.

    'CC' | version u8 | length of the payload u32 | CRC-32 u32 | payload, whose first byte is the type of the message

The checksum covers version, length and payload. The caller feeds what a link brought and gets the payloads that are whole now.

    unframer.feed(first_half)    []
    unframer.feed(second_half)   [payload]

Rule: nothing is kept of a frame that could not be accepted; after a WireError the stream has lost its place for good, and every
further call says so.
"""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

from contentcast.wire.fields import WireError

MAGIC: Final = b"CC"
VERSION: Final = 1
MOST_PAYLOAD_BYTES: Final = 64 * 2**20
"""Some million subscriptions, or as many events: more would hold a link for seconds."""

_START: Final = struct.Struct("<2sBI")
_CHECK: Final = struct.Struct("<I")
FRAME_HEADER_BYTES: Final = _START.size + _CHECK.size


def frame(payload: bytes, most_bytes: int = MOST_PAYLOAD_BYTES) -> bytes:
    if not 0 < len(payload) <= most_bytes:
        raise WireError(f"a payload of {len(payload)} bytes; from 1 to {most_bytes} fit into a frame, so send it in parts")
    start = _START.pack(MAGIC, VERSION, len(payload))
    return b"".join((start, _CHECK.pack(crc32(payload, crc32(start[2:]))), payload))


class Unframer:
    """Cuts the stream of one link into payloads."""

    def __init__(self, most_bytes: int = MOST_PAYLOAD_BYTES) -> None:
        self.most_bytes = most_bytes
        self._waiting = bytearray()
        self._broken: str | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """The payloads that these bytes complete. A WireError has those before the bad frame in `before`."""
        if self._broken is not None:
            raise WireError(f"this stream was given up: {self._broken}")
        self._waiting += data
        whole: list[bytes] = []
        at = 0
        try:
            while (payload := self._payload(at)) is not None:
                whole.append(payload)
                at += FRAME_HEADER_BYTES + len(payload)
        except WireError as error:
            self._broken = str(error)
            self._waiting.clear()
            raise WireError(self._broken, whole) from None
        del self._waiting[:at]
        return whole

    def end(self) -> None:
        """The link brings nothing more: what waits is half a frame, or there is nothing."""
        if self._broken is None and self._waiting:
            raise WireError(f"the stream ends within a frame, {len(self._waiting)} bytes after its beginning")

    @property
    def waiting(self) -> int:
        """How many bytes of an unfinished frame are kept."""
        return len(self._waiting)

    def _payload(self, at: int) -> bytes | None:
        return payload_at(self._waiting, at, len(self._waiting), self.most_bytes)


def payload_at(waiting: bytearray | memoryview, at: int, end: int, most_bytes: int) -> bytes | None:
    """The payload of the frame that begins at `at`, if all of it stands before `end`."""
    # A stranger is found out by its first bytes, not only once it has sent as many as a header.
    seen = bytes(waiting[at : min(at + len(MAGIC), end)])
    if not MAGIC.startswith(seen):
        shown = bytes(waiting[at : min(at + 8, end)])
        raise WireError(f"a frame begins with {MAGIC!r}, got {shown!r}; is the other side contentcast?")
    if end > at + len(MAGIC) and (version := waiting[at + len(MAGIC)]) != VERSION:
        older = "this side" if version > VERSION else "the other side"
        raise WireError(f"the other side speaks version {version} of the wire format, this one {VERSION}; upgrade {older}")
    if end < at + FRAME_HEADER_BYTES:
        return None
    _, _, length = _START.unpack_from(waiting, at)
    if not 0 < length <= most_bytes:
        raise WireError(f"a frame of {length} bytes; from 1 to {most_bytes} are accepted here")
    begin = at + FRAME_HEADER_BYTES
    if end < begin + length:
        return None
    payload = bytes(memoryview(waiting)[begin : begin + length])
    (check,) = _CHECK.unpack_from(waiting, at + _START.size)
    found = crc32(payload, crc32(waiting[at + len(MAGIC) : at + _START.size]))
    if found != check:
        raise WireError(f"a frame of {length} bytes has the checksum {found:08x} and says {check:08x}; it was damaged")
    return payload
