"""A broker serves its first client at once: what is not compiled yet runs as plain Python until it is.

Compiling takes a minute or two the first time on a machine, at a low priority; loading what was compiled takes a second, in a
thread of its own. No heartbeat waits for either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from contentcast.warming.background import kernels
from contentcast.warming.compilers import CannotCompile, compile_parts
from contentcast.warming.parts import EVERYTHING

WITH_TREES: Final = frozenset({"link-matching-paper", "hybrid"})
"""Protocols whose search trees cannot do without kernels: such a broker serves when they are compiled."""


async def warm_up(protocol: str, note: Callable[[str], None]) -> None:
    """With a note to the operator if something is to be compiled."""
    if protocol.partition(",")[0] in WITH_TREES:
        with suppress(CannotCompile):
            await asyncio.to_thread(compile_parts, EVERYTHING, note)
    kernels.ask(EVERYTHING, note)
