"""The cases in tests/cases: by the oracle, by the canonical form, and by a table read in bulk."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contentcast.language import (
    PredicateError,
    advertisement,
    covers,
    overlaps,
    parse_many,
    parse_predicate,
    print_predicate,
)
from contentcast.matching import Scan
from contentcast.model import Space, from_json_lines
from tests.case_files import Case, cases, described


def test_there_are_enough_cases_and_each_has_its_own_name() -> None:
    names = [case.name for case in cases()]
    assert len(names) >= 300
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_who_gets_the_event(case: Case) -> None:
    scan = Scan(case.space)
    for each, text in case.subscriptions.items():
        scan.add(each, parse_predicate(case.space, text))
    assert scan.match(case.event) == case.expected
    assert scan.match_batch(case.batch) == [case.expected]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_canonical_form_and_its_print_say_the_same(case: Case) -> None:
    parsed = {each: parse_predicate(case.space, text) for each, text in case.subscriptions.items()}
    assert sorted(each for each, predicate in parsed.items() if predicate.accepts(case.event)) == case.expected
    for predicate in parsed.values():
        assert parse_predicate(case.space, print_predicate(predicate)) == predicate
    assert list(parse_many(case.space, list(case.subscriptions.values()))) == list(parsed.values())


@pytest.mark.parametrize(
    ("name", "space", "case"), described("refused"), ids=lambda each: each if isinstance(each, str) else ""
)
def test_what_is_refused_and_how_it_is_said(name: str, space: Space, case: dict[str, Any]) -> None:
    with pytest.raises(PredicateError) as caught:
        parse_predicate(space, case["predicate"])
    for fragment in case["error_contains"]:
        assert fragment in str(caught.value)


PAIRS = [each for each in described("covering") if "wide" in each[2]]
ADVERTISEMENTS = [each for each in described("covering") if "advertisement" in each[2]]


@pytest.mark.parametrize(("name", "space", "case"), PAIRS, ids=lambda each: each if isinstance(each, str) else "")
def test_which_predicate_covers_which(name: str, space: Space, case: dict[str, Any]) -> None:
    assert covers(space, case["wide"], case["narrow"]) is case["covers"]
    assert overlaps(space, case["wide"], case["narrow"]) is case["overlaps"]
    assert overlaps(space, case["narrow"], case["wide"]) is case["overlaps"]


@pytest.mark.parametrize(("name", "space", "case"), ADVERTISEMENTS, ids=lambda each: each if isinstance(each, str) else "")
def test_what_an_advertisement_allows(name: str, space: Space, case: dict[str, Any]) -> None:
    advertised = advertisement(space, 1, case["advertisement"])
    (event,) = from_json_lines(space, [json.dumps(case["event"])]).to_dicts()
    assert advertised.allows(event) is case["advertised"]
    assert advertised.predicate.accepts(event) is case["advertised"]
    assert overlaps(space, case["subscription"], advertised.predicate) is case["overlaps"]
