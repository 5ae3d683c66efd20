"""What there is to say about a type of message, in one place: its number, its bytes, what is in it, and a line for traces.

    Form(3, Neighbours, encode=..., decode=..., describe=...)

Each family of protocols has one file with its messages and their forms; `registry` lists the families and does the rest.
Rule: messages are values. Who receives one may keep it and may send it on, and nobody changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from contentcast.model import EventBatch, Space
from contentcast.wire.fields import Reader

Ints = npt.NDArray[np.int64]


class Message:
    """What travels between brokers. Every message is a frozen dataclass of a family."""

    __slots__ = ()


M = TypeVar("M", bound=Message)


def _nothing(message: Any) -> tuple[Space, ...]:
    return ()


def _no_events(message: Any) -> EventBatch | None:
    return None


@dataclass(frozen=True)
class Form(Generic[M]):
    """`encode` gives the bytes behind the number, and `decode` reads them; the number itself is the registry's matter."""

    number: int
    """The first byte of a payload; the registry says which family has which numbers."""
    type: type[M]
    encode: Callable[[M], bytes]
    decode: Callable[[Reader], M]
    describe: Callable[[M], str]
    """One line for traces, without the message that it carries."""
    nbytes: Callable[[M], int] | None = None
    """The length of `encode(message)`, where that is known without writing it."""
    spaces: Callable[[M], Iterable[Space]] = _nothing
    """Spaces that must be declared at the receiver."""
    events: Callable[[M], EventBatch | None] = _no_events
    """The events in it, if it carries any."""
    alone: Callable[[M], Ints | int] | None = None
    """For messages with events: the bytes that each event takes besides its own, if it travels in a message of its own."""
    carries: str = ""
    """The field that holds another message, or None. That one stands at the end; a message carries none of its own type."""
