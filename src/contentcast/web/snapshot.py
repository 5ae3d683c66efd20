"""One picture of a network out of what each of its brokers says: plain values, ready to be sent to every viewer.

    looks       what `live/client/watching` brought from each broker
    snapshot    totals, brokers with their places on paper, links with both directions, spaces, slow clients, subscriptions

What was seen once and is not there now is shown as down: a broker as long as somebody knows of it, a link for `KEEP_LINK_S`.
Links of a network file are always shown.
Rule: what a broker says may be anything. It is taken as a number or a text, or the broker is shown as one that cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import cos, pi, sin
from typing import Any, Final

from contentcast.live.client.watching import Look, per_second
from contentcast.network.picture import places
from contentcast.network.topology import Topology

KEEP_LINK_S: Final = 600.0
MOST_SLOW: Final = 20
MOST_SUBSCRIPTIONS: Final = 200
"""Subscriptions that a viewer is shown: first those that have never accepted anything."""
MOST_DRAWN: Final = 300
"""Brokers that are placed by their distances; of more all stand on a circle."""
MOST_TEXT: Final = 2_000

Ends = tuple[str, str]


@dataclass(frozen=True)
class Told:
    """What one broker said, read."""

    row: dict[str, Any]
    flows: dict[str, dict[str, Any]]
    """Its own end of each link, by the broker at the other end."""
    known: tuple[str, ...]
    """The brokers that it knows."""
    lost: dict[str, str]
    """Addresses that it dials in vain, and why."""
    spaces: dict[str, dict[str, Any]]
    slow: list[dict[str, Any]]
    counted: list[dict[str, Any]] | None


class Snapshots:
    """Makes one after the other, and remembers what the next one needs."""

    def __init__(self, brokers: Iterable[str] = (), links: Iterable[Ends] = ()) -> None:
        """Brokers and links that must be there."""
        self._brokers = tuple(brokers)
        self._lasting = {_ends(*each) for each in links}
        self._seen: dict[Ends, float] = {}
        self._before: dict[str, Mapping[str, Any]] = {}
        self._counted: dict[str, list[dict[str, Any]] | None] = {}
        self._drawn: tuple[Any, dict[str, tuple[float, float]]] = (None, {})

    def forget_rates(self) -> None:
        """The last look is long ago: the next one tells rates of what the brokers call lately."""
        self._before.clear()

    def counted(self) -> list[dict[str, Any]]:
        """All subscriptions that the brokers of the last looks have told."""
        return [row for each in list(self._counted.values()) for row in each or ()]

    def make(self, looks: Iterable[Look], now: float) -> dict[str, Any]:
        """`now`: any clock that only goes forward."""
        told: dict[str, Told] = {}
        addresses: dict[str, str] = {}
        for look in looks:
            read = self._read(look)
            addresses[look.url] = read.row["name"]
            told[read.row["name"]] = read
        self._counted = {name: rows for name, rows in self._counted.items() if name in told}
        rows = {name: each.row for name, each in told.items()}
        links = self._links(told, addresses, now)
        for name in sorted({*self._brokers, *(name for link in links for name in (link["one"], link["other"]))} - set(rows)):
            rows[name] = {"name": name, "url": "", "status": "unwatched", "problem": "not looked at"}
        for name, (x, y) in self._places(sorted(rows), [(each["one"], each["other"]) for each in links]).items():
            rows[name] |= {"x": round(x, 4), "y": round(y, 4)}
        slow = sorted((each for read in told.values() for each in read.slow), key=lambda each: -each["queued_bytes"])
        return {
            "totals": _totals(rows.values(), links),
            "brokers": [rows[name] for name in sorted(rows)],
            "links": links,
            "spaces": _spaces(told.values()),
            "slow": slow[:MOST_SLOW],
            "slow_count": len(slow),
            **self._subscriptions(),
        }

    # --- one broker

    def _read(self, look: Look) -> Told:
        name = _text(look.name or look.url)
        if look.state is None:
            self._before.pop(name, None)
            status = "down" if look.is_down else "silent"
            row = {"name": name, "url": look.url, "status": status, "problem": _text(look.problem)}
            return Told(row, {}, (), {}, {}, [], None)
        before = self._before.get(name)
        try:
            told = _read_state(name, look, look.state, before)
        except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, OverflowError) as reason:
            problem = f"what it says cannot be read: {type(reason).__name__} {reason}"
            row = {"name": name, "url": look.url, "status": "down", "problem": _text(problem)}
            return Told(row, {}, (), {}, {}, [], None)
        if look.problem:
            return replace(told, row=told.row | {"status": "silent", "problem": _text(look.problem)})
        self._before[name] = look.state
        if told.counted is not None or "never_matched" in look.state:
            self._counted[name] = told.counted
        return told

    # --- all of them

    def _links(self, told: Mapping[str, Told], addresses: Mapping[str, str], now: float) -> list[dict[str, Any]]:
        there = {_ends(name, other) for name, each in told.items() for other in each.flows if other not in ("", name)}
        lost = {
            _ends(name, addresses[address]): reason
            for name, each in told.items()
            for address, reason in each.lost.items()
            if addresses.get(address, name) != name  # its own address in its list of neighbours is no link
        }
        self._seen |= dict.fromkeys(there, now)
        self._seen = {ends: at for ends, at in self._seen.items() if now - at < KEEP_LINK_S}
        found = []
        for one, other in sorted({*self._seen, *self._lasting, *lost}):
            flows = [
                {"from": name, "to": to, **told[name].flows[to]}
                for name, to in ((one, other), (other, one))
                if name in told and to in told[name].flows
            ]
            down = [name for name in (one, other) if name in told and told[name].row["status"] == "down"]
            found.append(
                {
                    "one": one,
                    "other": other,
                    "status": "up" if flows and not down else "down",
                    "problem": "" if flows and not down else _text(_why_down(down, lost.get((one, other), ""))),
                    "flows": flows,
                }
            )
        return found

    def _places(self, brokers: list[str], links: list[Ends]) -> dict[str, tuple[float, float]]:
        """Where each stands, in the unit square; anew only when there are others, or other links."""
        key = (brokers, links)
        if self._drawn[0] != key:
            self._drawn = (key, _placed(brokers, links))
        return self._drawn[1]

    def _subscriptions(self) -> dict[str, Any]:
        rows = self.counted()
        rows.sort(key=lambda row: (row["accepted"] > 0, row["broker"], row["client"], row["space"]))
        return {
            "subscriptions": rows[:MOST_SUBSCRIPTIONS],
            "subscription_count": len(rows),
            "uncounted": sorted(name for name, each in self._counted.items() if each is None),
        }


def _read_state(name: str, look: Look, state: Mapping[str, Any], before: Mapping[str, Any] | None) -> Told:
    rate = {path: _rate(state, before, path) for path in ("published", "received", "sent", "delivered")}
    clients = [dict(each) for each in state["clients"] if each["name"] != look.own]
    flows = {_text(other): _flow(state, before, other, each) for other, each in state["links"].items()}
    durable = state.get("durable")
    row = {
        "name": name,
        "url": look.url,
        "status": "up" if state["ready"] else "silent",
        "problem": "" if state["ready"] else "it is not ready",
        "protocol": _text(state["protocol"]),
        "up_s": _number(state["up_s"]),
        "events_in_per_s": rate["published"] + rate["received"],
        "events_out_per_s": rate["sent"],
        "published_per_s": rate["published"],
        "delivered_per_s": rate["delivered"],
        "subscriptions": _number(state["subscriptions"]) + (_number(durable["subscriptions"]) if durable else 0),
        "clients": _number(state["client_count"]) - (len(state["clients"]) - len(clients)),
        "backlog_bytes": sum(_number(each["queued_bytes"]) for each in clients) + sum(each["bytes"] for each in flows.values()),
        "waiting_events": _number(durable["waiting"]) if durable else None,
        "missed": _number(state["missed"]),
        "failures": _number(state["failures"]),
        "memory_bytes": _number(state["memory_bytes"]) if state.get("memory_bytes") is not None else None,
    }
    slow = [
        {
            "broker": name,
            "client": _text(each["name"]),
            "queued_bytes": _number(each["queued_bytes"]),
            "missed": _number(each["missed"]),
            "paused": bool(each["paused"]),
        }
        for each in clients
        if each["queued_bytes"] or each["missed"] or each["paused"]
    ]
    spaces = {
        _text(space): {
            what: {"per_s": 0.0} | {str(key): _number(value) for key, value in each[what].items()}
            for what in PASSING
            if what in each
        }
        for space, each in state["by_space"].items()
    }
    for space in state["spaces"]:
        spaces.setdefault(_text(space), {})
    lost = {_text(url): _text(how) for url, how in state["dialling"].items() if not str(how).startswith("linked to")}
    counted = state.get("counted")
    read = None if counted is None else [_counted(name, each) for each in counted]
    return Told(row, flows, tuple(map(_text, state["brokers"])), lost, spaces, slow, read)


PASSING: Final = ("published", "delivered")


def _flow(state: Mapping[str, Any], before: Mapping[str, Any] | None, other: str, link: Mapping[str, Any]) -> dict[str, Any]:
    passing, delay = link["passing"], link["delay"]
    rate = None if before is None else per_second(state, before, "links", other, "events_out")
    return {
        "per_s": _number(passing["per_s"]) if rate is None else rate,
        "p50_ms": _maybe(passing.get("p50_ms")),
        "p99_ms": _maybe(passing.get("p99_ms")),
        "delay_ms": _number(link["delay_ms"]),
        "delay_p99_ms": _maybe(delay.get("p99_ms")),
        "messages_per_s": None if before is None else _maybe(per_second(state, before, "links", other, "messages_out")),
        "bytes": _number(link["queued_bytes"]),
    }


def _rate(state: Mapping[str, Any], before: Mapping[str, Any] | None, what: str) -> float:
    """Between two looks; at the first one what the broker's meters say of the last seconds."""
    rate = None if before is None else per_second(state, before, what)
    if rate is not None:
        return rate
    if what in PASSING:
        return sum(_number(each.get(what, {}).get("per_s", 0)) for each in state["by_space"].values())
    return sum(_number(each["passing"]["per_s"]) for each in state["links"].values()) if what == "sent" else 0.0


