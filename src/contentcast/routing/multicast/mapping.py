"""The mapping specification: which events go to which multicast group.

Source: Eide et al. 2003, section 4.3 and table 5. Rows stand in order; each has an advertisement filter and a group.

    row   filter                                   group
    0     video from fnasa, block_h 0 or 1         udp_ipm://239.192.10.1:6666
    1     video, anything                          udp_ipm://239.192.10.2:6666
    -     whatever no row covers                   one of `otherwise`, by the name of its space

An event goes once, to the first row that covers it. A server joins every group whose row overlaps a subscription of its
clients, but for rows after one that covers the whole subscription: nothing of it gets so far.
Departs from the paper in one point: what no row covers has a group as well, so that every event can travel.
Rule: a mapping is a value. Two with the same id are the same; a change is a new one with a greater id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from contentcast.match_index import MatchIndex
from contentcast.model import Advertisement, EventBatch, Predicate, Space, covers, overlaps
from contentcast.routing.multicast.groups import Group, MappingError

Ints = npt.NDArray[np.int64]
Quality = Literal["best effort", "reliable"]
BEST_EFFORT: Final = "best effort"
RELIABLE: Final = "reliable"

CONTROL: Final = "udp_ipm://239.192.10.0:6666"
"""The well known group that every server has joined (section 4.3.2)."""
DEFAULT_GROUPS: Final = 16


class MappingId(NamedTuple):
    """Ordered by number, then by who proposed it: of two changes made apart from each other, all take the same one."""

    number: int = 0
    proposer: str = ""

    def __str__(self) -> str:
        return f"{self.number}{f' by {self.proposer}' if self.proposer else ''}"


FIRST: Final = MappingId()


@dataclass(frozen=True, slots=True)
class Row:
    """Events that the filter covers go to the group. `quality`: what the group's receivers are promised at least."""

    filter: Advertisement
    group: str
    quality: Quality = BEST_EFFORT

    @property
    def space(self) -> Space:
        return self.filter.space


class Way(NamedTuple):
    """Where some events of a batch go: their row numbers, the group, and what the mapping promises."""

    rows: Ints
    group: str
    reliable: bool


@dataclass(frozen=True)
class MappingSpecification:
    """`rows` in order; `otherwise` has the groups of all that no row covers; `control` is the group that all have joined."""

    rows: tuple[Row, ...] = ()
    otherwise: tuple[str, ...] = tuple(str(Group.of(CONTROL).following(240 + at)) for at in range(DEFAULT_GROUPS))
    control: str = CONTROL
    id: MappingId = FIRST
    _tables: dict[Space, _Table] = field(default_factory=dict, init=False, repr=False, compare=False)
    _joined: dict[Predicate, frozenset[str]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _reliable: dict[Predicate, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for each in self.groups():
            Group.of(each)
        if not self.otherwise:
            raise MappingError("a mapping needs at least one group in `otherwise`, for events that no row covers")
        if self.control in {row.group for row in self.rows}:
            raise MappingError(f"{self.control} is the control group; give its row another group")

    def groups(self) -> tuple[str, ...]:
        """All groups, each once: control, those of the rows, those of `otherwise`."""
        return tuple(dict.fromkeys([self.control, *(row.group for row in self.rows), *self.otherwise]))

    def renumbered(self, id: MappingId) -> MappingSpecification:
        return replace(self, id=id)

    def other(self, space: Space | str) -> str:
        """The group for events of this space that no row covers."""
        name = space if isinstance(space, str) else space.name
        return self.otherwise[crc32(name.encode()) % len(self.otherwise)]

    # --- what is sent

    def first(self, events: EventBatch) -> Ints:
        """For each event the number of the first row that covers it; -1 for none."""
        return self._table(events.space).first(events)

    def ways(self, events: EventBatch) -> list[Way]:
        """The groups of these events, each event once."""
        first = self.first(events)
        if len(first) and (first == first[0]).all():
            return [self._way(int(first[0]), np.arange(len(first)), events.space)]
        ways = []
        for number in np.unique(first).tolist():
            ways.append(self._way(number, np.flatnonzero(first == number), events.space))
        return ways

    def _way(self, number: int, rows: Ints, space: Space) -> Way:
        if number < 0:
            return Way(rows, self.other(space), False)
        return Way(rows, self.rows[number].group, self.rows[number].quality == RELIABLE)

    # --- what is received

    def joined(self, wanted: Predicate) -> frozenset[str]:
        """The groups on which events of this subscription may come."""
        found = self._joined.get(wanted)
        if found is None:
            found = self._joined[wanted] = frozenset(self._overlapping(wanted))
        return found

    def is_reliable(self, wanted: Predicate) -> bool:
        """Is anything of this subscription promised reliably by a row?"""
        found = self._reliable.get(wanted)
        if found is None:
            rows = self._table(wanted.space).predicates
            found = any(self.rows[number].quality == RELIABLE and overlaps(each, wanted) for number, each in rows)
            self._reliable[wanted] = found
        return found

    def _overlapping(self, wanted: Predicate) -> Iterator[str]:
        table = self._table(wanted.space)
        for number, predicate in table.predicates:
            if overlaps(predicate, wanted):
                yield self.rows[number].group
                if covers(predicate, wanted):
                    return
        if not table.predicates or not covers(table.union, wanted):
            yield self.other(wanted.space)

    def _table(self, space: Space) -> _Table:
        found = self._tables.get(space)
        if found is None or found.space != space:
            found = self._tables[space] = _Table(space, self.rows)
        return found


class _Table:
    """The rows of one space, as it is now: one that gained attributes is read anew, and they are not allowed by old filters."""

    def __init__(self, space: Space, rows: Sequence[Row]) -> None:
        self.space = space
        self.predicates = [(number, _present(row.filter, space)) for number, row in enumerate(rows) if _is_of(row, space)]
        self.union = Predicate.of(space, [part for _, each in self.predicates for part in each.conjunctions])
        # Not a search tree, which codes every event for each level: 287 us for 100 events and four rows, the index 34 us.
        self._index = MatchIndex(space)
        for number, predicate in self.predicates:
            self._index.add(number, predicate)

    def first(self, events: EventBatch) -> Ints:
        found = np.full(len(events), -1, np.int64)
        if self.predicates and len(events):
            offsets, numbers = self._index.match_offsets(events)
            some = np.flatnonzero(np.diff(offsets))
            if len(some):  # the rows of an event come in no order
                found[some] = np.minimum.reduceat(numbers, offsets[some])
        return found


def _is_of(row: Row, space: Space) -> bool:
    return row.space.name == space.name and space.extends(row.space)


def _present(filter: Advertisement, space: Space) -> Predicate:
    return filter.predicate if filter.space == space else Advertisement(filter.id, space, filter.allowed).predicate


def everywhere(mappings: Iterable[MappingSpecification], wanted: Iterable[Predicate]) -> set[str]:
    """All groups to be joined for these subscriptions while all of these mappings are honoured."""
    chosen = list(wanted)
    return {group for mapping in mappings for each in chosen for group in mapping.joined(each)}
