"""Ids that are unique in a network without asking anybody: bits of the broker's name and life above, a counter below."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final
from urllib.parse import unquote

from contentcast.wire.client import PASSING

_ESCAPED: Final = str.maketrans({each: f"%{ord(each):02X}" for each in ("%", "/", PASSING)})


def high_bits(name: str, incarnation: int, bits: int) -> int:
    return _digest(f"{name} {incarnation}") >> (64 - bits)


def owned(identity: str, name: str) -> str:
    """A name that belongs to an identity, and that nobody else can make up: the first slash ends the identity."""
    return f"{identity.translate(_ESCAPED)}/{name}"


def owner(name: str) -> str:
    """The identity to which a name belongs that `owned` has made."""
    return unquote(name.partition("/")[0])


def durable_id(broker: str, name: str) -> int:
    """The id of a durable subscription: the same over all lives of its broker."""
    return (_digest(f"{broker} durable {name}") >> 1) | 1


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
