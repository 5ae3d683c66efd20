"""Folders that `contentcast match` and `contentcast run` write, told from a user's own.

    out/matches, out/refused, ...      all of it ours: another `--force` may replace it
    out/refused, out/notes.txt         notes.txt is not ours, and the folder stays as it is

Rule: a folder is replaced only if contentcast made it and nothing else is in it, whatever options are given.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from contentcast.model.errors import ContentcastError

SUMMARY: Final = "job.json"
MADE_BY: Final = "contentcast run"
STREAM: Final = "_stream"
"""In a folder that a stream writes, from its first moment on: one that was killed while it started can be started again."""
REFUSED: Final = "refused"
"""Every command writes this table."""
ONE_FILE: Final = "part-0.parquet"

_OF_MATCH: Final = frozenset({"matches", "quarantine", REFUSED, "counts"})
_OF_STREAMS: Final = frozenset({STREAM, "_quarantine", "_deliveries"})
_OF_RUN: Final = frozenset({"events", "subscriptions", "deliveries", "learnt", "routes", "report.html", SUMMARY})
_OURS: Final = _OF_MATCH | _OF_STREAMS | _OF_RUN


def write_table(table: Any, folder: Path) -> None:
    """A table of such a folder, as one file that takes the place of the one before."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{folder.name}.part"
    pq.write_table(table, part)
    part.replace(folder / ONE_FILE)


def is_of_run(folder: Path) -> bool:
    """Was this folder written by `contentcast run`?"""
    try:
        return bool(json.loads((folder / SUMMARY).read_text())["made by"] == MADE_BY)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def holds_something(out: Path) -> bool:
    """Whether something stands where a folder is to be written; a file there is refused."""
    if out.exists() and not out.is_dir():
        raise ContentcastError(f"{out} is a file, not a folder")
    return out.exists() and any(out.iterdir())


def check_stream_folder(out: Path, *, force: bool, command: str) -> None:
    """A stream goes on in the folder that it wrote, and in no other that holds something."""
    if not holds_something(out):
        return
    if force:
        raise ContentcastError(
            f"{command}: a stream goes on where it stopped; to start anew choose another folder, or remove this one"
        )
    if not (out / STREAM).exists() and not (out / "matches" / "_contentcast" / "stream").exists():
        raise ContentcastError(f"{out} was not written by a stream; choose another folder")


def check_replaceable(out: Path, *, force: bool) -> None:
    """Refuses a place that holds something, unless contentcast made all of it and may replace it."""
    if not holds_something(out):
        return
    found = sorted(each.name for each in out.iterdir())
    foreign = [name for name in found if name not in _OURS]
    made = is_of_run(out) or (out / STREAM).exists() or (out / REFUSED / ONE_FILE).exists()
    if foreign or not made:
        raise ContentcastError(
            f"{out} holds {(foreign or found)[0]}, which contentcast did not make; choose another folder with --out"
        )
    if not force:
        raise ContentcastError(f"{out} is already there; choose another folder, or replace it with --force")
