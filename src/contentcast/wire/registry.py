"""Every family of messages on one page, and what holds for all of them: bytes and back, sizes, events, spaces, descriptions.

    numbers     family                file
    1           events                publishing
    2-4, 6-7    knowledge             knowledge
    5           sessions              sessions
    10-13       subscription summaries      summaries (up to 19)
    20-29       covering                    covering
    30-33       ring of the overlay         chord
    34-49       structured overlay          overlay
    50-59       LAN multicast               multicast
    60-65       durable delivery            durable
    66-81       live connections            client
    82-89       checkpoints of a log        checkpoints
    200-255     protocols from outside this package (`register`)

A message names its space and does not carry it: both ends have declared it, and `spaces` finds it by name and print.
Rule: `decode` gives back what `encode` was given or raises a WireError that says why not: whatever the bytes are, no other
exception, and no more memory than a small multiple of their number. No other file has a list of message types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from contentcast.model import ContentcastError, EventBatch, Space
from contentcast.wire import (
    checkpoints,
    chord,
    client,
    covering,
    durable,
    knowledge,
    multicast,
    overlay,
    publishing,
    sessions,
    summaries,
)
from contentcast.wire.encodings.sizes import event_bytes
from contentcast.wire.fields import Reader, Spaces, WireError
from contentcast.wire.form import Form, Ints, Message
from contentcast.wire.framing import FRAME_HEADER_BYTES

FAMILIES: Final = (
    publishing,
    knowledge,
    sessions,
    summaries,
    covering,
    chord,
    overlay,
    multicast,
    durable,
    client,
    checkpoints,
)
FIRST_FROM_OUTSIDE: Final = 200
MOST_NESTED: Final = 4
"""Messages that carry each other: a session's frame, a routed message, the events in it, and one to spare."""

_BY_NUMBER: Final[dict[int, Form[Any]]] = {}
_BY_TYPE: Final[dict[type[Message], Form[Any]]] = {}


def _file(form: Form[Any]) -> None:
    before = _BY_NUMBER.get(form.number)
    if before is not None and before.type is not form.type:
        raise ContentcastError(f"message number {form.number} is {before.type.__name__}; {form.type.__name__} needs another")
    _BY_NUMBER[form.number] = _BY_TYPE[form.type] = form


for _family in FAMILIES:
    for _form in _family.FORMS:
        _file(_form)


def register(forms: Iterable[Form[Any]]) -> None:
    """Messages of a protocol from outside this package; registering the same again changes nothing."""
    for form in forms:
        if not FIRST_FROM_OUTSIDE <= form.number <= 255:
            name = form.type.__name__
            raise ContentcastError(f"{name} has number {form.number}; from outside take {FIRST_FROM_OUTSIDE} to 255")
        _file(form)


def forms() -> tuple[Form[Any], ...]:
    """All that are known, by number."""
    return tuple(_BY_NUMBER[number] for number in sorted(_BY_NUMBER))


def form_of(message: Message) -> Form[Any]:
    found = _BY_TYPE.get(type(message))
    if found is None:
        raise WireError(f"expected {_expected()}, got {type(message).__name__}")
    return found


def _expected() -> str:
    names = [form.type.__name__ for form in forms()]
    return f"{', '.join(names[:-1])} or {names[-1]}"


def carried(message: Message) -> Message | None:
    """The message inside this one."""
    form = form_of(message)
    inner: Message | None = getattr(message, form.carries) if form.carries else None
    return inner


# --- bytes and back


def encode(message: Message) -> bytes:
    """The payload for one frame."""
    parts: list[bytes] = []
    seen: set[int] = set()
    inner: Message | None = message
    while inner is not None:
        form = form_of(inner)
        _check_nesting(form, seen)
        parts += (bytes([form.number]), form.encode(inner))
        inner = getattr(inner, form.carries) if form.carries else None
    return b"".join(parts)


def decode(data: bytes | bytearray | memoryview, spaces: Spaces) -> Message:
    """The message of one payload; `spaces` is a mapping by name, or a function that returns None for an unknown name."""
    reader = Reader(data, spaces)
    message = _decode(reader, set())
    reader.end(f"a {type(message).__name__}")
    return message


def _decode(reader: Reader, seen: set[int]) -> Message:
    (number,) = reader.take(1, "the type of a message")
    form = _BY_NUMBER.get(number)
    if form is None:
        raise WireError(f"expected {_expected()}, got message type {number}")
    _check_nesting(form, seen)
    message: Message = form.decode(reader)
    if form.carries and reader.left:
        return replace(message, **{form.carries: _decode(reader, seen)})  # type: ignore[type-var]  # all are dataclasses
    return message


def _check_nesting(form: Form[Any], seen: set[int]) -> None:
    if form.number in seen or len(seen) == MOST_NESTED:
        raise WireError(f"a {form.type.__name__} holds a message of another type, not a {form.type.__name__}")
    seen.add(form.number)


# --- what is in it


def _layers(message: Message) -> Iterator[tuple[Form[Any], Message]]:
    inner: Message | None = message
    while inner is not None:
        form = form_of(inner)
        yield form, inner
        inner = getattr(inner, form.carries) if form.carries else None


def message_bytes(message: Message) -> int:
    """The length of the message on a link, its frame included."""
    size = FRAME_HEADER_BYTES
    for form, layer in _layers(message):
        size += 1 + (len(form.encode(layer)) if form.nbytes is None else form.nbytes(layer))
    return size


def events_of(message: Message) -> EventBatch | None:
    """The events that it brings, itself or in the message that it carries."""
    for form, layer in _layers(message):
        events = form.events(layer)
        if events is not None:
            return events
    return None


FEW_BYTES: Final = 64
"""A layer around events of up to so many bytes is as large around one event as around many."""


def bytes_alone(message: Message, known: Ints | None = None) -> Ints:
    """For each event of the message: the bytes it would take in a message of its own, its frame included.

    `known`: what the events themselves take, if the caller has counted them already. A layer around the events that grows with
    them (the keys of an m-cast) is shared between them.
    """
    size: Ints | int = FRAME_HEADER_BYTES
    carried = events_of(message)
    count = max(1, 0 if carried is None else len(carried))
    for form, layer in _layers(message):
        size = size + 1
        events = form.events(layer)
        if events is None:
            around = len(form.encode(layer)) if form.nbytes is None else form.nbytes(layer)
            size = size + (around if around <= FEW_BYTES else max(FEW_BYTES, -(-around // count)))
        else:
            assert form.alone is not None, f"{form.type.__name__} brings events; its form must say `alone`"
            size = size + form.alone(layer) + (event_bytes(events) if known is None else known)
    assert not isinstance(size, int)
    return size


def spaces_of(message: Message) -> list[Space]:
    """The spaces that the receiver must have declared."""
    return [space for form, layer in _layers(message) for space in form.spaces(layer)]


def describe(message: Message) -> str:
    return " ".join(form.describe(layer) for form, layer in _layers(message))
