"""A predicate's text, its syntax tree, its canonical form and its printed form all mean the same."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from contentcast.language import parse_predicate, print_predicate
from contentcast.matching.scan import truth
from contentcast.model import EventBatch, Predicate, covers, overlaps
from contentcast.model.predicates.spelling import spell
from tests.properties.generate import Generator

randoms = st.randoms(use_true_random=False)


@given(randoms)
def test_the_canonical_form_means_what_the_text_means(random: Random) -> None:
    generate = Generator(random)
    space = generate.space()
    text = generate.text(space)
    predicate = parse_predicate(space, text)
    assert predicate.tree is not None
    spelt = spell(predicate)
    for _ in range(6):
        event = generate.event(space)
        expected = truth(predicate.tree, event) is True
        assert predicate.accepts(event) is expected, (text, event)
        assert (truth(spelt, event) is True) is expected, (text, event)


@given(randoms)
def test_printing_and_parsing_gives_an_equal_predicate(random: Random) -> None:
    generate = Generator(random)
    space = generate.space()
    predicate = parse_predicate(space, generate.text(space))
    assert parse_predicate(space, print_predicate(predicate)) == predicate


@given(randoms)
def test_events_survive_the_way_into_a_batch_and_back(random: Random) -> None:
    generate = Generator(random)
    space = generate.space()
    events = [generate.event(space) for _ in range(4)]
    assert EventBatch.from_dicts(space, events).to_dicts() == events


def related(generate: Generator) -> tuple[Predicate, Predicate]:
    """Two predicates, often with something in common."""
    space = generate.space(domains=True)
    one, other = generate.text(space, 2), generate.text(space, 2)
    if generate.chance(0.5):
        other = f"({one}) AND ({other})" if generate.chance(0.5) else f"({one}) OR ({other})"
    return parse_predicate(space, one), parse_predicate(space, other)


@given(randoms)
def test_what_the_narrow_one_accepts_the_covering_one_accepts(random: Random) -> None:
    generate = Generator(random)
    one, other = related(generate)
    if not covers(one, other):
        return
    for _ in range(8):
        event = generate.event(one.space)
        assert one.accepts(event) or not other.accepts(event), (print_predicate(one), print_predicate(other), event)


@given(randoms)
def test_predicates_that_do_not_overlap_share_no_event(random: Random) -> None:
    generate = Generator(random)
    one, other = related(generate)
    if overlaps(one, other):
        return
    for _ in range(8):
        event = generate.event(one.space)
        assert not (one.accepts(event) and other.accepts(event)), (print_predicate(one), print_predicate(other), event)


@given(randoms)
def test_intersections_and_unions_are_those_of_the_events(random: Random) -> None:
    generate = Generator(random)
    space = generate.space()
    one, other = (parse_predicate(space, generate.text(space, 2)) for _ in range(2))
    both, either = one.intersect(other), one.union(other)
    assert covers(one, one)
    assert covers(either, one)
    for _ in range(4):
        event = generate.event(space)
        assert both.accepts(event) is (one.accepts(event) and other.accepts(event))
        assert either.accepts(event) is (one.accepts(event) or other.accepts(event))
