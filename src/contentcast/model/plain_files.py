"""Files that end: a pipe or a device given as a file would hang whoever reads it, and a file may be larger than the memory.

Rule: whatever reads a whole file that a user names asks here first.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from contentcast.model.errors import ContentcastError

_NO_FILES: Final = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


SLIP: Final = 0.8
"""How alike two names of files are (by difflib) so that one may be a slip of the other."""


def meant(path: Path) -> str:
    """'; did you mean 'orders.jsonl'?' if a file of such a name lies in the folder, else nothing."""
    try:
        beside = [other.name for other in path.parent.iterdir()]
    except OSError:
        return ""
    near = get_close_matches(path.name, beside, n=1, cutoff=SLIP)
    return f"; did you mean {str(path.parent / near[0])!r}?" if near else ""


def check_plain(path: Path, most_bytes: int | None = None) -> None:
    """Refuses what is no file and what is too large. What is not there, or a folder, is left to who opens it."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return
    for is_such, what in _NO_FILES:
        if is_such(found.st_mode):
            raise ContentcastError(f"{path} is {what}, not a file; write what comes from it into a file first")
    if most_bytes is not None and found.st_size > most_bytes:
        raise ContentcastError(f"{path} has {found.st_size:,} bytes, more than {most_bytes:,}")


def once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """For json: the members of an object, of which none may come twice; json itself would keep the last in silence."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name} is given twice")
        found[name] = value
    return found
