"""What `contentcast match` is given: which files are meant, whether they are there, and whether Spark is needed for them.

Rule: everything that can be told from names, endings and sizes is told before anything is imported that takes long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from contentcast.commands.shared.settings import is_address
from contentcast.files.open_events import check_there, files_of, format_of_files
from contentcast.model import ContentcastError
from contentcast.model.events.event_files import STDIN
from contentcast.model.plain_files import check_plain, meant
from contentcast.progress_lines import say

HERE_BYTES: Final = 2**30
"""Events and rules that take more, as they lie in their files, are matched on Spark unless told otherwise."""


class Inputs:
    def __init__(self, events: Sequence[str], subscriptions: str | Path, space: Path) -> None:
        self.events, self.subscriptions, self.space = list(events), str(subscriptions), space

    @property
    def files(self) -> list[str]:
        """Of the events, without topics and tables of a lake."""
        return [each for each in self.events if not is_address(each)]

    @property
    def bytes(self) -> int:
        """Of events and rules, as they lie; standard input counts nothing."""
        files = [each for each in self.files if each != STDIN and "://" not in each]
        events = sum(each.stat().st_size for each in files_of(files, None)) if files else 0
        rules = Path(self.subscriptions)
        if is_address(self.subscriptions) or not rules.exists():
            return events
        inside = rules.rglob("*") if rules.is_dir() else [rules]
        return events + sum(each.stat().st_size for each in inside if each.is_file())


def inputs(paths: list[str], events: list[str] | None, subscriptions: str | None, space: Path | None) -> Inputs:
    """Options win over what the folder holds. `--events *.parquet` is one option and a row of paths: events, all of them."""
    folder = Path(paths[0]) if len(paths) == 1 and paths[0] != STDIN else None
    alone = folder is not None and folder.is_dir() and not any(each.stem == "events" for each in folder.iterdir())
    if subscriptions and space and (events or alone or (paths and (folder is None or not folder.is_dir()))):
        return _checked(Inputs([*(events or []), *paths], subscriptions, space))
    if len(paths) > 1 and not events:
        raise ContentcastError(f"match: one folder, or events with --rules and --space; not {len(paths)} paths")
    if folder is not None and not folder.is_dir():
        raise ContentcastError(f"there is no folder {folder}" if not folder.exists() else _lacking(paths, subscriptions, space))
    if folder is None:
        raise ContentcastError(_lacking(events or paths, subscriptions, space))
    given = list(events) if events else [str(_inside(folder, "events"))]
    return _checked(Inputs(given, subscriptions or _inside(folder, "subscriptions"), space or _inside(folder, "space")))


def _lacking(events: Sequence[str], subscriptions: str | None, space: Path | None) -> str:
    named = (("events", events), ("rules", subscriptions), ("space", space))
    lacking = [name for name, given in named if not given]
    makes = f"; `contentcast space {' '.join(events)}` makes one" if lacking == ["space"] and STDIN not in events else ""
    return f"match: add {' and '.join(f'--{name}' for name in lacking)}, or name the folder where they are{makes}"


def _checked(chosen: Inputs) -> Inputs:
    for each, what in ((chosen.subscriptions, "subscription"), (str(chosen.space), "space")):
        if is_address(each):
            continue
        if not Path(each).exists():
            makes = f"; `contentcast space {' '.join(chosen.events)} --out {each}` makes one" if what == "space" else ""
            hint = meant(Path(each)) or makes
            raise ContentcastError(f"there is no {what} file {each}{hint}")
        check_plain(Path(each))
    check_there(chosen.files)
    if len(chosen.files) < len(chosen.events) != 1:
        raise ContentcastError("match: events come from one topic or table, or from files")
    return chosen


def _inside(folder: Path, name: str) -> Path:
    found = sorted(each for each in folder.iterdir() if each.stem == name)
    if len(found) != 1:
        there = f"holds {', '.join(each.name for each in found)}" if found else f"holds no {name}"
        hint = (
            f"; `contentcast space {folder}/events.* --out {folder}/space.toml` makes one"
            if name == "space" and not found
            else ""
        )
        raise ContentcastError(f"{folder} {there}; say which: --{name} FILE{hint}")
    return found[0]


def check_format(given: Inputs, format: str | None, stream: bool) -> None:
    """Before anything is started: do the endings say how the events are written?"""
    local = [each for each in given.files if each != STDIN and "://" not in each]
    if format is None and local:
        format_of_files(local, stream)


def on_spark(given: Inputs, wanted: bool | None, spark_only: Mapping[str, object], format: str | None) -> bool:
    """Whether Spark does it. `spark_only`: options that only Spark has, with what was given for them."""
    told = [name for name, value in spark_only.items() if value]
    outside = [each for each in (*given.events, given.subscriptions) if is_address(each) or "://" in each]
    if wanted is False and (told or outside):
        raise ContentcastError(f"match: {(told or outside)[0]} needs Spark; leave out --no-spark")
    if wanted is not None or told or outside or format == "delta":
        return wanted is not False
    if given.bytes <= HERE_BYTES:
        return False
    if find_spec("pyspark") is None:
        say("PySpark is not installed, so one process matches all of it; pip install 'contentcast[spark]' for several")
        return False
    return True
