"""A LAN of network namespaces on one Linux computer: a switch with IGMP snooping, and a computer behind each of its ports.

    cc<tag>-sw      a bridge with snooping and a querier
    cc<tag>-a       eth0 10.77.0.1, a veth pair to the bridge
    cc<tag>-b       eth0 10.77.0.2

Source: Eide et al. 2003, section 6.1 (switched Ethernet with IGMP snooping). The switch is a namespace as well, so that
nothing of the computer's own network is touched.
Rule: what was made here is removed here, also when something fails or the process is asked to end (SIGTERM); names of other
namespaces are never touched.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from contentcast.model import ContentcastError

PREFIX: Final = "10.77.0."


def lacking() -> str:
    """What this computer lacks for namespaces, in one line; empty if nothing."""
    if shutil.which("ip") is None:
        return "there is no `ip` command: install iproute2 (apt-get install iproute2)"
    if os.geteuid() != 0:
        return "network namespaces need root: run with sudo"
    name = f"cc{secrets.token_hex(3)}-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"network namespaces are not allowed here: {made.stderr.strip()}"
    # A container may make namespaces and still have no virtual Ethernet or bridges.
    found = ""
    for command in (
        ["ip", "-n", name, "link", "add", "try0", "type", "bridge"],
        ["ip", "-n", name, "link", "add", "try1", "type", "veth", "peer", "name", "try2"],
    ):
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
        if tried.returncode:
            found = f"this kernel makes no {command[7]}: {tried.stderr.strip()}"
            break
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return found


class Switch:
    """`with Switch(["a", "b"]) as lan: lan.command("a", [...])` runs a command on computer a."""

    def __init__(self, computers: Sequence[str]) -> None:
        self.computers = tuple(computers)
        self._tag = f"cc{secrets.token_hex(3)}"
        self._made: list[str] = []
        self._before: Any = None

    def __enter__(self) -> Switch:
        what = lacking()
        if what:
            raise ContentcastError(what)
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(self._made):
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "del", name)
        self._made.clear()
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
            self._before = None

    def _make(self) -> None:
        switch = self._add("sw")
        _ip("-n", switch, "link", "add", "br0", "type", "bridge", "mcast_snooping", "1", "mcast_querier", "0")
        # Snooping holds only once the querier's response interval is over (ten seconds unless told). The querier takes the one
        # that is set when it is switched on.
        for option in ("mcast_query_response_interval", "mcast_startup_query_interval"):
            _ip("-n", switch, "link", "set", "br0", "type", "bridge", option, "50")
        _ip("-n", switch, "address", "add", f"{PREFIX}254/24", "dev", "br0")
        _ip("-n", switch, "link", "set", "br0", "up")
        _ip("-n", switch, "link", "set", "br0", "type", "bridge", "mcast_querier", "1")
        for number, name in enumerate(self.computers, 1):
            made = self._add(name)
            port = f"port{number}"
            _ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", made)
            _ip("-n", switch, "link", "set", port, "master", "br0", "up")
            _ip("-n", made, "address", "add", f"{PREFIX}{number}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                _ip("-n", made, "link", "set", link, "up")

    def _add(self, name: str) -> str:
        made = f"{self._tag}-{name}"
        _ip("netns", "add", made)
        self._made.append(made)
        return made

    def address(self, computer: str) -> str:
        return f"{PREFIX}{1 + self.computers.index(computer)}"

    def command(self, computer: str, command: Sequence[str]) -> list[str]:
        """The same command, run on that computer."""
        self.address(computer)
        return ["ip", "netns", "exec", f"{self._tag}-{computer}", *command]

    def cut(self, computer: str) -> None:
        """Takes the plug of this computer out of the switch."""
        _ip("-n", f"{self._tag}-sw", "link", "set", f"port{1 + self.computers.index(computer)}", "down")

    def swallow_multicast(self, *computers: str) -> None:
        """From now on the switch hands no multicast to these, as many clouds and container networks do; what is sent to one
        computer alone passes."""
        _ip("-n", f"{self._tag}-sw", "link", "set", "br0", "type", "bridge", "mcast_querier", "0", "mcast_snooping", "0")
        for computer in computers:
            port = f"port{1 + self.computers.index(computer)}"
            _ip("-n", f"{self._tag}-sw", "link", "set", port, "type", "bridge_slave", "mcast_flood", "off")

    def mend(self, computer: str) -> None:
        _ip("-n", f"{self._tag}-sw", "link", "set", f"port{1 + self.computers.index(computer)}", "up")


def counters(interface: str) -> dict[str, int]:
    """What the interface has counted since it was made; empty where there is none of this name."""
    folder = Path("/sys/class/net") / interface / "statistics"
    wanted = ("rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "rx_dropped")
    return {each: int((folder / each).read_text()) for each in wanted} if folder.is_dir() else {}


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ContentcastError(f"ip {' '.join(words)}: {done.stderr.strip()}")
