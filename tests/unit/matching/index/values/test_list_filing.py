"""Lists lead to constraints by their elements: what the kernel finds is what trying each constraint on each list finds."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from contentcast.language import parse_predicate
from contentcast.matching.index.values.list_filing import find_lists, list_filing
from contentcast.matching.index.values.text_pieces import Pieces, joined
from contentcast.model import Space
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.values.kinds import KINDS, LISTS
from contentcast.model.values.list_bytes import list_value
from tests.properties.generate import LIST, Generator

MORE: dict[str, list[Any]] = {"float": [-0.0, float("inf"), -float("inf"), -2.5], "int": [-1, -(2**63), 2**63 - 1]}


def constraint(space: Space, text: str) -> Constraint:
    (alternative,) = parse_predicate(space, text).conjunctions
    found = alternative.get("x")
    assert found is not None
    return found


@pytest.mark.parametrize("name", LISTS)
def test_elements_lead_to_what_asks_for_them(name: str) -> None:
    generate, kind, space = Generator(Random(name)), KINDS[name], Space("things", x=name)
    assert kind.element is not None
    values = [generate.value(name) for _ in range(200)] + [[each] * 2 for each in MORE.get(name.removeprefix(LIST), [])]
    asked = {generate.written_literal(name.removeprefix(LIST)) for _ in range(30)}
    texts = [f"array_contains(x, {each})" for each in sorted(asked)] + ["exists(x, t -> t IS NULL)", "size(x) > 1"]
    constraints, pieces = [constraint(space, text) for text in texts], Pieces()
    for number, each in enumerate(constraints):
        negative, filed, _ = list_filing(each)
        assert not negative
        for how, piece in filed:
            pieces.link(how, piece, number)
    raw = [list_value(kind, each) for each in values]
    at, numbers = find_lists(pieces, kind.element, *joined(raw), len(texts))
    pairs = list(zip(at.tolist(), numbers.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs), "each once"
    sized = len(texts) - 1
    wanted = {
        (place, number) for place, value in enumerate(raw) for number, each in enumerate(constraints) if each.accepts(value)
    }
    assert {pair for pair in pairs if pair[1] != sized} == {pair for pair in wanted if pair[1] != sized}
    assert {place for place, number in pairs if number == sized} == set(range(len(values))), "a size is tried on every list"
    assert len(wanted) > 100


def test_no_lists_and_empty_lists() -> None:
    kind, pieces = KINDS["list of string"], Pieces()
    assert kind.element is not None
    for raw in ([], [list_value(kind, [])]):
        at, numbers = find_lists(pieces, kind.element, *joined(raw), 0)
        assert (len(at), len(numbers)) == (0, 0)
