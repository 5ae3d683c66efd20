"""A key that all servers of a LAN share: datagrams of others are refused, and so are old ones that somebody sends again.

A tag is HMAC-SHA-256 over the datagram and the name of its group, cut to 16 bytes (RFC 2104 allows half). It says that the
sender has the key, not which of the servers it is, and it hides nothing: who must not read along is kept off the LAN.

    datagram 17, tag wrong              refused
    datagram 17, tag right              taken
    datagram 17 once more               refused: the window has seen it
    recorded yesterday, sent today      refused: its time is more than CLOCKS_DIFFER_S away

Rule: a number is marked as seen only after its tag was found right, so nobody without the key moves the window.
"""

from __future__ import annotations

import hmac
import struct
import time
from pathlib import Path
from typing import Final

from contentcast.model import ContentcastError

TAG_BYTES: Final = 16
LEAST_KEY_BYTES: Final = 16
WINDOW: Final = 4096
"""How many datagrams late one may come and still be taken; more is treated as sent again."""
CLOCKS_DIFFER_S: Final = 60.0
_TIME: Final = struct.Struct("<Q")
_HALF: Final = 1 << 31
_NUMBERS: Final = 1 << 32


class GroupKey:
    def __init__(self, key: bytes) -> None:
        if len(key) < LEAST_KEY_BYTES:
            raise ContentcastError(
                f"a group key has at least {LEAST_KEY_BYTES} bytes, got {len(key)}; make one with: openssl rand -hex 32"
            )
        self._key = key

    @classmethod
    def load(cls, path: str | Path) -> GroupKey:
        """A file with the key in hexadecimal, which only its owner may read."""
        file = Path(path)
        try:
            open_to_others = file.stat().st_mode & 0o077
            text = file.read_bytes().strip()
        except OSError as reason:
            made = f"openssl rand -hex 32 > {path}; chmod 600 {path}"
            raise ContentcastError(f"the key {path}: {reason.strerror}; one is made with: {made}") from None
        if open_to_others:
            raise ContentcastError(f"{path}: others may read this key; run chmod 600 {path}")
        try:
            key = bytes.fromhex(text.decode("ascii"))
        except ValueError:
            raise ContentcastError(f"{path}: a key is written in hexadecimal; make one with: openssl rand -hex 32") from None
        return cls(key)

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def tag(self, signed: bytes | memoryview, group: str) -> bytes:
        return hmac.digest(self._key, b"".join((group.encode(), b"\0", signed)), "sha256")[:TAG_BYTES]

    def opens(self, data: memoryview, time_at: int, group: str, is_new: bool) -> bool:
        """Was the datagram signed with this key? Of a sender that is new here the time must be right as well."""
        if len(data) < time_at + _TIME.size + TAG_BYTES:
            return False
        if not hmac.compare_digest(self.tag(data[:-TAG_BYTES], group), data[-TAG_BYTES:]):
            return False
        (sent_ms,) = _TIME.unpack_from(data, time_at)
        return not is_new or abs(sent_ms - self.now_ms()) <= 1000 * CLOCKS_DIFFER_S


class Window:
    """The numbers that came lately: each is taken once. Numbers count modulo 2^32."""

    __slots__ = ("_highest", "_seen")

    def __init__(self) -> None:
        self._highest = -1
        self._seen = 0

    def take(self, number: int) -> bool:
        if self._highest < 0:
            self._highest, self._seen = number, 1
            return True
        if number == self._highest + 1:
            self._seen = (self._seen << 1 | 1) & _MASK
            self._highest = number
            return True
        ahead = (number - self._highest) % _NUMBERS
        if 0 < ahead < _HALF:
            self._seen = (self._seen << ahead | 1) & _MASK if ahead < WINDOW else 1
            self._highest = number
            return True
        behind = -ahead % _NUMBERS
        if behind >= WINDOW or self._seen >> behind & 1:
            return False
        self._seen |= 1 << behind
        return True


_MASK: Final = (1 << WINDOW) - 1
