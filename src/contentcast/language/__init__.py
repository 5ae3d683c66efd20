"""The subscription language: text to predicate and back, one by one and by the million; text to transform."""

from contentcast.language.bulk import parse_many
from contentcast.language.errors import PredicateError, TransformError
from contentcast.language.parser import parse_predicate, parse_tree
from contentcast.language.printer import print_predicate, print_tree
from contentcast.language.relations import advertisement, as_predicate, covers, overlaps, subscription
from contentcast.language.transforms import parse_transform

__all__ = [
    "PredicateError",
    "TransformError",
    "advertisement",
    "as_predicate",
    "covers",
    "overlaps",
    "parse_many",
    "parse_predicate",
    "parse_transform",
    "parse_tree",
    "print_predicate",
    "print_tree",
    "subscription",
]
