"""What Spark says about a mistake, as one line that says what to do.

Rule: everything that a user can cause leaves as a `ContentcastError`; the pages that Spark writes about it are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote

from contentcast.commands.shared.extras import how_to_install
from contentcast.commands.shared.overheard import leave_out, pass_on
from contentcast.model import ContentcastError

_OURS: Final = re.compile(r"contentcast\.[\w.]+Error: (?P<what>.*)")
_FILE: Final = re.compile(r"(?:file:/{0,2})?(?P<path>/[^\s,;'\"\]]+\.(?:parquet|orc))")
_UNREADABLE: Final = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|not a Parquet file|Could not read footer|Malformed ORC"
)
_NO_MEMORY: Final = re.compile(
    r"OutOfMemoryError|\bMemoryError\b|Java heap space|GC overhead limit|ArrowMemoryError|malloc of size"
)
# A session that nobody answers ends as "stopped" too, but while it is made, and what else was wrong stands in the log alone.
_NO_MASTER: Final = re.compile(
    r"All masters are unresponsive|Could not parse Master URL|Failed to connect to"
    r"|calling None\.org\.apache\.spark\.sql\.\S*SparkSession\.\s*:[^\n]*stopped SparkContext"
)
_GIVEN_UP: Final = re.compile(r"Master removed our application|Cannot call methods on a stopped SparkContext")
_NO_PACKAGE: Final = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'")
_NO_PYTHON: Final = re.compile(r'Cannot run program "(?P<python>[^"]+)".*No such file')
_OTHER_PYTHON: Final = re.compile(r"PYTHON_VERSION_MISMATCH\] (?P<what>.*)")


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """Around all that uses Spark. If the cause is known, what Java wrote about it is left out."""
    try:
        yield
    except KeyboardInterrupt:
        leave_out()
        raise
    except Exception as error:
        line, says_the_cause = _line(error)
        leave_out() if says_the_cause else pass_on()
        if line is None:
            raise
        raise ContentcastError(line) from None
    else:
        pass_on()


def _line(error: Exception) -> tuple[str | None, bool]:
    """What to say of it, None if it goes on as it is; and whether that is the cause."""
    if isinstance(error, ImportError) and (lacking := how_to_install(error)):
        return lacking, True
    if isinstance(error, MemoryError):
        return one_line(f"MemoryError: {error}"), True
    if type(error).__name__ == "JavaNotFound":
        return " ".join(str(error).split()), True
    if not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return None, False
    return one_line(str(error)), _cause(str(error)) is not None


def one_line(said: str) -> str:
    """The cause if it is one of those that users meet, else Spark's first line."""
    return _cause(said) or _first_line(said)


def _cause(said: str) -> str | None:
    if _NO_MEMORY.search(said):
        return "Spark ran out of memory; give it more with --memory 8g, or fewer tasks at a time with --master 'local[1]'"
    ours = _OURS.findall(said)
    if ours:
        return str(ours[-1]).strip()
    if _UNREADABLE.search(said):
        file = _FILE.search(said)
        named = unquote(file["path"]) if file else "a file of events"
        return f"{named} cannot be read: it is damaged, or not what its ending says"
    if "PATH_NOT_FOUND" in said:
        return f"there are no events at {said.partition('Path does not exist: ')[2].split()[0].rstrip('.') or 'that path'}"
    if "UNABLE_TO_INFER_SCHEMA" in said:
        return "there are no events in that folder yet; --stream waits for some"
    if "DATA_SOURCE_NOT_FOUND" in said:
        return "this Spark does not have that format; add its package to Spark, or convert the events to Parquet"
    if (lacking := _NO_PACKAGE.search(said)) and "org.apache.spark" in said:
        name = lacking["name"]
        return f"a worker's Python has no {name}; install it there, or name another Python of the workers in PYSPARK_PYTHON"
    if python := _NO_PYTHON.search(said):
        return f"a worker has no {python['python']}; name a Python of the workers: PYSPARK_PYTHON=python3"
    if other := _OTHER_PYTHON.search(said):
        return f"{other['what'].rstrip()} Name another Python of the workers in PYSPARK_PYTHON"
    if _NO_MASTER.search(said):
        return "Spark's master cannot be reached; see --master (local[*] needs none)"
    if _GIVEN_UP.search(said):
        return "Spark's master gave the job up: its executors do not start, or it was ended; the workers' logs say why"
    return None


def _first_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    first = next((line for line in lines if not line.startswith(("An error occurred while calling", ":", "Traceback"))), "")
    return f"Spark failed: {first or said.strip() or 'it did not say why'}"
