"""The data model: spaces, events, predicates and how they relate. Imports nothing of ours."""

from contentcast.model.errors import ContentcastError, EventError, SpaceError
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.events.event_files import read_events
from contentcast.model.events.intake import How, Intake
from contentcast.model.events.json_lines import from_json_lines
from contentcast.model.events.rows import Rejection
from contentcast.model.inference import Inferred, infer_space
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.covering import covers, overlaps
from contentcast.model.predicates.predicate import Conjunction, Predicate
from contentcast.model.space import Attribute, Space
from contentcast.model.subscription import Advertisement, Subscription
from contentcast.model.subscription_batch import SubscriptionBatch
from contentcast.model.transforms.transform import Transform, Transforms, TransformsError
from contentcast.model.values.ranges import Ranges

__all__ = [
    "Advertisement",
    "Attribute",
    "Conjunction",
    "Constraint",
    "ContentcastError",
    "EventBatch",
    "EventError",
    "How",
    "Inferred",
    "Intake",
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
    "infer_space",
    "overlaps",
    "read_events",
]
