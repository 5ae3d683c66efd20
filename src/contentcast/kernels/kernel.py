"""The decorator of a kernel that can also run as plain Python.

    @kernel
    def _join_words(offsets, rows, words, joined): ...

As a rule it is what `numba.njit(cache=True, nogil=True)` makes. While this process serves and others compile (`as_python`), it
is the function as it stands: slower by a hundred times, and there at once. A kernel that is called by a kernel is the same.
Not for kernels that use addresses or machine instructions, which Python has not: those of `matching.index`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

import contentcast.kernels.cache  # noqa: F401  tells Numba where compiled kernels are

as_python = False
"""Does a kernel run as plain Python? `warming.background` says so while it compiles."""


class Kernel(CPUDispatcher):
    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments) if as_python else super().__call__(*arguments)


def kernel(function: Callable[..., Any]) -> Any:
    made = Kernel(function, locals={}, targetoptions={"nopython": True, "nogil": True}, pipeline_class=Compiler)
    made.enable_caching()
    return made
