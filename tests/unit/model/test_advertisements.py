"""Advertisements: each attribute listed with its alternatives, none that is not; and the same as a set of events."""

import pickle
from itertools import product
from typing import Any

import pytest

from contentcast.language import PredicateError, advertisement, covers, overlaps, parse_predicate, subscription
from contentcast.model import Advertisement, Attribute, Constraint, ContentcastError, Ranges, Space, SpaceError
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.values.effort import MOST_STEPS, Effort
from contentcast.model.values.kinds import INT
from tests.hostile_advertisements import PAIRS, of_pairs

VIDEO = Space("video", {"source": "string", "block_h": Attribute("int", low=0, high=5), "block_v": "int", "live": "bool"})
EVENTS = [
    {name: value for name, value in zip(VIDEO.names, values, strict=True) if value is not None}
    for values in product([None, "a", "ab", "b"], [None, 0, 1, 2, 3, 5], [None, -1, 7], [None, True, False])
]

ADVERTISED: list[dict[str, str | list[str]]] = [
    {},
    {"source": "source = 'a'"},
    {"source": "ANY"},
    {"source": ["source = 'a'", "source = 'b'"]},
    {"source": ["startswith(source, 'a')", "source = 'b'"], "block_h": "block_h < 2"},
    {"source": ["source LIKE '%b'", "source LIKE 'a_'"], "block_h": ["block_h = 0", "block_h > 2"], "live": "live"},
    {"block_h": "block_h < 2 OR block_h = 5", "block_v": "ANY", "live": "ANY"},
    {"block_h": []},
    {"block_h": "FALSE"},
    {"block_h": "block_h IS NULL OR block_h = 1"},
]


def allowed_by_definition(described: dict[str, str | list[str]], event: dict[str, Any]) -> bool:
    """Every attribute of the event is met by some constraint of the advertisement; constraints on one are alternatives."""
    for name, value in event.items():
        texts = described.get(name, [])
        alternatives = [texts] if isinstance(texts, str) else texts
        if not any(text == "ANY" or parse_predicate(VIDEO, text).accepts({name: value}) for text in alternatives):
            return False
    return True


@pytest.mark.parametrize("described", ADVERTISED, ids=str)
def test_what_may_be_published(described: dict[str, str | list[str]]) -> None:
    advertised = advertisement(VIDEO, 1, described)
    for event in EVENTS:
        expected = allowed_by_definition(described, event)
        assert advertised.allows(event) is expected, event
        assert advertised.predicate.accepts(event) is expected, event


def test_an_attribute_that_is_none_is_not_carried() -> None:
    assert advertisement(VIDEO, 1, {"source": "ANY"}).allows({"source": "a", "block_h": None})


@pytest.mark.parametrize("one", ADVERTISED[:7], ids=str)
@pytest.mark.parametrize("other", ADVERTISED[:7], ids=str)
def test_one_advertisement_covers_another_as_sets_of_events(one: Any, other: Any) -> None:
    wide, narrow = advertisement(VIDEO, 1, one), advertisement(VIDEO, 2, other)
    said = covers(VIDEO, wide.predicate, narrow.predicate)
    true = all(wide.allows(event) for event in EVENTS if narrow.allows(event))
    assert not said or true
    assert overlaps(VIDEO, wide.predicate, narrow.predicate)  # both allow the event that carries nothing


@pytest.mark.parametrize(
    ("wanted", "meets"),
    [
        ("source = 'a'", True),
        ("source = 'b'", False),
        ("source = 'a' AND block_h = 1", True),
        ("source = 'a' AND block_h = 2", False),
        ("source = 'a' AND block_v = 1", False),  # not listed, so never carried
        ("source = 'a' AND block_v IS NULL", True),
        ("block_h >= 2 OR source < 'aa'", True),
        ("live IS NOT NULL", False),
        ("TRUE", True),
    ],
)
def test_which_subscriptions_an_advertisement_meets(wanted: str, meets: bool) -> None:
    advertised = advertisement(VIDEO, 1, {"source": "startswith(source, 'a')", "block_h": ["block_h < 2", "block_h = 5"]})
    assert overlaps(VIDEO, wanted, advertised.predicate) is meets
    asked = parse_predicate(VIDEO, wanted)
    assert meets is any(asked.accepts(event) and advertised.allows(event) for event in EVENTS)


