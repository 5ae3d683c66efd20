"""`contentcast network`: all brokers of a network file as processes on this machine.

    up       starts a broker for each of the file; the one of a pair that comes later in the file dials. Of a network that
             runs, it starts those that have ended, at their old ports
    status   says of each whether it runs, and its links
    down     stops them in order

Who was started stands in `NAME.network.json` beside the file.
Rule: only processes that this command started, and that still are what it started, are ended.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from contentcast.commands.live.options import run_loop
from contentcast.model import ContentcastError
from contentcast.model.errors import counted

START_LIMIT_S: Final = 60.0
STOP_LIMIT_S: Final = 15.0
NOT_UP: Final = 1
DEFAULT_PROTOCOL: Final = "link-matching"


def network(
    action: Annotated[str, typer.Argument(help="up, status or down.", show_default=False)],
    file: Annotated[Path, typer.Argument(help="A network: .edges, .json or .graphml.", show_default=False)],
    protocol: Annotated[str, typer.Option(help="How events are routed.")] = DEFAULT_PROTOCOL,
    data: Annotated[
        Path | None, typer.Option(help="A folder, in which each broker gets one of its own.", show_default="in memory")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Start all brokers of a network file here, look at them, or stop them."""
    match action:
        case "up":
            _up(file, protocol, data)
            code = _status(file, as_json)
        case "status":
            code = _status(file, as_json)
        case "down":
            code = _down(file, as_json)
        case _:
            raise ContentcastError(f"network: up, status or down, not {action!r}")
    if code:
        raise typer.Exit(code)


ENDED: Final = ("Z", "X")
"""States of a process in `/proc`."""


def _notes(file: Path) -> Path:
    return file.with_suffix(".network.json")


