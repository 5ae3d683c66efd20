"""What Spark says about a mistake, as one line that says what to do.

Rule: everything that a user can cause leaves as a `ContentcastError`; the pages that Spark writes about it stay here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from contentcast.model import ContentcastError

_OURS: Final = re.compile(r"contentcast\.[\w.]+Error: (?P<what>.*)")
_FILE: Final = re.compile(r"(?:file:/{0,2})?(?P<path>/[^\s,;'\"\]]+\.(?:parquet|orc))")
_UNREADABLE: Final = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|not a Parquet file|Could not read footer|Malformed ORC"
)
_NO_MEMORY: Final = re.compile(
    r"OutOfMemoryError|\bMemoryError\b|Java heap space|GC overhead limit|ArrowMemoryError|malloc of size"
)
_NO_MASTER: Final = re.compile(
    r"All masters are unresponsive|Could not parse Master URL|Failed to connect to|Master removed our application"
)


@contextmanager
def told_in_one_line() -> Iterator[None]:
    try:
        yield
    except ContentcastError:
        raise
    except ImportError as missing:
        if "contentcast[spark]" not in str(missing):
            raise
        raise ContentcastError(str(missing)) from None
    except MemoryError as error:
        raise ContentcastError(one_line(f"MemoryError: {error}")) from None
    except Exception as error:
        if type(error).__name__ == "JavaNotFound":
            raise ContentcastError(" ".join(str(error).split())) from None
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        raise ContentcastError(one_line(str(error))) from None


def one_line(said: str) -> str:
    """The cause if it is one of those that users meet, else Spark's first line."""
    if _NO_MEMORY.search(said):
        return "Spark ran out of memory; give it more with --memory 8g, or fewer tasks at a time with --master 'local[1]'"
    ours = _OURS.findall(said)
    if ours:
        return str(ours[-1]).strip()
    if _UNREADABLE.search(said):
        file = _FILE.search(said)
        return f"{file['path'] if file else 'a file of events'} cannot be read: it is damaged, or not what its ending says"
    if "PATH_NOT_FOUND" in said:
        return f"there are no events at {said.partition('Path does not exist: ')[2].split()[0].rstrip('.') or 'that path'}"
    if "UNABLE_TO_INFER_SCHEMA" in said:
        return "there are no events in that folder yet; --stream waits for some"
    if "DATA_SOURCE_NOT_FOUND" in said:
        return "this Spark does not have that format; add its package to Spark, or convert the events to Parquet"
    if _NO_MASTER.search(said):
        return "Spark's master cannot be reached; see --master (local[*] needs none)"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    first = next((line for line in lines if not line.startswith(("An error occurred while calling", ":", "Traceback"))), "")
    return f"Spark failed: {first or said.strip() or 'it did not say why'}"
