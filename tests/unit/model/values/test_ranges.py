"""Sets of values as intervals, against plain Python sets.

A set is decided by its cuts: two unions of half-open intervals differ, meet or lie within each other exactly if they do so on
the cuts of both. So a handful of cuts, all sets that can be built of them, and membership one by one settle every operation.
"""

import math
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise, product
from typing import Any

import pytest

from contentcast.model import Ranges
from contentcast.model.values.kinds import BOOL, BYTES, FLOAT, INT, KINDS, STRING, TIMESTAMP, TOP, Kind
from contentcast.model.values.ranges import after_prefix, before, prefix_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
US = timedelta(microseconds=1)
CUTS: dict[str, list[Any]] = {
    "string": ["", "\0", "a", "a\0", "\ue000", "\U0010ffff"],
    "int": [-(2**63), -1, 0, 1, 5, 2**63 - 1],
    "float": [-math.inf, -5e-324, 0.0, 5e-324, math.nextafter(1, math.inf), math.inf],
    "bool": [False, True],
    "timestamp": [datetime.min.replace(tzinfo=UTC), NOON, NOON + US, NOON + 2 * US, datetime.max.replace(tzinfo=UTC)],
    "bytes": [b"", b"\0", b"a", b"a\0", b"\xff", b"\xff\xff"],
}


def all_sets(kind: Kind) -> list[Ranges]:
    cuts = [*CUTS[kind.name], TOP]
    return [Ranges(kind, chosen) for size in range(0, len(cuts) + 1, 2) for chosen in combinations(cuts, size)]


def members(ranges: Ranges) -> frozenset[Any]:
    """Those of the cuts that lie in the set, by its definition: from a cut of even place up to the next."""
    return frozenset(
        value
        for value in CUTS[ranges.kind.name]
        if any(low <= value < high for low, high in zip(ranges.cuts[::2], ranges.cuts[1::2], strict=True))
    )


def all_pairs(kind: Kind) -> Iterator[tuple[Ranges, frozenset[Any], Ranges, frozenset[Any]]]:
    sets = [(each, members(each)) for each in all_sets(kind)]
    return ((one, mine, other, theirs) for (one, mine), (other, theirs) in product(sets, sets))


ORDERED = [each for each in KINDS.values() if each.element is None]  # lists have no order
kinds = pytest.mark.parametrize("kind", ORDERED, ids=[each.name for each in ORDERED])


@kinds
def test_membership_complement_and_equality(kind: Kind) -> None:
    universe = members(Ranges.everything(kind))
    sets = all_sets(kind)
    for each in sets:
        assert frozenset(value for value in CUTS[kind.name] if value in each) == members(each)
        assert members(each.complement()) == universe - members(each)
        assert each.complement().complement() == each
        assert bool(each) is bool(members(each))
        assert each.is_everything is (members(each) == universe)
        assert pickle.loads(pickle.dumps(each)) == each
    assert len({each for each in sets}) == len({members(each) for each in sets}) == len(sets)


@kinds
def test_intersection_union_inclusion_and_disjointness(kind: Kind) -> None:
    for one, mine, other, theirs in all_pairs(kind):
        assert members(one & other) == mine & theirs
        assert members(one | other) == mine | theirs
        assert (one <= other) is (mine <= theirs)
        assert one.isdisjoint(other) is mine.isdisjoint(theirs)


@kinds
def test_every_result_is_canonical(kind: Kind) -> None:
    """Cuts ascend strictly, so that equal sets are equal tuples."""
    known = set(all_sets(kind))
    for one, _, other, _ in all_pairs(kind):
        assert one & other in known
        assert one | other in known


