"""Forms of messages that are msgpack maps of their fields, so that a later version may add one."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from contentcast.wire.fields import Reader, WireError
from contentcast.wire.form import Form, Message

HIDDEN: Final = frozenset({"token", "key", "spaces", "document", "publishers"})
"""What is described may stand in a log: no secrets, and nothing long."""

M = TypeVar("M", bound=Message)


def document(number: int, type_: type[M]) -> Form[M]:
    decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(type_)
    encoder = msgspec.msgpack.Encoder()

    def encode(message: M) -> bytes:
        try:
            return encoder.encode(message)
        except (TypeError, ValueError, OverflowError, RecursionError) as reason:
            raise WireError(f"a {type_.__name__} does not fit the wire: {reason}") from None

    def decode(reader: Reader) -> M:
        try:
            return decoder.decode(reader.take(reader.left, f"a {type_.__name__}"))
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as reason:
            raise WireError(f"no {type_.__name__}: {reason}") from None

    return Form(number, type_, encode, decode, _describe)


def _describe(message: Any) -> str:
    shown = (f"{name}={getattr(message, name)!r}" for name in message.__slots__ if name not in HIDDEN)
    return f"{type(message).__name__} {' '.join(shown)}"
