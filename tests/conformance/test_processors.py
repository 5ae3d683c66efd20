"""The index finds the same on processors with other instructions: its conformance, compiled for less than this one has.

Each runs in a process of its own. Its kernels stay in a folder beside the user's other ones, so that only the first run in the
first clone compiles.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite.binding import get_host_cpu_features

from contentcast.kernels import cache

ROOT = Path(__file__).parents[2]
SUITE = (
    "tests/unit/matching/index/machine/test_compaction.py",
    "tests/unit/matching/index/test_coders.py",
    "tests/unit/matching/index/test_bitmaps.py",
    "tests/conformance/test_engines.py",
)
LONGEST_S = 1800
"""Only so that it ends. Alone on a machine it takes a minute or two, and much less when the kernels are there."""


def has(name: str) -> bool:
    return platform.machine().lower() in ("x86_64", "amd64") and bool(get_host_cpu_features().get(name))


def without(*prefixes: str) -> str:
    """The features of this processor but those that begin so."""
    there = (name for name, found in get_host_cpu_features().items() if found)
    return ",".join(("-" if name.startswith(prefixes) else "+") + name for name in there)


@pytest.mark.parametrize("way", ["avx2", "loop"])
def test_the_same_matches(way: str) -> None:
    chosen = {"NUMBA_CPU_NAME": "generic"}  # no features at all: the plain baseline
    if way == "avx2":
        if not has("avx2"):
            pytest.skip("this processor has no AVX2; what it has is tested everywhere else")
        chosen = {"NUMBA_CPU_NAME": "znver3", "NUMBA_CPU_FEATURES": without("avx512", "avx10", "amx")}
    told = os.environ | chosen | {"CONTENTCAST_TEST_WAY": way, cache.FOLDER: str(cache.folder() / f"tested-{way}")}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *SUITE]
    found = subprocess.run(
        [*command, "-k", "not scan and not tree"], cwd=ROOT, env=told, capture_output=True, text=True, timeout=LONGEST_S
    )
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-2000:]
