"""A predicate's canonical form as JSON, for programs: alternatives, and for each attribute what it must be.

    {"price": {"in": [{"from": null, "from included": true, "to": 5.0, "to included": false}], "may be absent": false}}
    {"symbol": {..., "like": ["I%M"], "not rlike": ["^a+$"]}}
    {"tags": {"may be absent": false, "some element": [{"in": [...], "may be null": false}], "size": [{"from": 2, ...}]}}

Rule: a test is written under the word that the language has for it; what must not match has `not` or `no` before it.
"""

from __future__ import annotations

from typing import Any, Final

from contentcast.model import Constraint, Predicate
from contentcast.model.predicates.list_tests import Size, Some
from contentcast.model.values.folded import Folded
from contentcast.model.values.networks import InNetwork
from contentcast.model.values.ranges import Ranges
from contentcast.model.values.regular import Regex
from contentcast.model.values.value_test import ValueTest

_ENDS: Final = ("from", "from included", "to", "to included")


def conjunctions(predicate: Predicate) -> list[dict[str, Any]]:
    return [{name: _constraint(each) for name, each in conjunction.items} for conjunction in predicate.conjunctions]


def _constraint(constraint: Constraint, *, absent: str = "may be absent") -> dict[str, Any]:
    """In one of the intervals (null: no bound), and as the tests say; or absent, where it may be."""
    described: dict[str, Any] = {}
    if constraint.ranges.kind.element is None:
        described["in"] = _intervals(constraint.ranges)
    elif not constraint.ranges:
        described["in"] = []  # absent alone is left; of a list nothing else is said by ranges
    described[absent] = constraint.absent
    for tests, negated in ((constraint.like, False), (constraint.unlike, True)):
        for test in tests:
            word, said = _test(test)
            named = word if not negated else "no element" if word == "some element" else f"not {word}"
            described.setdefault(named, []).extend(said)
    return described


def _test(test: ValueTest) -> tuple[str, list[Any]]:
    """The language's word for a test, and what it asks."""
    match test:
        case Some():
            return "some element", [_constraint(test.constraint, absent="may be null")]
        case Size():
            return "size", _intervals(test.ranges)
        case Folded():
            return "lower like", [test.pattern.text]
        case Regex():
            return "rlike", [test.text[2:]]
        case InNetwork():
            return "in_cidr", [test.text[2:]]
    return "like", [test.text]


def _intervals(ranges: Ranges) -> list[dict[str, Any]]:
    return [dict(zip(_ENDS, map(_plain, each), strict=True)) for each in ranges.intervals()]


def _plain(value: Any) -> Any:
    """As events write it in JSON: timestamps in ISO 8601, bytes in base64."""
    import msgspec

    return msgspec.to_builtins(value)
