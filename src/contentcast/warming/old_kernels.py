"""Removes compiled kernels that nobody uses any more: those of older sources.

Rule: a mark in the cache folder says that all folders it names are there, so it goes before the first of them does.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Final

KEPT: Final = 4
"""This many folders of a module stay in any case: those that were used last."""
LATELY_S: Final = 7 * 24 * 3600.0
"""A folder that was used within this time stays too: clones, environments and versions take turns."""


def remove_old(cache_folder: Path) -> None:
    """A process that still has the sources of a removed folder compiles them again."""
    of_module: defaultdict[str, list[tuple[float, Path]]] = defaultdict(list)
    for each in (cache_folder / "kernels").glob("*-*"):
        with suppress(OSError):  # somebody else removed it
            of_module[each.name.rpartition("-")[0]].append((each.stat().st_mtime, each))
    used_before = time() - LATELY_S
    old = {each for found in of_module.values() for used, each in sorted(found, reverse=True)[KEPT:] if used < used_before}
    names = {each.name for each in old}
    for mark in (cache_folder / "compiled").glob("*"):
        with suppress(OSError):
            if not names.isdisjoint(mark.read_text().splitlines()):
                mark.unlink()
    for each in old:
        shutil.rmtree(each, ignore_errors=True)
