"""What came of a world: who got what and when, and what brokers, links, LANs and the network below have carried.

Rule: looking changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from contentcast.simulation.agenda import Agenda, SimulationError
from contentcast.simulation.broker import Broker
from contentcast.simulation.deliveries import Accounts, Deliveries, percentiles
from contentcast.simulation.ways.links import Direction, SimulatedLink
from contentcast.simulation.ways.segment import Segment
from contentcast.simulation.ways.underlay import Underlay


class Outcomes:
    """The part of `World` that tells; the world itself fills it."""

    agenda: Agenda
    _deliveries: Deliveries
    _accounts: Accounts | None
    _brokers: dict[str, Broker]
    _links: dict[tuple[str, str], SimulatedLink]
    _segments: dict[str, Segment]
    _underlay: Underlay

    @property
    def now(self) -> float:
        return self.agenda.now

    @property
    def delivered(self) -> list[tuple[str, int]]:
        """(subscriber, event id), in the order of delivery."""
        table = self.deliveries()
        return list(zip(table["subscriber"].to_pylist(), table["event"].to_pylist(), strict=True))

    def deliveries(self) -> pa.Table:
        """event, subscriber, broker, incarnation (of that broker), published_at, delivered_at; in the order of delivery."""
        return self._deliveries.table(self.now)

    def accounts(self) -> pa.Table:
        """event, broker, steps: one row for each event at each broker that matched it."""
        if self._accounts is None:
            raise SimulationError("steps by event were not kept; make the world with accounts=True")
        return self._accounts.table()

    def latencies(self, wanted: Sequence[float] = (50, 90, 99, 99.9)) -> dict[str, float]:
        """Percentiles of the seconds from publication to delivery: {'p50': 0.081, ...}."""
        table = self.deliveries()
        seconds = table["delivered_at"].to_numpy() - table["published_at"].to_numpy()
        return percentiles(seconds[~np.isnan(seconds)], wanted)

    def queue(self, broker: str) -> pa.Table:
        """time, waiting: after every change of the broker's queue."""
        history = self._brokers[broker].history if broker in self._brokers else None
        if history is None:
            raise SimulationError(f"the queue of {broker} was not watched; make the world with watch=[{broker!r}]")
        return pa.table({"time": [at for at, _ in history], "waiting": [waiting for _, waiting in history]})

    @property
    def most_waiting(self) -> int:
        """The longest that any queue has been."""
        return max(each.most_waiting for each in self._brokers.values())

    def forget_queues(self) -> None:
        """From now on `most_waiting` counts anew: how long queues were while subscriptions settled is another question."""
        for each in self._brokers.values():
            each.most_waiting = len(each.waiting)

    def broker_loads(self) -> pa.Table:
        return _columns(self._brokers.values(), "name", "inputs", "steps", "delivered", "busy_s", "most_waiting", "crashes")

    def link_loads(self) -> pa.Table:
        """One row for each direction of each link."""
        directions = [direction for link in self._links.values() for direction in link.directions]
        counters = ("messages", "events", "bytes", "busy_s", "lost", "duplicated", "refused")
        return _columns(directions, "sender", "receiver_name", *counters).rename_columns(["sender", "receiver", *counters])

    def totals(self) -> dict[str, float]:
        """Inputs handled, matching steps, deliveries; messages, copies of events and bytes on links; virtual CPU seconds.

        A message to any broker is one of `direct`, and one message on each of the `crossed` links; a message to a group is one
        of `group messages`, with its copies.
        """
        brokers = self._brokers.values()
        found: dict[str, float] = {
            name: sum(getattr(each, name) for each in brokers) for name in ("inputs", "steps", "delivered", "busy_s")
        }
        directions: list[Direction] = [direction for link in self._links.values() for direction in link.directions]
        found |= {name: sum(getattr(each, name) for each in directions) for name in ("messages", "events", "bytes")}
        found |= {"direct": self._underlay.messages, "crossed": self._underlay.crossed, "direct bytes": self._underlay.bytes}
        segments = self._segments.values()
        found |= {f"group {name}": sum(getattr(each, name) for each in segments) for name in ("messages", "bytes", "copies")}
        return found


def _columns(rows: Iterable[Any], *names: str) -> pa.Table:
    chosen = list(rows)
    return pa.table({name: [getattr(each, name) for each in chosen] for name in names})
