"""A Spark session that starts by one call: Java found, UTC, Arrow, and no lines but errors.

Rule: every setting of Spark that contentcast relies on is in this file.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from contentcast.spark.cluster import package
from contentcast.spark.cluster.probe import check_package, is_cluster
from contentcast.spark.format.registration import register
from contentcast.spark.java import find_java, shim
from contentcast.warming.background import kernels

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

QUIET_LOGS = Path(__file__).with_name("log4j2.properties")

EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    **package.ONE_COPY,
}

BROUGHT_TO = ("spark://", "local-cluster")
"""Masters whose executors run in a folder of their own, where Spark unpacks archives."""

# A driver whose workers are all here has no one to talk to outside of this machine, whatever its host name resolves to.
LOCALLY = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def session(app_name: str = "contentcast", master: str = "local[*]", **conf: object) -> SparkSession:
    """The Spark session of this process, started if there is none yet.

    `conf` overrides any setting: `session(**{"spark.sql.shuffle.partitions": 4})`. A session that already runs (in a
    notebook, under spark-submit) is used as it is, with those of the settings that can still change.

    To the workers of a standalone cluster it brings this contentcast (`package`), and asks whether they have it.
    """
    settings = EVERYWHERE | (LOCALLY if _here(master) else {})
    first = not is_running()
    starts = first and "PYSPARK_GATEWAY_PORT" not in os.environ
    if starts and master.startswith(BROUGHT_TO):
        kernels.wait()  # the archive brings what is compiled by now; the rest each worker would compile for itself
        settings |= package.settings()
    settings |= {key: _text(value) for key, value in conf.items()}
    settings[JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={QUIET_LOGS.as_uri()} {settings.get(JAVA_OPTIONS, '')}".strip()
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit says which Python
        running = builder.getOrCreate()
    elif _java_runs():
        with _environment(PYSPARK_PYTHON=os.environ.get("PYSPARK_PYTHON", sys.executable)):
            running = builder.getOrCreate()
    else:
        with _environment(JAVA_HOME=str(shim(find_java())), PYSPARK_PYTHON=os.environ.get("PYSPARK_PYTHON", sys.executable)):
            running = builder.getOrCreate()
    register(running)
    if first and is_cluster(running):  # under spark-submit too, where --archives may have been left out
        try:
            check_package(running)
        except BaseException:
            running.stop()
            raise
    return running


def _here(master: str) -> bool:
    return master.startswith(("local", "spark://127.", "spark://localhost"))


def is_running() -> bool:
    """Whether this process has a session already."""
    return SparkSession.getActiveSession() is not None


@contextlib.contextmanager
def command_session(app_name: str, master: str, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """The session of one command: its own, stopped at the end, or the one that already runs, which goes on."""
    before = is_running()
    running = session(app_name, master=master, **(settings or {}))
    try:
        with quiet_loggers():
            yield running
    finally:
        if not before:
            running.stop()


QUIET = {
    "DataFrameQueryContextLogger": logging.CRITICAL,  # tells each failure as a page of JSON
    "contentcast.spark.subscriptions.indexes": logging.ERROR,  # a command's own summary tells how many were refused
}


@contextlib.contextmanager
def quiet_loggers() -> Iterator[None]:
    """While a command runs, nothing is logged that it tells by itself."""
    before = {name: logging.getLogger(name).level for name in QUIET}
    for name, level in QUIET.items():
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def _java_runs() -> bool:
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextlib.contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Sets variables while Spark starts: the Java process inherits them, programs started later do not."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
