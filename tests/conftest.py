"""What every test may use: the Hypothesis profiles, compiled kernels, and one Spark session, started by the first who asks."""

import os
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONGEST_FIRST = (
    "tests/conformance/test_processors.py",
    "tests/cluster/test_standalone.py",
    "tests/conformance/test_engines.py",
    "tests/conformance/test_routers.py",
    "tests/spark/test_interrupts.py",
    "tests/spark/test_match.py",
    "tests/spark/pipeline/test_job.py",
    "tests/spark/format/test_broker_source.py",
    "tests/spark/test_deliver.py",
    "tests/spark/test_interrupts.py",
    "tests/spark/format/test_source.py",
    "tests/experiments/test_experiments.py",
    "tests/unit/commands/test_match.py",
    "tests/unit/commands/test_run.py",
    "tests/unit/commands/test_outputs.py",
    "tests/live/test_durable_crashes.py",
    "tests/live/test_lan_durable.py",
    "tests/lan/test_namespaces.py",
)
"""Whole files go to the processes of `make test`: with a long one at the end the other process would wait for it."""

FUZZ_EXAMPLES = "CONTENTCAST_FUZZ_EXAMPLES"

# By default every run tries the same examples: a red test is red for all, and a slow machine changes nothing.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
# CONTENTCAST_FUZZ_EXAMPLES=20000 make test, or pytest --hypothesis-profile=fuzz: other examples each time, and many.
settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get(FUZZ_EXAMPLES, "5000")),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fuzz" if FUZZ_EXAMPLES in os.environ else "repeatable")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(place)))


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels(pytestconfig: pytest.Config) -> None:
    """An index uses its kernels from the beginning, however small it is; `plain_engine` is for tests of the other engine.

    After a change they are compiled first, which takes minutes and says so: pytest keeps what is printed, but not this.
    """
    from contentcast.progress_lines import say
    from contentcast.warming.background import kernels

    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def tell(line: str) -> None:
        with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
            say(line)

    kernels.wait(tell)


@pytest.fixture
def plain_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every index that the test makes goes without kernels."""
    from contentcast import MatchIndex

    monkeypatch.setattr(MatchIndex, "use_kernels", lambda self: None)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    from contentcast.spark import session

    running = session(
        "contentcast tests",
        master="local[2]",
        **{
            "spark.sql.shuffle.partitions": 2,
            "spark.default.parallelism": 2,
            "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse"),
        },
    )
    yield running
    running.stop()
