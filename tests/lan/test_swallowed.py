"""A real network that swallows multicast: a bridge hands on what is sent to one computer, and nothing that goes to a group.

Needs what `test_namespaces` needs. Each computer is a process; both modes that use multicast, and fan-out, are tried on it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest

from contentcast.experiments.lan.namespaces import Switch, lacking
from tests.lan.loopback import Lan

LACKING = lacking()
if LACKING and os.environ.get("CONTENTCAST_NAMESPACES") == "required":
    pytest.fail(f"namespaces are required here: {LACKING}", pytrace=False)
pytestmark = pytest.mark.skipif(bool(LACKING), reason=LACKING or "nothing lacks")

PROGRAM = """
import asyncio, json, logging, sys
from contentcast.live.lan import connect_lan, reach
from contentcast.model import Space

logging.basicConfig(level=logging.WARNING, format="%(message)s")
reach.NOBODY_AFTER_S = 1.0
role, url = sys.argv[1:3]
space = Space("trades", issue="string", price="float")

async def main():
    async with connect_lan(url, spaces=[space]) as client:
        got = []
        await client.subscribe("trades", f"issue = '{role}'", deliver=lambda each: got.append(each["price"]))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        server = client.server
        members = server.router.members.members
        awaited = sys.argv[4:] or ["multicast", "fanout"]
        try:
            await client.until(
                lambda: any(each.record.blocks for each in members.values()) and server.mode in awaited, float(sys.argv[3])
            )
        except Exception:
            pass
        other = "second" if role == "first" else "first"
        await client.publish("trades", [{"issue": other, "price": float(at)} for at in range(3)])
        try:
            await client.until(lambda: len(got) == 3, float(sys.argv[3]))
        except Exception:
            pass
        state = client.server.state()
        print(json.dumps({"got": got, "mode": state["mode"], "not reached": state["not reached over groups"]}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


@pytest.fixture
def switch() -> Iterator[Switch]:
    with Switch(["a", "b"]) as made:
        made.swallow_multicast("a", "b")
        yield made


def play(
    switch: Switch, mode: str, *, peers: bool, within_s: float, awaited: str = ""
) -> Mapping[str, tuple[dict[str, object], str]]:
    """The first has been there for a while when the second comes; says what each got, and its log.

    Each publishes when it knows what the other wants and, if a mode is `awaited`, has changed to it.
    """
    port = Lan().port
    running: dict[str, subprocess.Popen[str]] = {}
    for role, computer, other in (("first", "a", "b"), ("second", "b", "a")):
        url = f"lan://239.192.79.0:{port}?interface={switch.address(computer)}&insecure=yes&mode={mode}&port={port + 1}"
        if peers:
            url += f"&peer={switch.address(other)}:{port + 1}"
        command = switch.command(computer, [sys.executable, "-c", PROGRAM, role, url, str(within_s), *filter(None, [awaited])])
        running[role] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        out = running[role].stdout
        assert out is not None
        assert out.readline() == "ready\n", running[role].communicate()[1]
    for each in running.values():
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    found = {}
    states = {}
    for role, each in running.items():
        assert each.stdout is not None
        states[role] = json.loads(each.stdout.readline())
    for role, each in running.items():
        _, said = each.communicate("done\n", timeout=60)
        found[role] = (states[role], said)
    return found


def test_auto_falls_back_to_copies_and_delivers(switch: Switch) -> None:
    for state, said in play(switch, "auto", peers=True, within_s=60).values():
        assert (state["got"], state["mode"]) == ([0.0, 1.0, 2.0], "fanout"), said
        assert "the network swallows multicast: 1 peers are not reached through the group" in said
        assert "sending a copy to each of 1 peers" in said


def test_fan_out_delivers(switch: Switch) -> None:
    for state, said in play(switch, "fanout", peers=True, within_s=60).values():
        assert (state["got"], state["mode"]) == ([0.0, 1.0, 2.0], "fanout")
        assert "reached" not in said


def test_multicast_says_whom_it_does_not_reach(switch: Switch) -> None:
    for state, said in play(switch, "multicast", peers=True, within_s=4).values():
        assert (state["got"], state["mode"], state["not reached"]) == ([], "multicast", 1)
        assert "what is published here does not come to them: take mode=auto" in said


@pytest.mark.parametrize("mode", ["auto", "multicast"])
def test_without_peers_a_server_says_that_it_reaches_nobody(switch: Switch, mode: str) -> None:
    for state, said in play(switch, mode, peers=False, within_s=3).values():
        assert (state["got"], state["mode"]) == ([], "multicast")
        assert "nobody is reached: no other server was heard on udp_ipm://239.192.79.0" in said
        assert "name the others with peer=host:port" in said


def test_the_same_network_delivers_over_groups_when_it_lets_multicast_pass() -> None:
    """So it is the switch that made the difference above."""
    with Switch(["a", "b"]) as open_switch:
        for state, said in play(open_switch, "auto", peers=True, within_s=60).values():
            assert (state["got"], state["mode"], state["not reached"]) == ([0.0, 1.0, 2.0], "multicast", 0)
            assert "peers are not reached" not in said


def test_a_network_that_swallows_one_direction_is_noticed_by_both() -> None:
    """What goes to the group reaches b, and does not reach a. What b sends before it has noticed is lost."""
    with Switch(["a", "b"]) as half:
        half.swallow_multicast("a")
        for state, said in play(half, "auto", peers=True, within_s=60, awaited="fanout").values():
            assert (state["got"], state["mode"]) == ([0.0, 1.0, 2.0], "fanout"), said
