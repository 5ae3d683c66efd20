"""The data model: spaces, events, predicates and how they relate. Imports nothing of ours."""

from contentcast.model.constraint import Constraint
from contentcast.model.covering import covers, overlaps
from contentcast.model.errors import ContentcastError, EventError, SpaceError
from contentcast.model.event_batch import EventBatch, Rejection
from contentcast.model.event_files import from_json_lines, read_events
from contentcast.model.predicate import Conjunction, Predicate
from contentcast.model.ranges import Ranges
from contentcast.model.space import Attribute, Space
from contentcast.model.subscription import Advertisement, Subscription
from contentcast.model.subscription_batch import SubscriptionBatch
from contentcast.model.transform import Transform, Transforms, TransformsError

__all__ = [
    "Advertisement",
    "Attribute",
    "Conjunction",
    "Constraint",
    "ContentcastError",
    "EventBatch",
    "EventError",
    "Predicate",
    "Ranges",
    "Rejection",
    "Space",
    "SpaceError",
    "Subscription",
    "SubscriptionBatch",
    "Transform",
    "Transforms",
    "TransformsError",
    "covers",
    "from_json_lines",
    "overlaps",
    "read_events",
]
