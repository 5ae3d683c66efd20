"""contentcast: content-based publish/subscribe. Say what you want as a predicate; every matching event reaches you."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from contentcast.language import (
    PredicateError,
    advertisement,
    covers,
    overlaps,
    parse_many,
    parse_predicate,
    subscription,
)
from contentcast.match_index import MatchIndex
from contentcast.model import (
    Advertisement,
    Attribute,
    ContentcastError,
    EventBatch,
    EventError,
    Predicate,
    Space,
    SpaceError,
    Subscription,
    infer_space,
    read_events,
)
from contentcast.rules import RuleError, from_cesql, from_eventbridge, from_headers, from_jms, from_matchers, from_topic

if TYPE_CHECKING:
    from contentcast.live.client import connect, connect_sync

__all__ = [
    "Advertisement",
    "Attribute",
    "ContentcastError",
    "EventBatch",
    "EventError",
    "MatchIndex",
    "Predicate",
    "PredicateError",
    "RuleError",
    "Space",
    "SpaceError",
    "Subscription",
    "advertisement",
    "connect",
    "connect_sync",
    "covers",
    "from_cesql",
    "from_eventbridge",
    "from_headers",
    "from_jms",
    "from_matchers",
    "from_topic",
    "infer_space",
    "overlaps",
    "parse_many",
    "parse_predicate",
    "read_events",
    "subscription",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """What needs an event loop is loaded when it is first used."""
    if name in ("connect", "connect_sync"):
        return getattr(import_module("contentcast.live.client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
