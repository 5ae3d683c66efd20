"""One constraint and conjunctions of several: intersection, union, complement and canonical form, against all short strings."""

import pickle
from collections.abc import Iterator
from functools import cache
from itertools import product
from random import Random

import pytest

from contentcast.model import Conjunction, Constraint, Predicate, Ranges, Space
from contentcast.model.predicates.predicate import simplified
from contentcast.model.values.kinds import INT, STRING
from contentcast.model.values.patterns import Pattern

STRINGS = ["".join(letters) for size in range(5) for letters in product("abc", repeat=size)]
VALUES = [None, *STRINGS]
"""None is an absent attribute."""

RANGES = [
    Ranges.everything(STRING),
    Ranges.nothing(STRING),
    Ranges.points(STRING, ["", "ab", "abba"]),
    Ranges.points(STRING, ["a"]).complement(),
    Ranges.prefix("ab"),
    Ranges.between(STRING, "a", "b", high_closed=False),
    Ranges.prefix("a") | Ranges.between(STRING, "bb"),
]
PATTERNS = [Pattern.of(text) for text in ("%a", "%b%", "a%b", "_", "%a_", "_b%", "%ab%", "__%")]


def some_constraints(count: int, seed: int) -> Iterator[tuple[Constraint, frozenset[str | None]]]:
    """Built by `of` from random parts, each with what the parts say it accepts."""
    random = Random(seed)
    for _ in range(count):
        ranges, absent = random.choice(RANGES), random.random() < 0.3
        like = tuple(random.sample(PATTERNS, random.choice([0, 0, 1, 1, 2])))
        unlike = tuple(random.sample(PATTERNS, random.choice([0, 0, 1, 2])))
        meant = frozenset(
            text
            for text in STRINGS
            if text in ranges and all(each.matches(text) for each in like) and not any(each.matches(text) for each in unlike)
        )
        yield Constraint.of(ranges, absent, like, unlike), meant | {None} if absent else meant


@cache
def accepted(constraint: Constraint) -> frozenset[str | None]:
    return frozenset(value for value in VALUES if constraint.accepts(value))


def test_the_canonical_form_accepts_what_its_parts_say() -> None:
    for constraint, meant in some_constraints(400, seed=1):
        assert accepted(constraint) == meant, constraint


