"""The kernels of the index in this process: not asked for, asked for, or ready.

    cold       nobody has asked: a small index answers without them
    working    a thread has other processes compile them (`compilers`), then loads them; meanwhile all answer without them
    ready      every index uses them, also one that was made before

Rule: once ready, always ready. A process that was forked meanwhile has no such thread, and begins again.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Final
from weakref import WeakSet

from contentcast.model.errors import ContentcastError
from contentcast.warming.compilers import TELL_EVERY_S, CannotCompile, Tell, compile_parts, is_compiled
from contentcast.warming.parts import INDEX

log: Final = logging.getLogger("contentcast.kernels")
COMPILING: Final = (
    "contentcast compiles its kernels in the background, once on this machine, and answers more slowly until then; "
    "`contentcast warm` does it ahead"
)
WAITING: Final = "compiling the kernels, once on this machine, about a minute on two cores; `contentcast warm` does it ahead"


def _warn(line: str) -> None:
    log.warning("contentcast: %s", line)


class _Kernels:
    def __init__(self) -> None:
        self.ready = False
        self._lock = Lock()
        self._done = Event()
        self._working = 0
        """The process in which a thread is at work."""
        self._wanting: WeakSet[Any] = WeakSet()

    def tell(self, index: Any) -> None:
        """The index wants its `use_kernels` to be called when they are ready."""
        self._wanting.add(index)

    def at_hand(self) -> bool:
        """Are they ready, or compiled already, so that `wait` does not wait?"""
        return self.ready or is_compiled(INDEX)

    def ask(self, part: str = INDEX, tell: Tell = log.warning) -> None:
        """Begin, unless it has begun. `part`: the last that is compiled; a broker wants EVERYTHING. `tell` gets one line, if
        something is to be compiled.
        """
        if self._working == os.getpid() or (self.ready and (part == INDEX or is_compiled(part))):
            return
        with self._lock:
            if self._working != os.getpid():
                from contentcast.kernels import kernel

                self._working, self._done = os.getpid(), Event()
                # Here, not in the thread: whoever asked goes on at once. An index alone has no kernel that could be Python.
                kernel.as_python = part != INDEX and not is_compiled(part)
                Thread(target=self._work, args=(part, tell), name="contentcast-kernels", daemon=True).start()

    def wait(self, tell: Tell = _warn) -> None:
        """Come back when they are ready; at once if they are in the cache. `tell` gets a line at least every ten seconds."""
        if self.ready:
            return
        if is_compiled(INDEX):
            self._use()
            return
        tell(WAITING)
        if self._working == os.getpid():
            began = monotonic()
            while not self._done.wait(TELL_EVERY_S):
                tell(f"waiting for the kernels ({monotonic() - began:.0f} s)")
        else:
            with suppress(CannotCompile):
                compile_parts(INDEX, tell)
        self._use()

    def _work(self, part: str, tell: Tell) -> None:
        from contentcast.kernels import kernel
        from contentcast.warming.loading import load_index_kernels

        try:
            if not is_compiled(part):
                tell(COMPILING)
            self._compile(INDEX)
            load_index_kernels()
            self._use()
            self._compile(part)
        finally:
            kernel.as_python = False
            self._use()
            self._working = 0

    def _compile(self, part: str) -> None:
        try:
            if not is_compiled(part):
                compile_parts(part, log.info, quietly=True)
        except CannotCompile as reason:
            log.warning("contentcast compiles in this process, on one core: %s", reason)

    def _use(self) -> None:
        self.ready = True
        self._done.set()
        for each in list(self._wanting):
            with suppress(ContentcastError):  # this thread is in the midst of reading it; its next change uses them
                each.use_kernels()
                self._wanting.discard(each)


kernels: Final = _Kernels()
"""Those of this process."""
