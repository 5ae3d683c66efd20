"""Advertisements as bytes: for each its space, id and publisher, then the constraints that allow a value, by attribute.

    space | id i64, attributes u32 | publisher | for each attribute:  position u32, constraints u32 | constraints

Constraints are written as the others of a column of subscriptions are (`subscriptions`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from contentcast.model import Advertisement, Constraint, ContentcastError
from contentcast.model.values import effort
from contentcast.wire.encodings.subscriptions import decode_constraints, encode_constraints
from contentcast.wire.fields import Reader, WireError, name_field, packed, space_field

HEAD: Final = struct.Struct("<qI")
COLUMN: Final = struct.Struct("<II")
MOST_STEPS: Final = 4 * effort.MOST_STEPS
"""For the normal forms of all advertisements of a message. One constraint for each attribute takes none."""


def encode_advertisements(advertisements: Sequence[Advertisement]) -> bytes:
    parts: list[bytes] = []
    for each in advertisements:
        space = each.space
        allowed = [(space.position(name), each.allowed[name]) for name in space.names if each.allowed.get(name)]
        parts.append(space_field(space))
        parts.append(packed(HEAD, "an advertisement", each.id, len(allowed)))
        parts.append(name_field(each.publisher, "a publisher"))
        for position, constraints in allowed:
            parts.append(packed(COLUMN, "an advertisement", position, len(constraints)))
            parts += encode_constraints(space.kinds[space.names[position]], list(constraints))
    return b"".join(parts)


def decode_advertisements(reader: Reader, count: int) -> tuple[Advertisement, ...]:
    reader.need(count * HEAD.size, f"{count} advertisements")
    left = effort.Effort(MOST_STEPS)
    return tuple([_decode_one(reader, left) for _ in range(count)])


def _decode_one(reader: Reader, left: effort.Effort) -> Advertisement:
    space = reader.space()
    number, columns = reader.unpack(HEAD, "an advertisement")
    publisher = reader.name("a publisher")
    allowed: dict[str, tuple[Constraint, ...]] = {}
    before = -1
    for _ in range(columns):
        position, constraints = reader.unpack(COLUMN, "an attribute of an advertisement")
        if not before < position < len(space):
            raise WireError(f"an advertisement of {space.name}: attribute {position} after {before} of {len(space)}")
        before = position
        name = space.names[position]
        reader.need(constraints, f"{constraints} constraints")
        allowed[name] = tuple(decode_constraints(reader, space.kinds[name], constraints, f"what {name} may be"))
    try:
        return Advertisement(number, space, allowed, publisher, effort=left)
    except ContentcastError as reason:
        raise WireError(f"an advertisement of {space.name}: {reason}") from None
