"""A folder that appears when all of it is there: written beside its place, and given its name by one rename.

An empty folder that is there already stays the one that it was: a shell may stand in it, or it is where a disk is mounted. Then
what was written moves into it, one rename for each table. A symbolic link stays, too; its target is what is written.

    .out.unfinished-k3j2/            what is being written; `.owner` in it is locked as long as the process lives
    .out.replaced-9x1c/out           what stood there before, for the moment between two renames

A process that is killed cleans nothing up. Its lock ends with it, so the next one sees which folders nobody writes any more.
Rule: only folders whose lock is free are removed; one that held the old output is put back if the new one never came.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape as glob_escape
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

OWNER: Final = ".owner"


@contextmanager
def appearing(out: Path) -> Iterator[Path]:
    """The folder to write into. Without a failure it takes the place of `out`, and of all that stood there."""
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    _clear_up(out)
    unfinished, owner = _made(out, "unfinished")
    try:
        yield unfinished
        unfinished.chmod(0o755)
        (unfinished / OWNER).unlink(missing_ok=True)
        if out.is_dir() and not any(out.iterdir()):
            for each in sorted(unfinished.iterdir()):
                each.rename(out / each.name)
        elif out.exists():
            old, old_owner = _made(out, "replaced")
            out.rename(old / out.name)
            unfinished.rename(out)
            shutil.rmtree(old, ignore_errors=True)
            os.close(old_owner)
        else:
            unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        os.close(owner)


def _made(out: Path, what: str) -> tuple[Path, int]:
    folder = Path(mkdtemp(prefix=f".{out.name}.{what}-", dir=out.parent))
    owner = os.open(folder / OWNER, os.O_CREAT | os.O_RDWR)
    _lock(owner)
    return folder, owner


def _lock(file: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows: nothing is locked, and nothing cleared up
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


def _clear_up(out: Path) -> None:
    for what in ("replaced", "unfinished"):
        for left in sorted(out.parent.glob(f".{glob_escape(out.name)}.{what}-*")):
            with suppress(OSError):
                owner = os.open(left / OWNER, os.O_RDWR)
                try:
                    if _lock(owner):
                        if what == "replaced" and (left / out.name).exists() and not out.exists():
                            (left / out.name).rename(out)
                        shutil.rmtree(left, ignore_errors=True)
                finally:
                    os.close(owner)
