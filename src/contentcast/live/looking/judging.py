"""What keeps an event from a subscription, and a subscription from all events: the very tests, with the values they met.

    judged      one event           fails: price < 120.0, and the event has 121.0
    never       many events         price < 0.0 holds for 0 of 1,000, issue = 'IBM' for 212

Without an index: for one predicate, compiling or loading a kernel would take longer than anything else.
Rule: a test is named as the user may write it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contentcast.language import print_predicate, print_tree
from contentcast.model import EventBatch, Predicate
from contentcast.model.predicates.spelling import spell_constraint


def judged(predicate: Predicate, event: Mapping[str, Any]) -> dict[str, Any]:
    (checked,) = EventBatch.from_dicts(predicate.space, [event]).to_dicts()
    matched = predicate.accepts(checked)
    failed = [
        {"test": print_tree(spell_constraint(name, constraint)), "value": checked.get(name)}
        for conjunction in predicate.conjunctions
        for name, constraint in conjunction.items
        if not constraint.accepts(checked.get(name))
    ]
    return {"matched": matched, "predicate": print_predicate(predicate), "failed": [] if matched else failed}


def never(predicate: Predicate, events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Which test keeps a subscription from these events: of each conjunction the one that the fewest of them pass."""
    if predicate.is_nothing:
        return {"keeps": "its tests contradict each other: no event can pass them all", "events": len(events)}
    if not events:
        return {"keeps": "no event of its space has come to this broker lately", "events": 0}
    tests: list[dict[str, Any]] = []
    for conjunction in predicate.conjunctions:
        passed = [
            (sum(constraint.accepts(each.get(name)) for each in events), print_tree(spell_constraint(name, constraint)), name)
            for name, constraint in conjunction.items
        ]
        if passed:
            count, test, name = min(passed)
            told = {"test": test, "passed": count}
            tests.append(told | {"values": _some([each.get(name) for each in events])} if not count else told)
    rarest = " OR ".join(f"{each['test']} holds for {each['passed']:,}" for each in tests)
    matched = sum(predicate.accepts(each) for each in events)
    keeps = f"{rarest} of the last {len(events):,} events" if not matched else "it accepts some of the last events by now"
    return {"keeps": keeps, "events": len(events), "tests": tests}


def _some(values: list[Any]) -> list[Any]:
    """A few of the values that the events have instead."""
    return list(dict.fromkeys(repr(each) if isinstance(each, list | bytes) else each for each in values))[:3]
