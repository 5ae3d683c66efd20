"""One Spark for the stories that need packages from Maven: Kafka's and Hadoop's for S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from contentcast.spark import session
from requirements import jars
from tests.downloads.servers import KafkaBroker, S3Server


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    started = KafkaBroker(tmp_path_factory.mktemp("kafka")).start()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    started = S3Server(tmp_path_factory.mktemp("s3")).start()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def spark(store: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    packages = [str(each) for name in ("kafka", "s3") for each in sorted(Path(jars.fetch(name)).glob("*.jar"))]
    running = session(
        "contentcast downloads",
        master="local[2]",
        **{
            "spark.jars": ",".join(packages),
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": 2,
            "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse"),
            "spark.hadoop.fs.s3a.endpoint": store.address,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.access.key": "tests",
            "spark.hadoop.fs.s3a.secret.key": "tests",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        },
    )
    yield running
    running.stop()
