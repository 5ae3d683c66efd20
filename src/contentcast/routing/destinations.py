"""Destination lists: each event carries the names of all it is for, and every broker splits the list by the links they are
behind.

    events 10, 11     lists [d, e] [e]      d is behind b, e behind c      to b: event 10 [d]      to c: events 10, 11 [e] [e]

Rule: by columns; nothing here loops over events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.kernels.kernel import kernel
from contentcast.model.events.parts import cut
from contentcast.network.topology import Topology
from contentcast.routing.contract import Effect, Send
from contentcast.wire import Publish
from contentcast.wire.encodings.header import NO_HEADER, Header

Ints = npt.NDArray[np.int64]


class Exits:
    """By which link each publisher's events leave a broker for each other broker."""

    def __init__(self, topology: Topology, broker: str) -> None:
        self.topology = topology
        self.here = topology.number(broker)
        self.neighbours = topology.neighbours(broker)
        exits = topology.exits(broker)
        self._exits = np.concatenate([exits, np.full((len(exits), 1), -1, exits.dtype)], axis=1)
        """With a column more for brokers that the network does not have: number -1."""
        self._numbered: tuple[tuple[str, ...], Ints] = ((), np.empty(0, np.int64))

    def of(self, publisher: str, destinations: Ints) -> Ints:
        """For brokers by number (-1: unknown), the place of the neighbour to send to; -1: none."""
        if publisher not in self.topology:
            return np.full(len(destinations), -1, np.int64)
        found: Ints = self._exits[self.topology.number(publisher)][destinations].astype(np.int64)
        return found

    def numbers(self, brokers: Iterable[str]) -> Ints:
        return np.array([self.topology.number(each) if each in self.topology else -1 for each in brokers], np.int64)

    def numbers_of_origins(self, origins: tuple[str, ...]) -> Ints:
        """The same for the origins of an audience, which are the same from batch to batch."""
        if self._numbered[0] is not origins:
            self._numbered = origins, self.numbers(origins)
        return self._numbered[1]


def sends(publish: Publish, onward: Sequence[tuple[str, Ints | None]]) -> list[Effect]:
    """The message for each neighbour with its events (None: all of them), for messages without a header."""
    if all(rows is None for _, rows in onward):
        return [Send(neighbour, publish) for neighbour, _ in onward]
    parts = cut(publish.events, [rows for _, rows in onward])
    return [
        Send(neighbour, publish if rows is None else Publish(publish.origin, publish.incarnation, publish.serial, events))
        for (neighbour, rows), events in zip(onward, parts, strict=True)
    ]


def rows_of(lists: pa.ListArray) -> Ints:
    """For each entry of the lists, one after the other, the event that it belongs to."""
    offsets = lists.offsets.to_numpy()
    return np.repeat(np.arange(len(lists)), np.diff(offsets))


def onward(
    publish: Publish,
    field: str,
    rows: Ints,
    entries: Callable[[Ints], pa.Array],
    exits: Ints,
    neighbours: tuple[str, ...],
    *,
    alone: bool = False,
) -> list[Effect]:
    """The message for each neighbour, with those entries of a field of the header that leave by it.

    Entry i is of event rows[i], which ascend, and leaves by exits[i]; `entries` gives the values of those with these numbers.
    `alone`: a copy of the event for each entry.
    """
    split = Split.of(rows, exits, len(neighbours), alone)
    if not len(split.entries):
        return []
    # By its buffers: `ListArray.from_arrays` takes 6 us more.
    values, offsets = entries(split.entries), pa.py_buffer(split.offsets)
    lists = pa.Array.from_buffers(pa.list_(values.type), len(split.events), [None, offsets], children=[values])
    parts = [(neighbour, begin, end) for neighbour, begin, end in split.parts(neighbours) if end > begin]
    whole = -1 if alone else len(publish.events)
    events = cut(publish.events, [None if end - begin == whole else split.events[begin:end] for _, begin, end in parts])
    effects: list[Effect] = []
    fresh = publish.header is NO_HEADER
    for (neighbour, begin, end), mine in zip(parts, events, strict=True):
        changed = {field: lists.slice(begin, end - begin)}
        header = Header(**changed) if fresh else replace(publish.header, **changed)  # `replace` takes 3 us
        effects.append(Send(neighbour, Publish(publish.origin, publish.incarnation, publish.serial, mine, header)))
    return effects


class Split(NamedTuple):
    """Entries of lists by the neighbour they leave by, those of the first neighbour first, and the events they belong to.

    List i is of event events[i] and has the entries from offsets[i] to offsets[i + 1]; the lists of neighbour n end at ends[n].
    """

    entries: Ints
    events: Ints
    offsets: npt.NDArray[np.int32]
    ends: Ints

    @classmethod
    def of(cls, rows: Ints, exits: Ints, neighbours: int, alone: bool) -> Split:
        entries, events = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        offsets, ends = np.zeros(len(rows) + 1, np.int32), np.empty(neighbours, np.int64)
        taken, lists = _split(rows, exits, alone, entries, events, offsets, ends)
        return cls(entries[:taken], events[:lists], offsets[: lists + 1], ends)

    def parts(self, neighbours: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
        """Each neighbour with the stretch of its lists."""
        begin = 0
        for neighbour, end in zip(neighbours, self.ends.tolist(), strict=True):
            yield neighbour, begin, end
            begin = end


@kernel
def _split(rows, exits, alone, entries, events, offsets, ends):  # type: ignore[no-untyped-def]
    taken = lists = 0
    for neighbour in range(len(ends)):
        last = -1
        for at in range(len(rows)):
            if exits[at] != neighbour:
                continue
            if alone or rows[at] != last:
                last = rows[at]
                events[lists] = last
                lists += 1
            entries[taken] = at
            taken += 1
            offsets[lists] = taken
        ends[neighbour] = lists
    return taken, lists
