"""Who changes an index in the midst of the matching does not wait for kernels: they are loaded since it was built."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

GROW = """
import numpy as np
import contentcast as cc
from contentcast.workload import scenario

drawn = scenario({scenario!r}, seed=5)
texts, events = drawn.subscriptions(30_000)["predicate"], drawn.events(100, 0)
index = cc.MatchIndex(drawn.space)
index.add_many(np.arange(1_500), texts.slice(0, 1_500))
index.match_batch(events)
moves = 0
print("built", flush=True)
for begin in range(1_500, 30_000, 250):
    index.add_many(np.arange(begin, begin + 250), texts.slice(begin, 250))
    index.remove_many(np.arange(begin, begin + 10))
    moves += index.statistics()["migrating"]
assert moves and index.statistics()["planned_for"] > 1_500, "it has not moved"
print("grown", flush=True)
"""


@pytest.mark.parametrize("scenario", ["market", "w1", "w1b"])
def test_growing_loads_no_kernel(scenario: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GROW.format(scenario=scenario)],
        env=os.environ | {"NUMBA_DEBUG_CACHE": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    before, _, after = done.stdout.partition("built\n")
    assert "data loaded" in before or "data saved" in before
    assert after.rstrip().endswith("grown")
    assert [line for line in after.splitlines() if "[cache]" in line] == []
