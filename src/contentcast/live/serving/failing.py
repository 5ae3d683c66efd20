"""What a client did wrong, as the message that tells it."""

from __future__ import annotations

from contentcast.language import PredicateError
from contentcast.live.errors import LiveError
from contentcast.live.settings.access import AccessError
from contentcast.live.settings.limits import LimitError
from contentcast.model import ContentcastError, EventError, SpaceError
from contentcast.routing.durable.publishers import NumberError
from contentcast.wire import WireError
from contentcast.wire.client import Failed


def failure(request: int, reason: ContentcastError) -> Failed:
    match reason:
        case PredicateError():
            return Failed(request, "predicate", reason.reason, reason.text, reason.offset)
        case LimitError():
            return Failed(request, f"limit {reason.limit}", str(reason))
        case AccessError():
            return Failed(request, "access", str(reason))
        case SpaceError():
            return Failed(request, "space", str(reason))
        case EventError():
            return Failed(request, "event", str(reason))
        case WireError():
            return Failed(request, "message", str(reason))
        case NumberError():
            return Failed(request, "number", str(reason))
        case LiveError():
            return Failed(request, reason.code, str(reason))
    return Failed(request, "request", str(reason))
