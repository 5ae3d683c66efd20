"""Same seed, same trace, byte for byte: in this process, in others, with and without the codec."""

import io
import os
import subprocess
import sys

import pytest

from contentcast.network.topology import Topology
from contentcast.simulation.faults import play
from contentcast.simulation.story import Story
from contentcast.simulation.trace import Trace
from contentcast.simulation.ways.links import LinkQuality
from contentcast.simulation.world import World
from tests.simulation.small import flooding, trade, wish

LINE = Topology.of("abc", [("a", "b", 0.010), ("b", "c", 0.020)])
DIGEST_OF_STORY_5 = """
from contentcast.simulation.faults import play
from contentcast.simulation.story import Story
print(play(Story.random(5), "flooding").digest)
"""


def traced(trace: Trace, **options: object) -> World:
    world = World(LINE, flooding, trace=trace, **options)  # type: ignore[arg-type]
    world.put("c", wish(7, "price < 120"))
    world.put("a", trade(1), at=1.0)
    world.cut("a", "b", at=2.0)
    return world.run()


def test_a_trace_can_be_read() -> None:
    trace = Trace()
    traced(trace)
    after = [line for line in trace.lines if line[0] in "12"]
    assert after[0] == "1.0 a.1 Published[1] -> Send b Publish a.1/1[1]"
    assert after[2].split(" ", 1)[1] == "c.1 Received b Publish a.1/1[1] -> Account[1: 2]; Deliver[1: desk-7]"
    assert "2.0 cut a-b" in after
    assert "2.1 a.1 LinkLost b" in after


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_the_same_seed_gives_the_same_trace_and_another_seed_another(seed: int) -> None:
    first, second = Trace(), Trace()
    play(Story.random(seed), "flooding", trace=first)
    play(Story.random(seed), "flooding", trace=second)
    assert first.lines == second.lines
    assert first.digest() == second.digest()
    assert len(first.lines) > 100
    assert play(Story.random(seed + 100), "flooding").digest != first.digest()


def test_the_trace_does_not_depend_on_how_python_orders_sets() -> None:
    hashes = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    other = subprocess.run(
        [sys.executable, "-c", DIGEST_OF_STORY_5],
        env={**os.environ, "PYTHONHASHSEED": hashes},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert other.stdout.strip() == play(Story.random(5), "flooding").digest


def test_the_codec_changes_nothing_that_can_be_seen() -> None:
    plain, coded = Trace(), Trace()
    assert traced(plain).totals() == traced(coded, codec=True).totals()
    assert plain.lines == coded.lines


def test_a_trace_goes_to_a_file_with_the_same_digest() -> None:
    file = io.StringIO()
    kept, written = Trace(), Trace(file)
    quality = LinkQuality(loss=0.3, jitter_s=0.01)
    traced(kept, links=quality)
    traced(written, links=quality)
    assert file.getvalue().splitlines() == kept.lines
    assert written.lines == []
    assert (written.count, written.digest()) == (len(kept.lines), kept.digest())
