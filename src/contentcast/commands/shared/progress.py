"""What long work shows on stderr: a bar while somebody looks at it, else a line now and then (`progress_lines`)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from contentcast.progress_lines import lines


def tasks_of(tracker: Any) -> tuple[int, int]:
    """Of Spark: the tasks that are done, and all, of the stages that run."""
    stages = [info for each in tracker.getActiveStageIds() if (info := tracker.getStageInfo(each)) is not None]
    return sum(each.numCompletedTasks for each in stages), sum(each.numTasks for each in stages)


@contextmanager
def progress(what: str | Callable[[], str], rows: int | None, unit: str = "") -> Iterator[Callable[[int], None]]:
    """Gives a function to be told how many more rows are done. `rows` is None where nobody knows how many will come.

    `what` is a function where the work has several steps: it says at which one it is now.
    """
    step = what if callable(what) else what.__str__
    behind = f" {unit}" if unit else ""
    if not sys.stderr.isatty():
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done += more

        with lines(lambda: f"{step()}: {done:,}{behind}" if rows is None else f"{step()}: {done:,} of {rows:,}{behind}"):
            yield advance
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(f"{{task.description}}{behind}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(step(), total=rows)
        yield lambda done: bar.update(task, advance=done, description=step())
