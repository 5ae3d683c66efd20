"""A newcomer's first answer: in a process of its own, with an empty cache, it needs no compiler. Counted, not timed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COUNTING = """
import logging, sys
logging.getLogger("contentcast.kernels").setLevel(logging.ERROR)

def compiled():
    if "numba" not in sys.modules:
        return 0
    return len(COMPILED)

COMPILED = []

def count():
    from numba.core import event
    class Counting(event.Listener):
        def on_start(self, event):
            pass
        def on_end(self, event):
            COMPILED.append(event.data["dispatcher"])
    event.register("numba:compile", Counting())
"""

SMALL = """
import contentcast as cc
trades = cc.Space("trades", issue="string", price="float", volume="int")
index = cc.MatchIndex(trades)
index.add(1, "issue = 'IBM' AND price < 120 AND volume > 1000")
index.add_many([2, 3], ["issue LIKE '%B%' OR price IS NULL", "volume = 7"])
assert index.match({"issue": "IBM", "price": 119.5, "volume": 5000}) == [1, 2]
index.remove(2)
assert index.explain({"issue": "IBM", "price": 119.5, "volume": 5000}) == {"matched": [1]}
assert index.statistics()["engine"] == "plain"
assert "numba" not in sys.modules, "Numba was imported"
"""

LARGE = """
count()
import contentcast as cc
from contentcast.matching import Scan
from contentcast.workload import scenario
drawn = scenario("market", seed=5)
wanted, records = drawn.subscriptions(3_000), drawn.events(5)
index = cc.MatchIndex(drawn.space)
index.add_many(wanted["subscription"], wanted["predicate"])
found = index.match_batch(records)
oracle = Scan(drawn.space)
for each, text in zip(wanted["subscription"].to_pylist(), wanted["predicate"].to_pylist()):
    oracle.add(each, cc.parse_predicate(drawn.space, text))
events = records.to_pylist()
expected = [(row, each) for row, event in enumerate(events) for each in oracle.match(event)]
assert list(zip(found["event"].to_pylist(), found["subscription"].to_pylist())) == expected
assert index.statistics()["engine"] == "plain"
assert compiled() == 0, COMPILED
"""

BROKER = """
count()
import asyncio
import contentcast as cc
from contentcast.kernels import kernel
from contentcast.live.broker import Broker
from contentcast.live.errors import NotConnected
from contentcast.live.settings.address import read_address
from contentcast.live.settings.config import BrokerConfig

async def main():
    space = cc.Space("trades", issue="string", price="float")
    config = BrokerConfig(listen=(read_address("contentcast://127.0.0.1:0"),), spaces=(space,), protocol={protocol!r})
    async with Broker(config) as broker:
        came = asyncio.Queue()
        while came.empty():
            try:
                async with cc.connect(str(broker.addresses[0])) as client:
                    await client.subscribe("trades", "price < 120", deliver=came.put_nowait)
                    await client.publish("trades", {{"issue": "IBM", "price": 119.5}})
                    await came.get()
                    break
            except NotConnected:  # a machine with much else to do
                pass
        assert kernel.as_python, "something was compiled already"
        assert compiled() == 0, COMPILED

asyncio.run(main())
"""


def run(script: str, cache: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA")}
    ended = subprocess.run(
        [sys.executable, "-c", COUNTING + script],
        env=environment | {"CONTENTCAST_CACHE": str(cache), "HOME": str(cache), "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr


def test_a_small_index_answers_without_numba(tmp_path: Path) -> None:
    run(SMALL, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_large_index_answers_while_others_compile(tmp_path: Path) -> None:
    run(LARGE, tmp_path)


@pytest.mark.parametrize("protocol", ["link-matching", "two-tier", "summaries", "covering"])
def test_a_broker_serves_its_first_client_while_others_compile(protocol: str, tmp_path: Path) -> None:
    run(BROKER.format(protocol=protocol), tmp_path)
