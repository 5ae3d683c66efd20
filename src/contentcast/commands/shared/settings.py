"""`--set NAME=VALUE`: symbols=500, zipf=1.2, hot=true; and what `--memory`, `--jars` and `--conf` tell Spark."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any, Final

from contentcast.model import ContentcastError


def setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ContentcastError(f"--set takes NAME=VALUE, got {text!r}")
    try:
        return name.strip(), json.loads(value.strip().lower())
    except ValueError:
        return name.strip(), value


ADDRESSES: Final = ("kafka://", "delta:", "iceberg:")


def is_address(text: str) -> bool:
    """A topic or a table of a lake, not a file."""
    return text.startswith(ADDRESSES)


@dataclass(frozen=True)
class Where:
    """Where Spark runs, and with what; what is wrong with it is told when it is made, before anything starts."""

    master: str = "local[*]"
    memory: str | None = None
    jars: Sequence[str] = ()
    conf: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_master(self.master)
        self.settings  # noqa: B018 - to check them

    @property
    def settings(self) -> dict[str, str]:
        return spark_settings(self.memory, self.jars, self.conf)


_MASTERS: Final = re.compile(
    r"local(\[(\*|[1-9]\d*)(,\s*[1-9]\d*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|spark://[^\s:]+:\d+.*|yarn|k8s://.+"
)
_MEMORY: Final = re.compile(r"(\d+)([kmgt])", re.IGNORECASE)
_BYTES: Final = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
LEAST_MEMORY: Final = 512 * 2**20
"""Spark itself does not start with less than 450 MiB."""


PATIENCE_S: Final = 5.0


def check_master(master: str) -> None:
    """Its form; and of a standalone cluster whether somebody listens there, since Spark itself tries for a minute."""
    if not _MASTERS.fullmatch(master):
        raise ContentcastError(
            f"--master takes local[*] or local[4], spark://HOST:7077, yarn or k8s://https://HOST:PORT, got {master!r}"
        )
    if master.startswith("spark://"):
        reasons = [_unreachable(each) for each in master.removeprefix("spark://").split(",")]
        if all(reasons):
            raise ContentcastError(
                f"Spark's master {master} cannot be reached ({reasons[0]}); see --master (local[*] needs none)"
            )


def _unreachable(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE_S).close()
    except (OSError, ValueError, OverflowError) as reason:
        return getattr(reason, "strerror", None) or str(reason)
    return None


def check_memory(memory: str, least: int = LEAST_MEMORY) -> None:
    found = _MEMORY.fullmatch(memory)
    if found is None:
        raise ContentcastError(f"--memory takes a number and a unit, such as 512m or 4g, got {memory!r}")
    if int(found[1]) * _BYTES[found[2].lower()] < least:
        raise ContentcastError(f"--memory {memory} is too little: Spark needs {least // 2**20}m or more")


def spark_settings(memory: str | None, jars: Sequence[str], conf: Sequence[str]) -> dict[str, str]:
    if memory is not None:
        check_memory(memory)
    settings = {} if memory is None else {"spark.driver.memory": memory, "spark.executor.memory": memory}
    if jars:
        settings["spark.jars"] = ",".join(file for each in jars for file in _jar_files(each))
    for each in conf:
        name, equals, value = each.partition("=")
        if not equals or not name.startswith("spark."):
            raise ContentcastError(f"--conf takes a setting of Spark, spark.NAME=VALUE, got {each!r}")
        settings[name] = value
    return settings


def _jar_files(given: str) -> list[str]:
    path = Path(given).expanduser()
    found = sorted(map(str, path.glob("*.jar"))) if path.is_dir() else sorted(glob(str(path)))
    if not found:
        raise ContentcastError(
            f"there are no packages of Spark at {given}; in a clone of contentcast `python requirements/jars.py kafka` fetches "
            "those for Kafka (docs/guide/cluster.md)"
        )
    return [str(Path(each).absolute()) for each in found]
