"""Why an event does not satisfy a predicate: which tests of each alternative fail, in words of the language.

Rule: an explanation says both texts, the one that was given and the canonical one that was matched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from contentcast.language.printer import print_predicate, print_tree
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.spelling import spell_constraint

NEVER: Final = "can never match: its tests contradict each other"
ALWAYS: Final = "matches every event"


def verdict(predicate: Predicate) -> str | None:
    """What is odd about a predicate, if something is: no event or every event satisfies it."""
    if not predicate.conjunctions:
        return NEVER
    return ALWAYS if any(not each.items for each in predicate.conjunctions) else None


def explanation(subscription: Any, predicate: Predicate, text: str | None, event: Mapping[str, Any]) -> dict[str, Any]:
    """`alternatives`: what OR joins, each with the tests that fail; `failed`: all of them; `text`: as the predicate was given,
    if that is known; `verdict`: whether no event, or every event, satisfies it.
    """
    alternatives = []
    for conjunction in predicate.conjunctions:
        tests = [(print_tree(spell_constraint(name, each)), name, each) for name, each in conjunction.items]
        failed = [{"test": test, "value": event.get(name)} for test, name, each in tests if not each.accepts(event.get(name))]
        alternatives.append({"tests": " AND ".join(test for test, _, _ in tests) or "TRUE", "failed": failed})
    matched = predicate.accepts(event)
    return {
        "subscription": subscription,
        "matched": matched,
        "text": text,
        "predicate": print_predicate(predicate),
        "verdict": verdict(predicate),
        "failed": [] if matched else [test for each in alternatives for test in each["failed"]],
        "alternatives": alternatives,
    }
