"""Delta and Iceberg, each with the newest Spark that it has a release for, in an environment of its own (`lake_stories`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from requirements import jars

ROOT = Path(__file__).parents[2]
LIMIT_S = 480.0
SPARKS = {"delta": "4.2.1", "iceberg": "4.1.4"}


def spark_of(format: str) -> Path:
    """Where `make test-cluster` has put that Spark."""
    return Path(os.environ.get("CONTENTCAST_SPARKS", ROOT / ".venv" / "sparks")) / SPARKS[format]


@pytest.mark.parametrize("format", SPARKS)
def test_the_stories_of_a_lake(format: str, tmp_path: Path) -> None:
    there = spark_of(format)
    assert there.is_dir(), f"{there} is missing: make test-cluster installs it"
    packages = ",".join(str(each) for each in sorted(jars.fetch(format).glob("*.jar")))
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(there), str(ROOT / "src"), str(ROOT)]),
        "SPARK_HOME": str(there / "pyspark"),
    }
    words = [sys.executable, str(ROOT / "tests" / "downloads" / "lake_stories.py"), format, str(tmp_path), packages]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, env=environment)
    assert ended.returncode == 0, ended.stderr[-3000:]
    told = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    assert [each["story"] for each in told] == ["batch", "once", "rules", "travel"]
    assert {each["spark"] for each in told} == {SPARKS[format]}
