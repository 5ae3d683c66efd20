"""What fits into one message of a client: its broker says how many bytes it accepts, the limit `client_message_bytes`.

    an event          must fit                      the call that publishes it raises `TooLarge`
    a batch           is sent in parts that fit     unless it has a publisher's number: then it stays one message
    many predicates   are sent in parts that fit
    anything else     must fit

Rule: a message is written, and found to fit, before the client counts it as under way. So what cannot be sent is an error of
one call, and nothing of it is left to be sent again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from contentcast.live.errors import LiveError
from contentcast.wire import Message, encode, frame
from contentcast.wire.framing import FRAME_HEADER_BYTES, MOST_PAYLOAD_BYTES

MANY: Final = 50_000
"""Subscriptions in one message."""
PART_BYTES: Final = 4 * 2**20
"""What can be cut is cut into messages of about so many bytes."""
NUMBER_BYTES: Final = 16
"""More than the number of a subscription takes, and the length of its predicate."""


class TooLarge(LiveError):
    """The broker accepts no message of so many bytes."""

    def __init__(self, what: str, nbytes: int, most_bytes: int, remedy: str) -> None:
        super().__init__(
            f"{what} takes {nbytes:,} bytes, and the broker accepts {most_bytes:,} in one message "
            f"(limit client_message_bytes); {remedy}, or raise the limit at the broker",
            "limit client_message_bytes",
        )


def accepted_bytes(told: int) -> int:
    """What a broker accepts that has told this in its `Welcome`; 0: it did not say."""
    return min(told or MOST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES)


def framed(message: Message, most_bytes: int, what: str = "", remedy: str = "ask for less at once") -> bytes:
    """The message as it is sent; a `TooLarge` if the broker would not accept it."""
    payload = encode(message)
    if len(payload) > most_bytes:
        raise TooLarge(what or f"the message {type(message).__name__}", len(payload), most_bytes, remedy)
    return frame(payload)


def fits(frame_of: bytes, most_bytes: int) -> bool:
    return len(frame_of) - FRAME_HEADER_BYTES <= most_bytes


def text_parts(texts: Sequence[str], most_bytes: int) -> Iterator[tuple[int, int]]:
    """Where each part of many predicates begins and ends. A part has at least one."""
    most = min(PART_BYTES, most_bytes // 2)
    begin = taken = 0
    for at, text in enumerate(texts):
        nbytes = NUMBER_BYTES + (len(text) if text.isascii() else 4 * len(text))
        if at > begin and (at - begin == MANY or taken + nbytes > most):
            yield begin, at
            begin, taken = at, 0
        taken += nbytes
    if begin < len(texts):
        yield begin, len(texts)
