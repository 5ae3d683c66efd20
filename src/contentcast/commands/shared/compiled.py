"""Commands that compute for long have their kernels compiled first, by all cores, and say so; only what they use."""

from __future__ import annotations

from contextlib import suppress

from contentcast.progress_lines import say
from contentcast.warming.compilers import CannotCompile, compile_parts, is_compiled
from contentcast.warming.parts import EVERYTHING


def have_compiled(part: str = EVERYTHING) -> None:
    """Comes back at once if it has been done on this machine. `part`: see `warming.parts`."""
    if not is_compiled(part):
        say("compiling the kernels that this needs, once on this machine, a minute or two (`contentcast warm` does it ahead)")
        with suppress(CannotCompile):  # then each process compiles what it uses
            compile_parts(part, say)
