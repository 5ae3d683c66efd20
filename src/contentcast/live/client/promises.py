"""Receipts to come, of what was published with `wait=False`: a refusal is told once, to whoever asks.

    the program awaits the future, or asks it    it is told there
    nobody looks at the future                   `flush` raises it, or else the end of the client

Rule: a refusal that nobody has looked at is kept until it was raised; of very many the first ones are kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from contentcast.live.client.publishing import Receipt

MOST_KEPT: Final = 1_000


class Promise(asyncio.Future["Receipt"]):
    """A future that knows whether the program has looked at its outcome."""

    is_seen = False

    def __await__(self) -> Generator[Any, None, Receipt]:
        try:
            return (yield from super().__await__())
        finally:
            self._look()

    def result(self) -> Receipt:
        self._look()
        return super().result()

    def exception(self) -> BaseException | None:
        self._look()
        return super().exception()

    def _look(self) -> None:
        self.is_seen = self.is_seen or self.done()

    def hush(self) -> BaseException | None:
        """Its error, without having been looked at; asyncio no longer complains that nobody did."""
        return super().exception()


class OtherThreads(Future["Receipt"]):
    """The same for a program without async. Made in the thread of the event loop."""

    def __init__(self, promise: Promise) -> None:
        super().__init__()
        self._promise = promise
        promise.add_done_callback(self._take)

    def _take(self, _: object) -> None:
        if self._promise.cancelled():
            self.cancel()
        elif (reason := self._promise.hush()) is not None:
            self.set_exception(reason)
        else:
            self.set_result(self._promise.result())

    def result(self, timeout: float | None = None) -> Receipt:
        try:
            return super().result(timeout)
        finally:
            self._look()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        try:
            return super().exception(timeout)
        finally:
            self._look()

    def _look(self) -> None:
        self._promise.is_seen = self._promise.is_seen or self.done()


class Refusals:
    """The promises that could not be kept, and that nobody may have looked at."""

    def __init__(self) -> None:
        self._broken: list[Promise] = []

    def note(self, promise: Promise) -> None:
        promise.hush()
        if len(self._broken) < MOST_KEPT:
            self._broken.append(promise)

    def raise_first(self) -> None:
        broken, self._broken = self._broken, []
        for each in broken:
            if not each.is_seen and (reason := each.hush()) is not None:
                raise reason
