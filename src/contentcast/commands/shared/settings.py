"""`--set NAME=VALUE`: symbols=500, zipf=1.2, hot=true; and what `--memory`, `--jars` and `--conf` tell Spark."""

from __future__ import annotations

import json
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


def spark_settings(memory: str | None, jars: list[str], conf: list[str]) -> dict[str, str]:
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
        raise ContentcastError(f"there are no packages of Spark at {given}; make fetch brings those of the guide")
    return [str(Path(each).absolute()) for each in found]