def test_the_canonical_form_is_canonical() -> None:
    """Made once more of its own parts it is the same, and pickling leaves it so."""
    for constraint, _ in some_constraints(300, seed=2):
        again = Constraint.of(constraint.ranges, constraint.absent, constraint.like, constraint.unlike)
        assert again == constraint
        assert pickle.loads(pickle.dumps(constraint)) == constraint
        if constraint.ranges.values(most=max(1, len(constraint.ranges.cuts) // 2)) is not None:
            assert constraint.only_ranges  # a finite set needs no patterns


def test_an_empty_constraint_accepts_nothing_short() -> None:
    for constraint, _ in some_constraints(300, seed=3):
        assert not constraint.is_empty or not accepted(constraint)
        assert not constraint.is_anything or accepted(constraint) == set(VALUES)


def test_intersection_union_and_complement_are_those_of_the_strings() -> None:
    pairs = list(some_constraints(60, seed=4))
    for (one, mine), (other, theirs) in product(pairs, pairs):
        assert accepted(one & other) == mine & theirs
        union = one.union(other)
        assert union is None or accepted(union) == mine | theirs
        outside = one.complement()
        assert (outside is None) is not one.only_ranges
        assert outside is None or accepted(outside) == set(VALUES) - mine


def test_covers_never_says_yes_wrongly_and_overlaps_never_no() -> None:
    pairs = list(some_constraints(80, seed=5))
    yes = 0
    for (one, mine), (other, theirs) in product(pairs, pairs):
        if one.covers(other):
            yes += 1
            assert theirs <= mine, (one, other)
        if not one.overlaps(other):
            assert not mine & theirs, (one, other)
        assert one.overlaps(other) is other.overlaps(one)
        assert one.covers(one)
    assert yes > 300  # not by never saying yes


def test_without_patterns_both_are_exact() -> None:
    plain = [Constraint(ranges, absent) for ranges in RANGES for absent in (False, True)]
    for one, other in product(plain, plain):
        assert one.covers(other) is (accepted(other) <= accepted(one))
        assert one.overlaps(other) is bool(accepted(other) & accepted(one))


@pytest.mark.parametrize(
    ("parts", "canonical"),
    [
        # what the rest implies already falls away
        ({"like": ("%b%", "%ab%")}, {"like": ("%ab%",)}),
        ({"unlike": ("%b%", "%ab%")}, {"unlike": ("%b%",)}),
        ({"ranges": Ranges.prefix("ab"), "like": ("%b%",)}, {"ranges": Ranges.prefix("ab")}),
        ({"ranges": Ranges.prefix("ab"), "unlike": ("b%",)}, {"ranges": Ranges.prefix("ab")}),
        ({"like": ("a%b",), "unlike": ("b%",)}, {"ranges": Ranges.prefix("a"), "like": ("a%b",)}),
        # finite sets are tried out
        ({"ranges": Ranges.points(STRING, ["ab", "b"]), "like": ("a%",)}, {"ranges": Ranges.points(STRING, ["ab"])}),
        # contradictions are found
        ({"like": ("a%", "b%")}, {"ranges": Ranges.nothing(STRING)}),
        ({"like": ("%ab",), "unlike": ("%b",)}, {"ranges": Ranges.nothing(STRING)}),
        ({"ranges": Ranges.prefix("c"), "like": ("a%b",)}, {"ranges": Ranges.nothing(STRING)}),
    ],
)
def test_what_a_constraint_is_reduced_to(parts: dict[str, object], canonical: dict[str, object]) -> None:
    def made(ranges: object = None, like: tuple[str, ...] = (), unlike: tuple[str, ...] = ()) -> tuple[object, ...]:
        found = Ranges.everything(STRING) if ranges is None else ranges
        return found, False, tuple(map(Pattern.of, like)), tuple(map(Pattern.of, unlike))

    assert Constraint.of(*made(**parts)) == Constraint(*made(**canonical))  # type: ignore[arg-type]


def test_present_and_missing() -> None:
    assert accepted(Constraint.present(STRING)) == set(STRINGS)
    assert accepted(Constraint.missing(STRING)) == {None}
    assert Constraint.present(STRING).union(Constraint.missing(STRING)).is_anything  # type: ignore[union-attr]
    assert (Constraint.present(STRING) & Constraint.missing(STRING)).is_empty


# --- conjunctions and predicates

PLANE = Space("plane", x="int", y="int", z="int")


def box(**sides: tuple[int, int]) -> Conjunction:
    return Conjunction.of(PLANE, {name: Constraint(Ranges.between(INT, low, high)) for name, (low, high) in sides.items()})


def test_a_conjunction_keeps_the_order_of_the_space_and_drops_what_asks_nothing() -> None:
    anything = Constraint(Ranges.everything(INT), absent=True)
    given = {"z": Constraint.present(INT), "y": anything, "x": Constraint.missing(INT)}
    made = Conjunction.of(PLANE, given)
    assert list(made) == ["x", "z"]
    assert len(made) == 2
    assert made.get("x") == Constraint.missing(INT)
    assert made.get("y") is None
    assert made.accepts({"z": 5}) is True
    assert made.accepts({"z": 5, "x": 1}) is False
    assert made.accepts({"z": None}) is False


def test_conjunctions_meet_attribute_by_attribute() -> None:
    assert box(x=(0, 5), y=(0, 5)).intersect(PLANE, box(x=(3, 9), z=(1, 1))) == box(x=(3, 5), y=(0, 5), z=(1, 1))
    assert box(x=(0, 5)).intersect(PLANE, box(x=(6, 9))) is None
    assert box().intersect(PLANE, box(x=(6, 9))) == box(x=(6, 9))
    assert box(x=(0, 9)).covers(box(x=(1, 2), y=(0, 0)))
    assert not box(x=(0, 9), y=(0, 9)).covers(box(x=(1, 2)))
    assert box(x=(0, 5)).overlaps(box(x=(5, 9), y=(0, 0)))
    assert not box(x=(0, 5)).overlaps(box(x=(6, 9), y=(0, 0)))


def test_alike_conjunctions_merge_and_covered_ones_go() -> None:
    assert simplified(PLANE, [box(x=(0, 1), y=(0, 0)), box(x=(2, 3), y=(0, 0))]) == (box(x=(0, 3), y=(0, 0)),)
    assert simplified(PLANE, [box(x=(0, 9)), box(x=(1, 2), y=(0, 0))]) == (box(x=(0, 9)),)
    assert simplified(PLANE, [box(x=(0, 0)), box(y=(0, 0))]) == (box(x=(0, 0)), box(y=(0, 0)))
    assert simplified(PLANE, [box(x=(0, 0)), box()]) == (box(),)
    assert simplified(PLANE, []) == ()


def test_merging_can_set_off_more_merging() -> None:
    """Four corners of a square become two bars, and the bars the square."""
    corners = [box(x=(x, x), y=(y, y)) for x in (0, 1) for y in (0, 1)]
    assert simplified(PLANE, corners) == (box(x=(0, 1), y=(0, 1)),)
    whole = [Conjunction.of(PLANE, {"x": Constraint(each, absent)}) for each, absent in _halves()]
    assert simplified(PLANE, whole) == (Conjunction(),)


def _halves() -> list[tuple[Ranges, bool]]:
    return [(Ranges.between(INT, high=0), False), (Ranges.between(INT, 1), False), (Ranges.nothing(INT), True)]


@pytest.mark.parametrize("seed", range(20))
def test_simplifying_changes_neither_the_meaning_nor_by_the_order_given(seed: int) -> None:
    random = Random(seed)
    names = ("x", "y")

    def side() -> tuple[int, int]:
        low = random.randint(0, 3)
        return low, random.randint(low, 3)

    boxes = [box(**{name: side() for name in random.sample(names, random.randint(1, 2))}) for _ in range(8)]
    points = [{"x": x, "y": y} for x in range(-1, 5) for y in range(-1, 5)] + [{"x": 1}, {"y": 1}, {}]
    fewer = simplified(PLANE, boxes)
    assert len(fewer) <= len(boxes)
    for point in points:
        assert any(each.accepts(point) for each in fewer) is any(each.accepts(point) for each in boxes)
    assert simplified(PLANE, fewer) == fewer
    shuffled = boxes * 2
    random.shuffle(shuffled)
    assert {frozenset(each.items) for each in simplified(PLANE, shuffled)} == {frozenset(each.items) for each in fewer}


def test_predicates_of_nothing_and_of_anything() -> None:
    nothing, anything = Predicate.of(PLANE, []), Predicate.of(PLANE, [Conjunction()])
    some = Predicate.of(PLANE, [box(x=(0, 5))])
    assert (nothing.is_nothing, nothing.is_anything, nothing.accepts({})) == (True, False, False)
    assert (anything.is_nothing, anything.is_anything, anything.accepts({})) == (False, True, True)
    assert some.union(nothing) == some.intersect(anything) == some
    assert some.intersect(nothing) == nothing
    assert some.union(anything) == anything


def test_the_syntax_is_not_part_of_the_meaning() -> None:
    one = Predicate.of(PLANE, [box(x=(0, 5))])
    other = Predicate.of(PLANE, [box(x=(0, 2)), box(x=(3, 5))])
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one
