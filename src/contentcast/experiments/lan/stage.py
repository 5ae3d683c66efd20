"""Where the parties of an experiment run: each in a network namespace of its own, or all on loopback.

`stage(computers)` takes namespaces where they can be had. Elsewhere the same runs on loopback, and the results say so.
Rule: traffic goes to loopback or to namespaces that were made here, and nowhere else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

from contentcast.experiments.lan.namespaces import Switch, lacking
from contentcast.model import ContentcastError

_ports: Final = count(21_000 + os.getpid() % 20_000)
READY_S: Final = 60.0
PARTY: Final = "contentcast.experiments.lan.party"


class Stage:
    def __init__(self, switch: Switch | None, why: str) -> None:
        self.where = "namespaces" if switch is not None else f"loopback ({why})"
        self._switch = switch
        self._port = next(_ports)

    def url(self, computer: str) -> str:
        interface = "127.0.0.1" if self._switch is None else self._switch.address(computer)
        return f"lan://239.192.78.0:{self._port}?interface={interface}&insecure=yes"

    def start(self, computer: str, told: Mapping[str, Any], module: str = PARTY) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", module, json.dumps({"url": self.url(computer), **told})]
        if self._switch is not None:
            command = self._switch.command(computer, command)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def play(
        self,
        subscribers: Mapping[str, Mapping[str, Any]],
        publishers: Mapping[str, Mapping[str, Any]],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> dict[str, dict[str, Any]]:
        """Subscribers first; publishers when all of them are ready; then `meanwhile`. Says what each counted."""
        self._port = next(_ports)
        running: dict[str, subprocess.Popen[str]] = {}
        try:
            for name, told in subscribers.items():
                running[name] = self.start(name, {"role": "subscribe", **told})
            for name in subscribers:
                _ready(name, running[name])
            for name, told in publishers.items():
                running[name] = self.start(name, {"role": "publish", "members": len(subscribers), **told})
            meanwhile()
            return {name: result(name, each) for name, each in running.items()}
        finally:
            for each in running.values():
                if each.poll() is None:
                    each.kill()
                    each.wait()


def _ready(name: str, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        raise ContentcastError(f"{name} did not start: {process.communicate()[1][-500:]}")


def result(name: str, process: subprocess.Popen[str]) -> dict[str, Any]:
    out, said = process.communicate(timeout=READY_S + 60)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        raise ContentcastError(f"{name} failed: {said[-500:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


@contextmanager
def stage(computers: Sequence[str], *, namespaces: bool = True) -> Iterator[Stage]:
    why = lacking() if namespaces else "asked for"
    if why:
        yield Stage(None, why)
        return
    with Switch(computers) as switch:
        yield Stage(switch, "")