@kinds
def test_a_union_of_many_is_the_union_one_by_one(kind: Kind) -> None:
    sets = all_sets(kind)
    for chosen in combinations(sets[:: max(1, len(sets) // 12)], 3):
        assert Ranges.union_all(kind, chosen) == (chosen[0] | chosen[1]) | chosen[2]
    assert Ranges.union_all(kind, []) == Ranges.nothing(kind)


@kinds
def test_intervals_with_open_and_closed_ends_say_the_same_set(kind: Kind) -> None:
    for each in all_sets(kind):
        again = Ranges.nothing(kind)
        for low, low_closed, high, high_closed in each.intervals():
            again = again | Ranges.between(kind, low, high, low_closed=low_closed, high_closed=high_closed)
            assert low not in (math.inf, -math.inf)  # what no literal can say
            assert high not in (math.inf, -math.inf)
        assert again == each


@kinds
def test_between_with_every_kind_of_end(kind: Kind) -> None:
    values = CUTS[kind.name]
    for low, high in product([None, *values], repeat=2):
        for low_closed, high_closed in product([True, False], repeat=2):
            found = Ranges.between(kind, low, high, low_closed=low_closed, high_closed=high_closed)
            assert members(found) == {
                value
                for value in values
                if (low is None or value > low or (low_closed and value == low))
                and (high is None or value < high or (high_closed and value == high))
            }


@kinds
def test_points_and_their_values(kind: Kind) -> None:
    for size in range(len(CUTS[kind.name]) + 1):
        for chosen in combinations(CUTS[kind.name], size):
            found = Ranges.points(kind, reversed(chosen))
            assert members(found) == set(chosen)
            assert found == Ranges.points(kind, chosen * 2)
            apart = all(kind.successor(one) != other for one, other in pairwise(chosen))
            if apart or kind in (INT, BOOL, TIMESTAMP):  # elsewhere neighbours are an interval like any other
                assert found.values(most=size) == chosen
            if size > 1:
                assert found.values(most=size - 1) is None


def test_values_are_never_listed_where_they_lie_dense() -> None:
    assert Ranges.between(FLOAT, 0.0, 1.0).values() is None
    assert Ranges.between(STRING, "a", "b").values() is None
    assert Ranges.between(INT, 0, 3).values() == (0, 1, 2, 3)
    assert Ranges.between(INT, 0, 63).values() == tuple(range(64))
    assert Ranges.between(INT, 0, 64).values() is None
    assert Ranges.between(TIMESTAMP, NOON, NOON + US).values() == (NOON, NOON + US)
    assert Ranges.everything(BOOL).values() == (False, True)
    assert Ranges.everything(INT).values() is None


# --- strings and their order


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("OT", "OU"),
        ("", TOP),
        ("\U0010ffff", TOP),
        ("\U0010ffff\U0010ffff", TOP),
        ("a\U0010ffff", "b"),
        ("a\ud7ff", "a\ue000"),  # the surrogates lie between, and are no characters
        ("\uffff", "\U00010000"),
        ("a\0", "a\x01"),
    ],
)
def test_the_strings_of_a_prefix_are_one_interval(prefix: str, end: Any) -> None:
    ranges = Ranges.prefix(prefix)
    assert after_prefix(prefix) == end
    inside = [prefix, prefix + "\0", prefix + "z", prefix + "\U0010ffff" * 3]
    assert all(text in ranges for text in inside)
    outside = [
        text for text in ("", "a", "b", "OS\U0010ffff", "OU", "\ue000", "\ud7ff", prefix[:-1]) if not text.startswith(prefix)
    ]
    assert not any(text in ranges for text in outside)
    if prefix and not prefix.endswith(("\0", "\U0010ffff")):
        assert prefix_of(*ranges.cuts) == prefix


def test_an_interval_that_is_no_prefix_is_told_apart() -> None:
    assert prefix_of("a", "c") is None
    assert prefix_of("a", "a\0") is None
    assert prefix_of("", TOP) is None


def test_strings_sort_by_code_point_past_the_surrogates() -> None:
    ascending = ["", "\0", "a", "a\0", "aa", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"]
    assert ascending == sorted(ascending, key=lambda text: text.encode())  # as Arrow and Spark sort: by UTF-8
    for low, high in combinations(ascending, 2):
        assert low in Ranges.between(STRING, high=high, high_closed=False)
        assert high not in Ranges.between(STRING, high=low)


@pytest.mark.parametrize(
    ("kind", "value", "earlier"),
    [
        (STRING, "a\0", "a"),
        (STRING, "b", None),
        (STRING, "", None),
        (BYTES, b"\0", b""),
        (BYTES, b"a", None),
        (INT, 5, 4),
        (INT, -(2**63), None),
        (FLOAT, 5e-324, 0.0),
        (FLOAT, -math.inf, None),
        (BOOL, True, False),
        (BOOL, False, None),
        (TIMESTAMP, NOON, NOON - US),
    ],
)
def test_the_value_right_before(kind: Kind, value: Any, earlier: Any) -> None:
    assert before(kind, value) == earlier
    if earlier is not None:
        assert kind.successor(earlier) == value


def test_both_zeros_are_one_point() -> None:
    assert Ranges.points(FLOAT, [-0.0]) == Ranges.points(FLOAT, [0.0])
    assert hash(Ranges.points(FLOAT, [-0.0])) == hash(Ranges.points(FLOAT, [0.0]))
    assert -0.0 in Ranges.between(FLOAT, 0.0, 0.0)
    assert -0.0 not in Ranges.between(FLOAT, high=0.0, high_closed=False)


def test_neighbours_are_one_interval_only_where_nothing_lies_between() -> None:
    assert Ranges.points(INT, [1, 2]).cuts == (1, 3)
    assert Ranges.points(STRING, ["a", "b"]).cuts == ("a", "a\0", "b", "b\0")
    assert Ranges.points(STRING, ["a", "a\0"]).cuts == ("a", "a\0\0")
    assert Ranges.points(FLOAT, [0.0, 5e-324]).cuts == (0.0, 1e-323)


def test_top_is_above_all_and_one_object_also_after_pickling() -> None:
    assert pickle.loads(pickle.dumps(TOP)) is TOP
    for value in (2**63 - 1, math.inf, "\U0010ffff", b"\xff", True, datetime.max.replace(tzinfo=UTC)):
        assert [value < TOP, value <= TOP, value > TOP, value >= TOP] == [True, True, False, False]
        assert [TOP.__lt__(value), TOP.__le__(value), TOP.__gt__(value), TOP.__ge__(value)] == [False, False, True, True]
    assert [TOP.__lt__(TOP), TOP.__le__(TOP), TOP.__gt__(TOP), TOP.__ge__(TOP)] == [False, True, False, True]
    assert repr(TOP) == "TOP"
