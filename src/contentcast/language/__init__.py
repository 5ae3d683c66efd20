"""The subscription language: text to predicate and back, one by one and by the million."""

from contentcast.language.bulk import parse_many
from contentcast.language.errors import PredicateError
from contentcast.language.parser import parse_predicate, parse_tree
from contentcast.language.printer import print_predicate, print_tree
from contentcast.language.relations import advertisement, as_predicate, covers, overlaps, subscription

__all__ = [
    "PredicateError",
    "advertisement",
    "as_predicate",
    "covers",
    "overlaps",
    "parse_many",
    "parse_predicate",
    "parse_tree",
    "print_predicate",
    "print_tree",
    "subscription",
]
