"""Everything that one wake-up brings is handled together, and everything that follows is written together.

An event loop that wakes up reads from all connections that have something before it calls what was asked for in between. So
the first payload of a wake-up asks for a turn, and the turn finds all payloads of that wake-up:

    wake-up    read a, read b, read c    turn: handle all; write to d once, to e once

Rule: connections are written to at the end of a turn, once each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contentcast.live.links.connection import Connection


class Turns:
    def __init__(self, loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
        self._loop = loop
        self._act = act
        self._wanted = False
        self._written: dict[Connection, None] = {}

    def want(self) -> None:
        if not self._wanted:
            self._wanted = True
            self._loop.call_soon(self._run)

    def write(self, connection: Connection) -> None:
        """This connection has something to send."""
        self._written[connection] = None
        self.want()

    def _run(self) -> None:
        try:
            self._act()
        finally:
            self._wanted = False
            self.flush()

    def flush(self) -> None:
        written, self._written = self._written, {}
        for connection in written:
            connection.flush()