def _counted(broker: str, told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "broker": broker,
        "id": str(int(told["id"])),  # longer than what a browser takes for a number
        "client": _text(told["client"]),
        "space": _text(told["space"]),
        "predicate": _text(told["predicate"]),
        "accepted": _number(told["accepted"]),
        "durable": bool(told.get("durable")),
        "never": _text(told.get("never", "")),
    }


def _spaces(told: Iterable[Told]) -> list[dict[str, Any]]:
    """Of a space: events of all brokers together, and the times of the slowest one."""
    found: dict[str, dict[str, Any]] = {}
    for each in told:
        for name, passing in each.spaces.items():
            row = found.setdefault(name, {"name": name})
            for what, values in passing.items():
                row[f"{what}_per_s"] = row.get(f"{what}_per_s", 0.0) + values["per_s"]
                for key in ("p50_ms", "p99_ms"):
                    if key in values:
                        row[f"{what}_{key}"] = max(row.get(f"{what}_{key}", 0.0), values[key])
    return [found[name] for name in sorted(found)]


def _totals(rows: Iterable[Mapping[str, Any]], links: list[dict[str, Any]]) -> dict[str, Any]:
    listed = list(rows)
    watched = [each for each in listed if each["status"] != "unwatched"]

    def add(what: str) -> float:
        return sum(each.get(what) or 0 for each in listed)

    return {
        "brokers": len(watched),
        "brokers_up": sum(each["status"] == "up" for each in watched),
        "links": len(links),
        "links_up": sum(each["status"] == "up" for each in links),
        "published_per_s": add("published_per_s"),
        "between_per_s": add("events_out_per_s"),
        "delivered_per_s": add("delivered_per_s"),
        "subscriptions": add("subscriptions"),
        "clients": add("clients"),
        "backlog_bytes": add("backlog_bytes"),
        "waiting_events": add("waiting_events"),
        "missed": add("missed"),
    }


