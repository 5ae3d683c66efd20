"""Destination lists: each event carries the names of all it is for, and every broker splits the list by the links they are
behind.

    events 10, 11     lists [d, e] [e]      d is behind b, e behind c      to b: event 10 [d]      to c: events 10, 11 [e] [e]

Rule: by columns; nothing here loops over events.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.network.topology import Topology
from contentcast.routing.contract import Effect, Send
from contentcast.wire import Publish

Ints = npt.NDArray[np.int64]


class Exits:
    """By which link each publisher's events leave a broker for each other broker."""

    def __init__(self, topology: Topology, broker: str) -> None:
        self.topology = topology
        self.neighbours = topology.neighbours(broker)
        self._exits = topology.exits(broker)

    def of(self, publisher: str, destinations: Ints) -> Ints:
        """For brokers by number (-1: unknown), the place of the neighbour to send to; -1: none."""
        if publisher not in self.topology:
            return np.full(len(destinations), -1, np.int64)
        row = np.append(self._exits[self.topology.number(publisher)], np.int16(-1))
        return row[destinations].astype(np.int64)

    def numbers(self, brokers: Iterable[str]) -> Ints:
        return np.array([self.topology.number(each) if each in self.topology else -1 for each in brokers], np.int64)


def rows_of(lists: pa.ListArray) -> Ints:
    """For each entry of the lists, one after the other, the event that it belongs to."""
    offsets = lists.offsets.to_numpy()
    return np.repeat(np.arange(len(lists)), np.diff(offsets))


def listed(rows: Ints, values: pa.Array, count: int) -> pa.ListArray:
    """Lists for `count` events of values that stand in the order of their rows."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def onward(
    publish: Publish, field: str, rows: Ints, values: pa.Array, exits: Ints, neighbours: tuple[str, ...], *, alone: bool = False
) -> list[Effect]:
    """The message for each neighbour, with those entries of a field of the header that leave by it.

    `alone`: a copy of the event for each entry.
    """
    sends: list[Effect] = []
    for at, neighbour in enumerate(neighbours):
        chosen = np.flatnonzero(exits == at)
        if not len(chosen):
            continue
        mine = rows[chosen]
        taken = values.take(pa.array(chosen))
        if alone:
            events, lists = publish.events.take(mine), listed(np.arange(len(mine)), taken, len(mine))
        else:
            kept, place = np.unique(mine, return_inverse=True)
            events = publish.events if len(kept) == len(publish.events) else publish.events.take(kept)
            lists = listed(place, taken, len(kept))
        header = replace(publish.header, **{field: lists})
        sends.append(Send(neighbour, Publish(publish.origin, publish.incarnation, publish.serial, events, header)))
    return sends
