"""The columns of several files that are read as one: those of all files, not those of the first alone.

    a.csv   issue,price            ->   issue, price, note
    b.csv   issue,price,note            a row of a.csv has no note

Rule: each file is checked by itself against the space, and an error names the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from contentcast.model.errors import ContentcastError
from contentcast.model.events.checked_columns import check_header
from contentcast.model.events.intake import Unknown
from contentcast.model.space import Space


def csv_columns(headers: Iterable[tuple[str, Sequence[str]]], space: Space, unknown: Unknown | None) -> dict[str, str]:
    """The columns that the space does not have; they stay, as text. `headers`: of each file its name and its header."""
    found: dict[str, str] = {}
    for file, header in headers:
        if not header:  # an empty file
            continue
        with _naming(file):
            check_header(space, header, unknown)
        found |= {name: "string" for name in header if name and name not in space}
    return found


@contextmanager
def _naming(file: str) -> Iterator[None]:
    try:
        yield
    except ContentcastError as reason:
        raise type(reason)(f"{file}: {reason}") from None