def _why_down(down: list[str], reason: str) -> str:
    if down:
        return f"{' and '.join(down)} cannot be reached"
    return reason or "neither end has it"


def _placed(brokers: list[str], links: list[Ends]) -> dict[str, tuple[float, float]]:
    """Linked brokers by their distances, those without a link in a row below them; without any link on a circle."""
    linked = sorted({name for ends in links for name in ends})
    if not linked or len(linked) > MOST_DRAWN:
        turns = [2 * pi * at / len(brokers) for at in range(len(brokers))]
        return {name: (0.5 + 0.5 * cos(turn), 0.5 + 0.5 * sin(turn)) for name, turn in zip(brokers, turns, strict=True)}
    alone = [name for name in brokers if name not in set(linked)]
    depth = 0.7 if alone else 1.0
    at = places(Topology.of(linked, links))
    found = {name: (float(x), depth * float(y)) for name, (x, y) in zip(linked, at, strict=True)}
    return found | {name: ((place + 0.5) / len(alone), 1.0) for place, name in enumerate(alone)}


def _ends(one: str, other: str) -> Ends:
    return (one, other) if one <= other else (other, one)


def _number(value: Any) -> float:
    """A count stays one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"expected a number, got {type(value).__name__}")
    return value


def _maybe(value: Any) -> float | None:
    return None if value is None else _number(value)


def _text(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "…"
