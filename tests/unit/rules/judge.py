"""Judges a translated rule: the oracle, the canonical form and the index must all say what the rule's own world says.

A table is a list of rows (rule, events that match, events that do not); each event of a row is a case.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import contentcast as cc
from contentcast.matching.scan import Scan
from contentcast.model import EventBatch
from contentcast.rules import translate

Row = tuple[Any, list[dict[str, Any]], list[dict[str, Any]]]


def cases(table: Iterable[Row]) -> list[tuple[Any, dict[str, Any], bool]]:
    return [
        (rule, event, expected)
        for rule, matching, others in table
        for events, expected in ((matching, True), (others, False))
        for event in events
    ]


def judge(space: cc.Space, source: str, table: list[Row], **options: Any) -> int:
    """Checks every case and gives their number. All rules stand in one index, so that they also meet each other there."""
    index, scan = cc.MatchIndex(space), Scan(space)
    told: dict[int, str] = {}
    for number, (rule, _, _) in enumerate(table):
        found = translate(space, source, rule, **options)
        told[number] = found.text
        assert cc.parse_predicate(space, found.text) == found.predicate, "the text says what the predicate is"
        index.add(number, found.predicate)
        scan.add(number, found.predicate)
    wrong = []
    count = 0
    for number, (rule, matching, others) in enumerate(table):
        for events, expected in ((matching, True), (others, False)):
            for event in events:
                count += 1
                [plain] = EventBatch.from_dicts(space, [event]).to_dicts()
                said = {
                    "oracle": number in scan.match(plain),
                    "canonical form": translate(space, source, rule, **options).predicate.accepts(plain),
                    "index": number in index.match(event),
                }
                wrong += [
                    f"{rule} -> {told[number]}: {event}: {who} says {not expected}"
                    for who, it in said.items()
                    if it != expected
                ]
    assert not wrong, "\n".join(wrong)
    return count
