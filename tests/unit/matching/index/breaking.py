"""Break a change of the index off at a chosen place, with what Python itself offers: no name of the index is touched.

    for number in count(1):
        with no_memory(number) as broken, suppress(MemoryError):
            index.add(7, "price < 5")
        if not broken.happened: break            # all places were tried

`no_memory(n)`: the n-th array that the index asks NumPy or the system for is not to be had.
`ctrl_c(n)`: the user presses Ctrl-C (a real signal) at the n-th call or return in the code of the index, or of all the package.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import contentcast
from contentcast.matching import index

INDEX = str(Path(index.__file__).parent)
PACKAGE = str(Path(contentcast.__file__).parent)
NUMPY = str(Path(np.__file__).parent)
ALLOCATE = {"empty", "zeros", "array", "arange", "mmap", "ndarray.copy", "ndarray.astype", "ndarray.nonzero", "ndarray.argsort"}


@dataclass
class Broken:
    happened: bool = False


@contextmanager
def no_memory(number: int) -> Iterator[Broken]:
    def is_place(frame: FrameType, event: str, called: Any) -> bool:
        code = frame.f_code.co_filename
        name = getattr(called, "__qualname__", "")
        return event == "c_call" and name in ALLOCATE and code.startswith((INDEX, NUMPY))

    def fail() -> None:
        raise MemoryError("there is no memory, says the test")

    with _at(number, is_place, fail) as broken:
        yield broken


@contextmanager
def ctrl_c(number: int, folder: str = INDEX) -> Iterator[Broken]:
    def is_place(frame: FrameType, event: str, _: Any) -> bool:
        return event in ("call", "return", "c_return") and frame.f_code.co_filename.startswith(folder)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background programs without it
    try:
        with _at(number, is_place, lambda: signal.raise_signal(signal.SIGINT)) as broken:
            yield broken
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _at(number: int, is_place: Callable[[FrameType, str, Any], bool], act: Callable[[], None]) -> Iterator[Broken]:
    broken, left = Broken(), number

    def look(frame: FrameType, event: str, called: Any) -> None:
        nonlocal left
        if not broken.happened and is_place(frame, event, called):
            left -= 1
            if left == 0:
                broken.happened = True
                act()

    sys.setprofile(look)
    try:
        yield broken
    finally:
        sys.setprofile(None)
