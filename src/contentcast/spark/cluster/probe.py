"""What is asked of the workers of a cluster before a job: have they this very contentcast, and do they see a folder?

A job finds either out by itself, but in the middle and with a page of traceback for each task.
Rule: what runs on a worker is sent as code, not by its name: there may be no contentcast to find the name in.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from contentcast import __version__
from contentcast.model.errors import ContentcastError

WAIT_FOR_WORKERS_S: Final = 180.0
"""A busy machine takes minutes to start the executors of a job."""
ROUNDS: Final = 5
"""Of tasks, until each executor had one."""
LOOK_EVERY_S: Final = 0.1
TOKEN: Final = ".contentcast-seen-"


class Seen(NamedTuple):
    """What one executor says: its host and folder, its contentcast (None and the reason if it has none), what it lacks."""

    host: str
    folder: str
    version: str | None
    reason: str
    lacking: list[str]


def is_cluster(spark: SparkSession) -> bool:
    """Are there workers elsewhere, or at least in processes that could be elsewhere?"""
    return not str(spark.sparkContext.master).startswith("local[") and str(spark.sparkContext.master) != "local"


def check_package(spark: SparkSession) -> None:
    for each in ask(spark, []):
        if each.version is None:
            raise ContentcastError(
                f"the worker {each.host} cannot import contentcast: {each.reason}; its Python needs what contentcast imports "
                "(PYSPARK_PYTHON names that Python), and --archives brings contentcast itself: contentcast cluster package"
            )
        if each.version != __version__:
            raise ContentcastError(
                f"the worker {each.host} has contentcast {each.version} and this is {__version__}; install the same there, "
                "or remove it there and let --archives bring this one: contentcast cluster package"
            )


def check_shared(spark: SparkSession, inputs: Iterable[str | Path], outputs: Iterable[str | Path]) -> None:
    """Says which of these folders and files a worker does not see. What has an address (hdfs://, s3a://) is not looked at."""
    if not is_cluster(spark):
        return
    tokens = [_nearest(Path(each).absolute()) / f"{TOKEN}{uuid.uuid4().hex}" for each in outputs if "://" not in str(each)]
    wanted = [str(Path(each).absolute()) for each in inputs if "://" not in str(each) and Path(each).exists()]
    try:
        for token in tokens:
            token.touch()
        for each in ask(spark, [*wanted, *map(str, tokens)]):
            for path in each.lacking:
                named = str(Path(path).parent) if TOKEN in path else path
                raise ContentcastError(
                    f"the worker {each.host} does not see {named}: events and results must stand where driver and workers see "
                    "them, on a network file system or at an address (hdfs://, s3a://)"
                )
    finally:
        for token in tokens:
            token.unlink(missing_ok=True)


def ask(spark: SparkSession, paths: list[str]) -> list[Seen]:
    """Each executor's answer. New ones may join later; they are not asked."""
    _wait_for_workers(spark)
    context = spark.sparkContext
    found: dict[tuple[str, str], Seen] = {}
    for _ in range(ROUNDS):
        tasks = 2 * max(context.defaultParallelism, _executors(spark))
        with _sent_as_code():
            answers = context.parallelize(range(tasks), tasks).mapPartitions(_look(paths)).collect()
        found |= {(each[0], each[1]): Seen(*each) for each in answers}
        if len(found) >= _executors(spark):
            break
    return list(found.values())


def _look(paths: list[str]) -> Callable[[Iterable[int]], Iterator[tuple[Any, ...]]]:
    def look(_: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        import os
        import socket
        import time

        version, reason = None, ""
        try:
            import contentcast.spark.match  # all that a task needs

            version = contentcast.__version__
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        time.sleep(0.1)  # so that one executor does not take all tasks
        yield socket.gethostname(), os.getcwd(), version, reason, [each for each in paths if not os.path.exists(each)]

    return look


@contextmanager
def _sent_as_code() -> Iterator[None]:
    pickling: Any = cloudpickle
    pickling.register_pickle_by_value(sys.modules[__name__])
    try:
        yield
    finally:
        pickling.unregister_pickle_by_value(sys.modules[__name__])


def _nearest(path: Path) -> Path:
    """The folder that is there: the output itself is not yet."""
    return path if path.is_dir() else _nearest(path.parent)


def _executors(spark: SparkSession) -> int:
    infos: Any = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return len(infos) - 1  # the driver is one of them


def _wait_for_workers(spark: SparkSession) -> None:
    if spark.sparkContext.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        return  # executors come for tasks that wait, and for nothing else
    end = time.monotonic() + WAIT_FOR_WORKERS_S
    while _executors(spark) < 1:
        if time.monotonic() > end:
            raise ContentcastError(
                f"{spark.sparkContext.master} gives no executor: no worker has a free core and "
                f"{spark.sparkContext.getConf().get('spark.executor.memory', '1g')} of memory; see its page, or ask for less "
                "with --memory"
            )
        time.sleep(LOOK_EVERY_S)
