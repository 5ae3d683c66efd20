"""The thread in which the callbacks of a client without async run, one after the other, in the order of what came.

It is not the thread of the client's event loop, so a callback may take its time, and may call the client.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any

from contentcast.live.client.subscribing import CALLER

Call = Callable[[Coroutine[Any, Any, Any]], Any]


class Callbacks:
    """`loop`: the client's. `call`: awaits in it what a callback returns, if that is a coroutine."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Call) -> None:
        self._loop = loop
        self._call = call
        self._due: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def post(self, work: Callable[[], None]) -> None:
        """To be done some time; called in the client's event loop."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="contentcast callbacks", daemon=True)
            self._thread.start()
        self._due.put(work)

    def of(self, callback: Callable[..., object]) -> Callable[..., None]:
        """A function for the client's event loop that has this callback called."""

        def called(*told: Any) -> None:
            self.post(lambda: self._try(callback, *told))

        return called

    async def each(self, deliver: Callable[[Any], object], parts: Sequence[Any]) -> None:
        """Calls it with each part, also after it has failed; returns when it has had all of them."""

        def work() -> None:
            for part in parts:
                self._try(deliver, part)

        await self._done(work)

    async def one(self, deliver: Callable[[Any], object], part: Any) -> None:
        """Calls it once; raises what it raises."""
        await self._done(lambda: self._hand(deliver, part))

    def end(self) -> None:
        """Nothing is called any more but what was posted before."""
        self._due.put(None)

    async def _done(self, work: Callable[[], None]) -> None:
        done: asyncio.Future[None] = self._loop.create_future()

        def tell(reason: Exception | None) -> None:
            if not done.done():
                done.set_result(None) if reason is None else done.set_exception(reason)

        def run() -> None:
            failed: Exception | None = None
            try:
                work()
            except Exception as reason:
                failed = reason
            self._in_loop(tell, failed)

        self.post(run)
        await done

    def _hand(self, callback: Callable[..., object], *told: Any) -> None:
        result = callback(*told)
        if inspect.iscoroutine(result):
            self._call(result)

    def _try(self, callback: Callable[..., object], *told: Any) -> None:
        try:
            self._hand(callback, *told)
        except Exception as reason:
            failed = {"message": "a callback of a client failed", "exception": reason}
            self._in_loop(self._loop.call_exception_handler, failed)

    def _in_loop(self, callback: Callable[..., object], *told: Any) -> None:
        with suppress(RuntimeError):  # the client was closed, perhaps by this callback
            self._loop.call_soon_threadsafe(callback, *told)

    def _run(self) -> None:
        CALLER.set(self._loop)
        while (work := self._due.get()) is not None:
            work()
