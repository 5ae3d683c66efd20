"""Events from stdin, a JSON object a line, as they come: what `contentcast publish` and `contentcast lan publish` send.

Lines that are there already become one batch; one that comes alone is not kept waiting for others.
Rule: Ctrl-C ends the command at once, also while nothing comes.
"""

from __future__ import annotations

import asyncio
import io
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Final, cast

from contentcast.model import ContentcastError, EventBatch, How, Space

PIECE_BYTES: Final = 64 * 1024
MOST_AHEAD: Final = 4
"""Pieces that are read before the one in front of them was published."""


async def events_from_stdin(space: Space, how: How) -> AsyncIterator[EventBatch]:
    from contentcast.model.events.intake import Intake
    from contentcast.model.events.json_lines import read_lines

    line = number = 0
    async for data in _pieces():
        lines = [(at, each) for at, each in enumerate(data.splitlines(), start=line + 1)]
        line = lines[-1][0]
        written = [(at, each) for at, each in lines if each.strip()]
        yield read_lines(space, [each for _, each in written], [at for at, _ in written], Intake.of(how), number)
        number += len(written)


async def _pieces() -> AsyncIterator[bytes]:
    """Whole lines. They are read in a thread that ends with the program: for one of the loop's, Ctrl-C would wait."""
    loop = asyncio.get_running_loop()
    came: asyncio.Queue[bytes | OSError | None] = asyncio.Queue()
    room = threading.Semaphore(MOST_AHEAD)
    read = _reader()

    def work() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody reads any more
            try:
                for each in _whole_lines(read):
                    room.acquire()
                    loop.call_soon_threadsafe(came.put_nowait, each)
                loop.call_soon_threadsafe(came.put_nowait, None)
            except OSError as reason:
                loop.call_soon_threadsafe(came.put_nowait, reason)

    threading.Thread(target=work, name="stdin", daemon=True).start()
    while (piece := await came.get()) is not None:
        if isinstance(piece, OSError):
            raise ContentcastError(f"stdin cannot be read: {piece.strerror}")
        yield piece
        room.release()


def _reader() -> Callable[[int], bytes]:
    """Not through `sys.stdin`: a thread that waits in it holds its lock, and Python cannot end."""
    try:
        number = sys.stdin.fileno() if sys.stdin is not None else 0
    except io.UnsupportedOperation:  # a program has put something else in its place
        return cast(io.BufferedReader, sys.stdin.buffer).read1
    return lambda most: os.read(number, most)


def _whole_lines(read: Callable[[int], bytes]) -> Iterator[bytes]:
    begun: list[bytes] = []
    while data := read(PIECE_BYTES):
        end = data.rfind(b"\n") + 1
        if end:
            yield b"".join([*begun, data[:end]])
            begun = []
        if data[end:]:
            begun.append(data[end:])
    if begun:
        yield b"".join(begun)
