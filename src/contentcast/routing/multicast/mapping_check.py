"""What is wrong, or only strange, about a mapping specification: said when it is loaded, not when events get lost.

    error     a row that can never be reached: rows above it cover all that it covers
    error     a group outside 239.0.0.0/8, which routers may carry out of the house
    warning   rows that overlap: which one an event takes depends on their order
    warning   groups that share an Ethernet address: who joins one is sent the other as well
    warning   a group outside 239.192.0.0/14 and 239.255.0.0/16, which RFC 2365 gives to others

Source: Eide et al. 2003, sections 3.2 (link-layer addresses) and 4.1 (administrative scope).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from contentcast.model import Predicate, covers, overlaps
from contentcast.routing.multicast.groups import ADMINISTRATIVE, ORGANISATION, SITE, Group, MappingError
from contentcast.routing.multicast.mapping import MappingSpecification, Row


class Finding(NamedTuple):
    level: Literal["error", "warning"]
    text: str

    def __str__(self) -> str:
        return f"{self.level}: {self.text}"


def findings(mapping: MappingSpecification) -> list[Finding]:
    return [*_rows(mapping), *_ethernet(mapping), *_scopes(mapping)]


def checked(mapping: MappingSpecification) -> MappingSpecification:
    """The same mapping, or a MappingError with everything that is wrong."""
    errors = [each.text for each in findings(mapping) if each.level == "error"]
    if errors:
        raise MappingError("the mapping specification cannot hold: " + "; ".join(errors))
    return mapping


def _rows(mapping: MappingSpecification) -> Iterator[Finding]:
    above: dict[str, list[tuple[int, Row]]] = {}
    for number, row in enumerate(mapping.rows):
        earlier = [(at, each) for at, each in above.setdefault(row.space.name, []) if each.space == row.space]
        union = Predicate.of(row.space, [part for _, each in earlier for part in each.filter.predicate.conjunctions])
        if row.filter.predicate.is_nothing:
            yield Finding("error", f"row {number} covers no event of {row.space.name}")
        elif earlier and covers(union, row.filter.predicate):
            covering = [at for at, each in earlier if overlaps(each.filter.predicate, row.filter.predicate)]
            named = ", ".join(map(str, covering))
            yield Finding("error", f"row {number} can never be reached: rows above it ({named}) take all that it covers")
        else:
            for at, each in earlier:
                if each.group != row.group and overlaps(each.filter.predicate, row.filter.predicate):
                    yield Finding("warning", f"rows {at} and {number} overlap; events of both go to row {at}")
        above[row.space.name].append((number, row))


def _ethernet(mapping: MappingSpecification) -> Iterator[Finding]:
    sharing: dict[str, list[str]] = {}
    for each in mapping.groups():
        sharing.setdefault(Group.of(each).ethernet, []).append(each)
    for address, groups in sharing.items():
        if len({Group.of(each).address for each in groups}) > 1:
            yield Finding("warning", f"{' and '.join(groups)} share the Ethernet address {address}")


def _scopes(mapping: MappingSpecification) -> Iterator[Finding]:
    for each in mapping.groups():
        group = Group.of(each)
        if not group.is_administrative:
            yield Finding("error", f"{each} is outside {ADMINISTRATIVE}; take a group from {ORGANISATION}")
        elif not group.is_local:
            yield Finding("warning", f"{each} is outside {ORGANISATION} and {SITE}, the scopes for groups of one's own")
