"""A LAN of network namespaces: a bridge with IGMP snooping, a computer each. Where root or `ip` is lacking, the reason is said.

In CI they must run: with CONTENTCAST_NAMESPACES=required, a computer that lacks something fails the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from contentcast.experiments.lan.namespaces import Switch, lacking
from contentcast.experiments.lan.stage import result, stage

LACKING = lacking()
if LACKING and os.environ.get("CONTENTCAST_NAMESPACES") == "required":
    pytest.fail(f"namespaces are required here: {LACKING}", pytrace=False)
pytestmark = pytest.mark.skipif(bool(LACKING), reason=LACKING or "nothing lacks")


def namespaces() -> set[str]:
    return set(subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.split())


def test_what_is_made_is_removed_also_when_something_fails() -> None:
    mine: set[str] = set()

    def fail() -> None:
        with Switch(["a", "b"]) as lan:
            mine.update(each for each in namespaces() if each.startswith(lan._tag))
            done = subprocess.run(lan.command("a", ["ip", "-4", "-o", "address"]), capture_output=True, text=True, check=True)
            assert "10.77.0.1/24" in done.stdout
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fail()
    assert len(mine) == 3
    assert not mine & namespaces()


def test_what_is_made_is_removed_when_the_process_is_asked_to_end() -> None:
    told = (
        "import time\nfrom contentcast.experiments.lan.namespaces import Switch\n"
        "with Switch(['a']) as lan:\n    print(lan._tag, flush=True)\n    time.sleep(60)"
    )
    running = subprocess.Popen([sys.executable, "-c", told], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    tag = running.stdout.readline().strip()
    assert f"{tag}-a" in namespaces()
    running.terminate()
    assert running.wait(timeout=60) == 143
    assert not any(each.startswith(tag) for each in namespaces())


def test_a_computer_is_charged_for_what_it_wants() -> None:
    """Section 6.2.3: who wants one type of two gets, and its interface carries, that type only."""
    with stage(["a", "all", "some"]) as lan:
        assert lan.where == "namespaces"
        told = {"rate": 200, "batch": 1, "size": 1000, "seconds": 1.5, "types": ["t0", "t1"]}
        found = lan.play({"all": {}, "some": {"where": "type = 't1'"}}, {"a": told})
    sent = found["a"]["sent"]
    assert sent > 20
    assert found["all"]["received"] == sent
    assert found["some"]["received"] == sent // 2
    assert (found["some"]["discarded"], found["some"]["missing"]) == (0, 0)
    # Half of the events, and what servers tell each other besides.
    assert found["some"]["link"]["rx_bytes"] < 0.75 * found["all"]["link"]["rx_bytes"]
    assert found["a"]["link"]["tx_packets"] < 1.5 * sent  # each event once, for two subscribers


def test_a_mapping_changes_on_a_real_network_without_loss() -> None:
    running = []
    with stage(["a", "b", "operator"]) as lan:
        told = {"rate": 100, "batch": 1, "size": 200, "seconds": 5}
        found = lan.play(
            {"b": {"quality": "reliable"}},
            {"a": told},
            meanwhile=lambda: running.append(lan.start("operator", {"role": "change", "after": 1.0})),
        )
        changed = result("operator", running[0])
    assert found["b"]["received"] == found["a"]["sent"] > 20
    assert found["b"]["uses"][0] == 2  # all have started with number 1
    assert changed["seconds"] < 10