def test_alternatives_on_one_attribute_are_joined_where_one_constraint_can_say_it() -> None:
    many = [f"block_v = {number}" for number in range(5000)]
    assert len(advertisement(VIDEO, 1, {"block_v": many}).predicate.conjunctions) == 1


def test_alternatives_that_multiply_without_end_are_refused_with_the_number() -> None:
    space = Space("wide", {f"a{number}": "string" for number in range(8)})
    described = {name: [f"{name} LIKE '%{letter}%'" for letter in "abcdef"] for name in space.names}
    with pytest.raises(ContentcastError, match="the advertisement has more than 1000 alternatives"):
        advertisement(space, 1, described)


@pytest.mark.parametrize(
    ("described", "error", "says"),
    [
        ({"sorce": "ANY"}, SpaceError, "video has no attribute 'sorce'; did you mean 'source'?"),
        ({"source": "source = 5"}, PredicateError, "source is a string; 5 is a number"),
        ({"source": "block_h = 5"}, PredicateError, "what is advertised for source may ask of source alone, not of block_h"),
        ({"source": ["source = 'a'", "source = 'b' OR live"]}, PredicateError, "not of live"),
        ({"source": "any"}, PredicateError, "any"),
    ],
)
def test_an_advertisement_that_makes_no_sense(described: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error) as caught:
        advertisement(VIDEO, 1, described)
    assert says in str(caught.value)


def test_an_advertisement_made_by_hand_is_checked_too() -> None:
    with pytest.raises(SpaceError, match="video has no attribute 'block_x'; did you mean 'block_"):
        Advertisement(1, VIDEO, {"block_x": (Constraint(Ranges.points(INT, [1])),)})


def test_subscriptions_and_advertisements_carry_who_and_where() -> None:
    wanted = subscription(VIDEO, 7, "live", subscriber="desk-7", broker="b")
    offered = advertisement(VIDEO, 8, {"live": "ANY"}, publisher="camera", broker="a")
    assert (wanted.id, wanted.subscriber, wanted.broker, wanted.space) == (7, "desk-7", "b", VIDEO)
    assert (offered.id, offered.publisher, offered.broker, offered.space) == (8, "camera", "a", VIDEO)
    for each in (wanted, offered):
        assert pickle.loads(pickle.dumps(each)) == each
    assert offered.predicate == pickle.loads(pickle.dumps(offered)).predicate


def test_a_predicate_of_another_space_is_not_taken_for_one_of_this() -> None:
    other = parse_predicate(Space("sound", live="bool"), "live")
    for use in (lambda: subscription(VIDEO, 1, other), lambda: covers(VIDEO, other, "live")):
        with pytest.raises(ContentcastError, match="a predicate over sound does not fit the space video"):
            use()


@pytest.mark.parametrize("described", ADVERTISED, ids=str)
def test_what_is_multiplied_out_needs_no_simplifying(described: dict[str, str | list[str]]) -> None:
    """Its parts are simplified, so it is not done again for each attribute: that took most of the time."""
    found = advertisement(VIDEO, 1, described).predicate
    assert found == Predicate.of(VIDEO, found.conjunctions)
    pairs = of_pairs().predicate
    assert len(pairs.conjunctions) == 512
    assert pairs == Predicate.of(PAIRS, pairs.conjunctions)


def test_an_advertisement_has_steps_as_a_predicate_has() -> None:
    pairs = of_pairs()
    with pytest.raises(ContentcastError, match="takes too long to bring to its normal form"):
        Advertisement(1, PAIRS, pairs.allowed, effort=Effort(10_000))
    assert Advertisement(1, PAIRS, pairs.allowed, effort=Effort(MOST_STEPS)) == Advertisement(1, PAIRS, pairs.allowed)