def _read(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(_notes(file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ContentcastError(f"no network of {file} was started here; contentcast network up {file} starts it") from None
    return found


def started_network(file: Path) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The addresses of the brokers that were started for a network file, and the links that they must have."""
    from contentcast.network.files import read_topology

    addresses = {name: str(each["address"]) for name, each in _read(file)["brokers"].items()}
    topology = read_topology(file, delay_attribute="none", undirected=True)
    return addresses, [(each.one, each.other) for each in topology.links]


def _up(file: Path, protocol: str, data: Path | None) -> None:
    from contentcast.network.files import read_topology

    topology = read_topology(file, delay_attribute="none", undirected=True)  # a live link has its own delay, both ways
    names = list(topology.brokers)
    data = None if data is None else data.absolute()
    running: dict[str, Any] = {}
    if _notes(file).exists():
        noted = _read(file)
        running = {name: each for name, each in noted["brokers"].items() if _is_ours(each)}
    if running:
        protocol, data = _same(file, noted, names, protocol, data)
        ports = {name: int(each["address"].rpartition(":")[2]) for name, each in noted["brokers"].items()}
    else:
        ports = dict(zip(names, _free_ports(len(names)), strict=True))
    if len(running) == len(names):
        raise ContentcastError(f"the network of {file} is up; contentcast network down {file} stops it")
    logs = file.with_suffix(".logs")
    logs.mkdir(exist_ok=True)
    started: dict[str, Any] = {}
    try:
        for at, name in enumerate(names):
            if name not in running:
                dialled = [each for each in topology.neighbours(name) if names.index(each) < at]
                started[name] = _start(name, ports, dialled, protocol, data, logs)
        brokers = {name: running.get(name) or started[name] for name in names}
        _write(file, {"protocol": protocol, "data": None if data is None else str(data), "brokers": brokers})
        _wait_for_links({name: len(topology.neighbours(name)) for name in names}, brokers)
    except BaseException:
        _stop(started)
        if not running:
            _notes(file).unlink(missing_ok=True)
        raise


def _write(file: Path, notes: dict[str, Any]) -> None:
    _notes(file).write_text(json.dumps(notes, indent=2) + "\n", encoding="utf-8")


def _same(file: Path, noted: dict[str, Any], names: list[str], protocol: str, data: Path | None) -> tuple[str, Path | None]:
    """The protocol and the data folder with which the others run."""
    folder = noted.get("data")
    asked = None if data is None else str(data)
    if list(noted["brokers"]) != names or protocol not in (DEFAULT_PROTOCOL, noted["protocol"]) or asked not in (None, folder):
        raise ContentcastError(
            f"some brokers of {file} run, with other brokers, another protocol or another data folder than are asked for; "
            f"contentcast network down {file} stops them"
        )
    return noted["protocol"], None if folder is None else Path(folder)


def _start(
    name: str, ports: dict[str, int], dialled: list[str], protocol: str, data: Path | None, logs: Path
) -> dict[str, Any]:
    address = f"contentcast://127.0.0.1:{ports[name]}"
    words = ["broker", "--name", name, "--listen", address, "--protocol", protocol]
    for each in dialled:
        words += ["--neighbour", f"contentcast://127.0.0.1:{ports[each]}"]
    if data is not None:
        words += ["--data", str(data / name)]
    with (logs / f"{name}.log").open("ab") as log:
        running = subprocess.Popen(
            [sys.executable, "-m", "contentcast.cli", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return {"pid": running.pid, "began": _began(running.pid), "address": address}


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago: all are held at once, so that none comes twice."""
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def _began(pid: int) -> str:
    """When the process began, as Linux counts it: another process with the same number began at another time.

    One that has ended, and that nobody has asked about yet, counts as gone.
    """
    with suppress(OSError):
        state, *facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state in ENDED else facts[18]
    return ""


def _is_ours(broker: dict[str, Any]) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(broker["pid"], os.WNOHANG)
    try:
        os.kill(broker["pid"], 0)
    except OSError:
        return False
    return bool(broker["began"] == _began(broker["pid"]))


def _wait_for_links(wanted: dict[str, int], started: dict[str, Any]) -> None:
    until = time.monotonic() + START_LIMIT_S
    while True:
        states = run_loop(_states(started))
        lacking = [name for name, count in wanted.items() if len(states[name].get("links", {})) < count]
        if not lacking:
            return
        dead = [name for name in lacking if not _is_ours(started[name])]
        if dead or time.monotonic() > until:
            why = "has ended" if dead else f"has not all its links after {START_LIMIT_S:g} s"
            raise ContentcastError(f"network: broker {(dead or lacking)[0]} {why}; its log says more")
        time.sleep(0.1)


async def _states(brokers: dict[str, Any]) -> dict[str, dict[str, Any]]:
    from contentcast.live.client import connect

    found: dict[str, dict[str, Any]] = {}
    for name, each in brokers.items():
        try:
            async with connect(each["address"], reconnect=False) as client:
                found[name] = await client.ask("state")
        except ContentcastError as reason:
            found[name] = {"down": str(reason)}
    return found


def _status(file: Path, as_json: bool) -> int:
    brokers = _read(file)["brokers"]
    states = run_loop(_states(brokers))
    up = [name for name, each in states.items() if "down" not in each]
    if as_json:
        told = {
            name: {**brokers[name], "up": name in up, "links": sorted(each.get("links", {}))} for name, each in states.items()
        }
        typer.echo(json.dumps(told))
    else:
        for line in _lines(brokers, states):
            typer.echo(line)
    return 0 if len(up) == len(brokers) else NOT_UP


def _lines(brokers: dict[str, Any], states: dict[str, dict[str, Any]]) -> Iterator[str]:
    for name, each in brokers.items():
        links = ", ".join(sorted(states[name].get("links", {}))) or "none"
        yield f"{name}  {each['address']}  " + ("down" if "down" in states[name] else f"up, links: {links}")


def _down(file: Path, as_json: bool) -> int:
    brokers = _read(file)["brokers"]
    stopped = _stop(brokers)
    _notes(file).unlink(missing_ok=True)
    typer.echo(json.dumps({"stopped": stopped}) if as_json else f"{counted(len(stopped), 'broker')} stopped")
    return 0


def _stop(brokers: dict[str, Any]) -> list[str]:
    ours = {name: each for name, each in brokers.items() if _is_ours(each)}
    for each in ours.values():
        os.kill(each["pid"], signal.SIGTERM)
    until = time.monotonic() + STOP_LIMIT_S
    while any(_is_ours(each) for each in ours.values()):
        if time.monotonic() > until:
            for each in ours.values():
                if _is_ours(each):
                    os.kill(each["pid"], signal.SIGKILL)
        time.sleep(0.05)
    return sorted(ours)
