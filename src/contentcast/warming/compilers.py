"""Processes that compile: one for each part, as many at a time as there are cores; what they made is in the cache.

Rule: one process at a time starts compilers for a cache folder; others wait for it (a lock in the folder). A compiler ends when
the process that started it does: its standard input is then closed. What it has compiled stays.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, Queue
from threading import Thread
from time import monotonic, sleep
from typing import Final, TextIO

from contentcast.warming.old_kernels import remove_old
from contentcast.warming.parts import AFTER, needed_for

Tell = Callable[[str], None]

TELL_EVERY_S: Final = 8.0
LOOK_EVERY_S: Final = 0.2


class CannotCompile(Exception):
    """A compiler could not be started, or failed."""


def is_compiled(part: str) -> bool:
    """Is everything of this part in the cache?"""
    from contentcast.kernels.cache import has_mark  # imports Numba

    return has_mark(part)


def compile_parts(part: str, tell: Tell, *, quietly: bool = False) -> None:
    """Compile this part and all that it needs; `tell` gets a line at least every ten seconds.

    `quietly`: at a low priority, beside something that answers.
    """
    from contentcast.kernels.cache import folder

    with _alone(tell):
        if not is_compiled(part):
            missing = [each for each in needed_for(part) if not is_compiled(each)]
            _Compilers(missing, tell, quietly).run()
            remove_old(folder())


class _Compilers:
    def __init__(self, parts: list[str], tell: Tell, quietly: bool) -> None:
        self._waiting = parts
        self._done = set(AFTER) - set(parts)
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._heard: Queue[tuple[str, str]] = Queue()
        self._kernels = 0
        self._tell = tell
        self._quietly = quietly
        self._count = len(parts)

    def run(self) -> None:
        began = told = monotonic()
        try:
            while self._waiting or self._running:
                self._start()
                self._listen()
                self._collect()
                if monotonic() - told > TELL_EVERY_S and self._running:
                    told = monotonic()
                    at = " and ".join(self._running)
                    done = self._count - len(self._waiting) - len(self._running)
                    self._tell(
                        f"compiling: {self._kernels} kernels, {done} of {self._count} parts; now {at} ({told - began:.0f} s)"
                    )
        finally:
            for each in self._running.values():
                each.kill()
                each.wait()
        self._tell(f"compiled {self._kernels} kernels in {monotonic() - began:.0f} s")

    def _start(self) -> None:
        free = max(1, os.cpu_count() or 1) - len(self._running)
        for part in list(self._waiting):
            if free > 0 and self._done.issuperset(AFTER[part]):
                self._waiting.remove(part)
                self._running[part] = process = _started(part, self._quietly)
                assert process.stdout is not None
                Thread(target=self._hear, args=(part, process.stdout), daemon=True).start()
                free -= 1

    def _hear(self, part: str, lines: TextIO) -> None:
        for line in lines:
            self._heard.put((part, line.rstrip()))

    def _listen(self) -> None:
        try:
            self._heard.get(timeout=LOOK_EVERY_S)
            self._kernels += 1
            while True:
                self._heard.get_nowait()
                self._kernels += 1
        except Empty:
            return

    def _collect(self) -> None:
        for part, process in list(self._running.items()):
            if process.poll() is None:
                continue
            del self._running[part]
            if process.returncode:
                raise CannotCompile(f"the compiler of {part} ended with {process.returncode}")
            self._done.add(part)


def _started(part: str, quietly: bool) -> subprocess.Popen[str]:
    from contentcast.kernels.cache import FOLDER, PACKAGE, folder

    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "contentcast.every_kernel", part, *(["--quietly"] if quietly else [])]
    try:
        return subprocess.Popen(
            command,
            env=os.environ | {FOLDER: str(folder()), "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    except OSError as reason:
        raise CannotCompile(f"{sys.executable} cannot be started: {reason}") from None


@contextmanager
def _alone(tell: Tell) -> Iterator[None]:
    """Holds the lock of the cache folder."""
    from contentcast.kernels.cache import folder

    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    began = told = monotonic()
    with (folder() / "lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                sleep(LOOK_EVERY_S)
                if monotonic() - told > TELL_EVERY_S:
                    told = monotonic()
                    tell(f"waiting for another process that compiles ({told - began:.0f} s)")
        yield
