"""contentcast: content-based publish/subscribe. Say what you want as a predicate; every matching event reaches you."""

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
    read_events,
)

__all__ = [
    "Advertisement",
    "Attribute",
    "ContentcastError",
    "EventBatch",
    "EventError",
    "MatchIndex",
    "Predicate",
    "PredicateError",
    "Space",
    "SpaceError",
    "Subscription",
    "advertisement",
    "covers",
    "overlaps",
    "parse_many",
    "parse_predicate",
    "read_events",
    "subscription",
]
__version__ = "0.1.0"
