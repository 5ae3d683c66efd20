"""One connection: frames in, frames out, over TCP or TLS.

What is read goes into one buffer that all connections share, because an event loop fills it and hands it over before it reads
from the next; only half frames are kept by a connection. `get_buffer` returns a memoryview: with a bytearray asyncio's TLS
hands over zeros (cpython#156275).
Before Python 3.12 a transport copies what it is given, so small frames are joined before they are written.
Rule: no byte is kept for a frame beyond those that have come, and none of a stream that has lost its place.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

from contentcast.live.links.turns import Turns
from contentcast.model import Space
from contentcast.wire import Message, WireError, encode, frame, spaces_of
from contentcast.wire.client import Spaces
from contentcast.wire.fields import space_print
from contentcast.wire.framing import FRAME_HEADER_BYTES, payload_at

READ_BYTES: Final = 256 * 1024
JOINED_BYTES: Final = 64 * 1024
"""Frames up to this size are joined with others before they are written; larger ones are handed over whole."""
STRANGER_BYTES: Final = 64 * 1024
"""The largest frame of somebody who has not said who they are."""

_SHARED: Final = memoryview(bytearray(READ_BYTES))


class Owner(Protocol):
    def made(self, connection: Connection) -> None: ...

    def arrived(self, connection: Connection, payloads: list[bytes]) -> None: ...

    def broken(self, connection: Connection, reason: WireError) -> None:
        """The stream has lost its place: nothing more comes of it."""
        ...

    def lost(self, connection: Connection, reason: str) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """`dialled`: this end made the connection. `holder` is whatever its owner takes it for."""

    def __init__(self, owner: Owner, turns: Turns, *, dialled: bool, most_bytes: int = STRANGER_BYTES) -> None:
        self.dialled = dialled
        self.most_bytes = most_bytes
        self.holder: Any = None
        self.peer = "?"
        self.is_open = False
        self.is_full = False
        """The other side does not read as fast as this one writes."""
        self.on_drained: Callable[[Connection], None] | None = None
        """Called when the other side has read so much that more can be written."""
        self.heard_at = self.sent_at = 0.0
        self.bytes_in = self.bytes_out = self.frames_in = self.frames_out = 0
        self.made_at = 0.0
        self._owner = owner
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._half = bytearray()
        self._broken = False
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._told: set[tuple[str, int]] = set()
        self._closing = False

    # --- the event loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "writelines")
        self._transport = transport  # type: ignore[assignment]  # uvloop's are no subclasses
        self.is_open = True
        self.heard_at = self.sent_at = self.made_at = self._loop.time()
        found = transport.get_extra_info("peername")
        self.peer = f"{found[0]}:{found[1]}" if isinstance(found, tuple) else "local"
        _set_options(transport.get_extra_info("socket"), _KEEP_ALIVE)
        self._owner.made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _SHARED

    def buffer_updated(self, nbytes: int) -> None:
        self.heard_at = self._loop.time()
        self.bytes_in += nbytes
        if self._broken or self._closing:
            return
        if self._half:
            self._half += _SHARED[:nbytes]
            data: bytearray | memoryview = self._half
            end = len(self._half)
        else:
            data, end = _SHARED, nbytes
        at = 0
        payloads: list[bytes] = []
        try:
            while at < end and (payload := payload_at(data, at, end, self.most_bytes)) is not None:
                payloads.append(payload)
                at += FRAME_HEADER_BYTES + len(payload)
        except WireError as reason:
            self._broken = True
            self._half = bytearray()
            self._hand_over(payloads)
            self._owner.broken(self, reason)
            return
        if self._half:
            del self._half[:at]
        elif at < end:
            self._half = bytearray(_SHARED[at:end])
        self._hand_over(payloads)

    def _hand_over(self, payloads: list[bytes]) -> None:
        if payloads:
            self.frames_in += len(payloads)
            self._owner.arrived(self, payloads)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        if self.on_drained is not None:
            self.on_drained(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._half = bytearray()
        self._out.clear()
        self._out_bytes = 0
        self._owner.lost(self, "closed" if exc is None else str(exc) or type(exc).__name__)

    # --- our side

    def send(self, message: Message) -> None:
        """In the next flush. Spaces that the message uses and that were not named on this connection go before it."""
        self.name_spaces(spaces_of(message))
        self.send_frame(frame(encode(message)))

    def name_spaces(self, spaces: list[Space]) -> None:
        lacking = [each for each in spaces if (each.name, space_print(each)) not in self._told]
        if lacking:
            self._told.update((each.name, space_print(each)) for each in lacking)
            self.send_frame(frame(encode(Spaces.of(dict.fromkeys(lacking)))))

    def send_frame(self, framed: bytes) -> None:
        if self.is_open and not self._closing:
            self._out.append(framed)
            self._out_bytes += len(framed)
            self._turns.write(self)

    def flush(self) -> None:
        if not self._out or self._transport is None or not self.is_open:
            return
        out, self._out = self._out, []
        self.frames_out += len(out)
        self.bytes_out += self._out_bytes
        self._out_bytes = 0
        self.sent_at = self._loop.time()
        small: list[bytes] = []
        for framed in out:
            if len(framed) <= JOINED_BYTES:
                small.append(framed)
                continue
            if small:
                self._transport.write(b"".join(small))
                small = []
            self._transport.write(framed)
        if small:
            self._transport.write(small[0] if len(small) == 1 else b"".join(small))

    @property
    def queued(self) -> int:
        """Bytes that the other side has not taken yet, as far as this process knows."""
        if self._transport is None or not self.is_open:
            return 0
        try:
            return self._out_bytes + self._transport.get_write_buffer_size()
        except AttributeError:  # asyncio's TLS, closed from both ends and not told yet: it has let go of what it would ask
            return 0

    @property
    def enqueued(self) -> int:
        """Bytes that this connection was given to send, over its whole life."""
        return self.bytes_out + self._out_bytes

    def pause_reading(self) -> None:
        if self._transport is not None and self.is_open and not self._closing and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and self.is_open and not self._closing and not self._transport.is_reading():
            self._transport.resume_reading()

    def certificate(self) -> dict[str, Any]:
        """What the other side's certificate says, checked by TLS; empty without one."""
        if self._transport is None:
            return {}
        return self._transport.get_extra_info("peercert") or {}

    def watch(self) -> None:
        """The kernel itself notices a dead machine or a cut cable in about two seconds, however busy this process is."""
        if self._transport is not None:
            _set_options(self._transport.get_extra_info("socket"), _WATCH)

    def close(self) -> None:
        """After what is to be sent was sent."""
        if self._transport is not None and not self._closing:
            self.flush()
            self._closing = True
            self._transport.close()

    def abort(self) -> None:
        """At once: what waits to be sent is dropped."""
        if self._transport is not None:
            self._closing = True
            self._transport.abort()


_KEEP_ALIVE: Final = (("TCP_NODELAY", 1), ("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
# A connection whose window stays closed for longer than TCP_USER_TIMEOUT is ended by Linux, so it is for links only: a client
# may be slow.
_WATCH: Final = (("TCP_KEEPIDLE", 1), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 2), ("TCP_USER_TIMEOUT", 2000))


def _set_options(plain: Any, options: tuple[tuple[str, int], ...]) -> None:
    if plain is None:
        return
    with suppress(OSError):  # a Unix socket, or a system without an option
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in options:
            option = getattr(socket, name, None)
            if option is not None:
                plain.setsockopt(socket.IPPROTO_TCP, option, value)
