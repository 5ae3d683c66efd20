"""Addresses of what does not stand in files, as commands and settings write them.

    kafka://host:9092,other:9092/trades       a topic
    delta:lake/trades                         a Delta table, by its folder
    iceberg:lake.market.trades                an Iceberg table, by its name in a catalog

Rule: an address says where, and nothing about what is done there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from contentcast.model.errors import ContentcastError

KAFKA, DELTA, ICEBERG = "kafka://", "delta:", "iceberg:"


@dataclass(frozen=True)
class Topic:
    servers: str
    name: str

    def __str__(self) -> str:
        return f"{KAFKA}{self.servers}/{self.name}"


@dataclass(frozen=True)
class LakeTable:
    """`place`: the folder of a Delta table, the name of an Iceberg one."""

    format: str
    place: str

    def __str__(self) -> str:
        return f"{self.format}:{self.place}"


Address: TypeAlias = Topic | LakeTable

DELTA_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
ICEBERG_SETTINGS: Final = {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"}


def address(text: str) -> Address | None:
    """None for the path of a file or a folder."""
    if text.startswith(KAFKA):
        servers, _, name = text.removeprefix(KAFKA).partition("/")
        if not servers or not name or "/" in name:
            raise ContentcastError(f"{text}: a topic is written kafka://HOST:PORT/TOPIC")
        return Topic(servers, name)
    if text.startswith(DELTA):
        place = text.removeprefix(DELTA)
        return LakeTable("delta", place if "://" in place else str(Path(place).absolute()))
    if text.startswith(ICEBERG):
        return LakeTable("iceberg", text.removeprefix(ICEBERG))
    return None


def settings_for(addresses: list[Address | None]) -> dict[str, str]:
    """What Spark must be told at its start so that it knows these formats; an Iceberg catalog is the user's to name."""
    formats = {each.format for each in addresses if isinstance(each, LakeTable)}
    if formats == {"delta", "iceberg"}:
        raise ContentcastError("Delta and Iceberg do not go together in one job: no Spark has releases of both; copy one table")
    return {"delta": DELTA_SETTINGS, "iceberg": ICEBERG_SETTINGS}[formats.pop()] if formats else {}
