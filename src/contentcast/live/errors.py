"""What a client can be told by its broker, as the error that the same mistake raises without a broker."""

from __future__ import annotations

from contentcast.language import PredicateError
from contentcast.model import ContentcastError, EventError, SpaceError
from contentcast.wire.client import Failed


class LiveError(ContentcastError):
    """Something went wrong between a client and its broker. `code` is a word for programs."""

    def __init__(self, reason: str, code: str = "") -> None:
        super().__init__(reason)
        self.code = code


class NotConnected(LiveError):
    """There is no broker at any of the addresses, or the client was closed."""


def error_of(failed: Failed) -> ContentcastError:
    match failed.code:
        case "predicate":
            return PredicateError(failed.text, failed.offset, failed.reason)
        case "space":
            return SpaceError(failed.reason)
        case "event":
            return EventError(failed.reason)
    return LiveError(failed.reason, failed.code)
