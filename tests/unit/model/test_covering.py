"""covers and overlaps against all events: exact where no pattern is involved, on the safe side where one is.

On a declared domain all events can be listed. On an open one the cuts of both predicates stand for all values: two predicates
that treat every cut alike treat every value alike.
"""

import sys
from itertools import product
from random import Random
from time import process_time
from typing import Any

import pytest

from contentcast.language import parse_predicate, print_predicate
from contentcast.model import Attribute, Predicate, Space, covers, overlaps
from contentcast.model.predicates import covering
from contentcast.model.values.kinds import TOP

SMALL = Space(
    "small",
    {
        "x": Attribute("int", low=0, high=3),
        "s": Attribute("string", values=("a", "b", "c")),
        "b": "bool",
        "f": Attribute("float", values=(0.0, 1.0)),
    },
)
EVENTS = [
    dict(zip("xsbf", values, strict=True))
    for values in product([None, 0, 1, 2, 3], [None, "a", "b", "c"], [None, False, True], [None, 0.0, 1.0])
]
OPEN = Space("open", s="string", f="float", n="int")


class Texts:
    """Random predicates without patterns, from small pools."""

    def __init__(self, seed: int, space: Space) -> None:
        self.random, self.space = Random(seed), space

    def literal(self, name: str) -> str:
        pools = {
            "x": ["-1", "0", "1", "2", "3", "4", "1.5"],
            "s": ["'a'", "'b'", "'c'", "'d'", "''", "'a\\u0000'", "'\\U0010FFFF'"],
            "b": ["TRUE", "FALSE"],
            "f": ["0", "1", "0.5", "5e-324"],
            "n": ["0", "1", "9223372036854775807", "-9223372036854775808"],
        }
        return self.random.choice(pools[name])

    def test(self) -> str:
        name = self.random.choice(self.space.names)
        maybe = self.random.choice(["", "", "NOT "])
        shapes = [
            f"{name} {self.random.choice(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {self.literal(name)}",
            f"{name} {maybe}BETWEEN {self.literal(name)} AND {self.literal(name)}",
            f"{name} {maybe}IN ({self.literal(name)}, {self.literal(name)})",
            f"{name} IS {maybe}NULL",
        ]
        if name == "s":
            shapes.append(f"s {maybe}LIKE '{self.random.choice(['a', 'b', 'ab', ''])}%'")
        return self.random.choice(shapes)

    def text(self, depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.25:
            return self.test()
        word = self.random.choice([" AND ", " OR ", " OR "])
        text = word.join(f"({self.text(depth - 1)})" for _ in range(self.random.randint(2, 4)))
        return f"NOT ({text})" if self.random.random() < 0.15 else text

    def pair(self) -> tuple[Predicate, Predicate]:
        one, other = self.text(), self.text()
        match self.random.randrange(4):
            case 0:
                other = f"({one}) AND ({other})"
            case 1:
                one = f"({one}) OR ({other})"
        return parse_predicate(self.space, one), parse_predicate(self.space, other)


def representatives(*predicates: Predicate) -> list[dict[str, Any]]:
    space = predicates[0].space
    values: dict[str, set[Any]] = {name: {space.kinds[name].least} for name in space.names}
    for predicate in predicates:
        for conjunction in predicate.conjunctions:
            for name, constraint in conjunction.items:
                values[name] |= {cut for cut in constraint.ranges.cuts if cut is not TOP}
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*([None, *each] for each in values.values()))]


def judge(one: Predicate, other: Predicate, events: list[dict[str, Any]]) -> tuple[bool, bool, bool]:
    """Whether one covers the other, the other the one, and whether they overlap, by trying all events."""
    mine = {at for at, event in enumerate(events) if one.accepts(event)}
    theirs = {at for at, event in enumerate(events) if other.accepts(event)}
    return theirs <= mine, mine <= theirs, bool(mine & theirs)


@pytest.mark.parametrize("seed", range(4))
def test_exact_on_declared_domains(seed: int) -> None:
    texts = Texts(seed, SMALL)
    answers = set()
    for _ in range(100):
        one, other = texts.pair()
        expected = judge(one, other, EVENTS)
        assert (covers(one, other), covers(other, one), overlaps(one, other)) == expected, (
            print_predicate(one),
            print_predicate(other),
        )
        answers.add(expected)
    assert len(answers) >= 5  # both answers of all three were asked for


@pytest.mark.parametrize("seed", range(4))
def test_exact_on_open_domains(seed: int) -> None:
    texts = Texts(100 + seed, OPEN)
    for _ in range(80):
        one, other = texts.pair()
        expected = judge(one, other, representatives(one, other))
        assert (covers(one, other), covers(other, one), overlaps(one, other)) == expected, (
            print_predicate(one),
            print_predicate(other),
        )


def relation(space: Space, wide: str, narrow: str) -> tuple[bool, bool]:
    one, other = parse_predicate(space, wide), parse_predicate(space, narrow)
    assert overlaps(one, other) is overlaps(other, one)
    return covers(one, other), overlaps(one, other)


@pytest.mark.parametrize(
    ("wide", "narrow", "covering", "overlapping"),
    [
        # the parts cover together what none covers alone
        ("f < 5 OR f >= 5", "f BETWEEN 0 AND 10", True, True),
        ("f < 5 AND n > 0 OR f >= 3 AND n > 0 OR n <= 0", "f IS NOT NULL AND n IS NOT NULL", True, True),
        ("f < 5 AND n > 0 OR f >= 3 AND n > 1 OR n <= 0", "f IS NOT NULL AND n IS NOT NULL", False, True),
        ("f IS NULL OR n IS NULL OR f >= 0 OR f < 0", "TRUE", True, True),
        ("f IS NULL OR n IS NULL OR f > 0 OR f < 0", "TRUE", False, True),
        # absent is neither in nor out of a range
        ("NOT f = 5", "f IS NULL", False, False),
        ("NOT f <=> 5", "f IS NULL", True, True),
        ("f = 5 OR f <> 5", "TRUE", False, True),
        # the edges of strings and floats
        ("startswith(s, 'a')", "s >= 'a' AND s < 'b'", True, True),
        ("s < 'a\\u0000'", "s <= 'a'", True, True),
        ("s <= 'a'", "s < 'a\\u0000'", True, True),
        ("f > 0", "f >= 5e-324", True, True),
        ("n > 9223372036854775806", "n = 9223372036854775807", True, True),
        ("n >= 9223372036854775808", "n > 0", False, False),
        # patterns
        ("s LIKE '%b%'", "s LIKE 'a%b%c'", True, True),
        ("s LIKE 'a%'", "s IN ('a', 'ab')", True, True),
        ("s NOT LIKE '%b%'", "s IN ('a', 'ac')", True, True),
        ("s LIKE '_%'", "s <> ''", False, True),  # true, but nobody said that these are complements
        ("s LIKE '%b' OR s LIKE 'a%'", "s LIKE 'a%b'", True, True),
        ("s LIKE 'a%'", "s LIKE 'b%' OR s LIKE '%c'", False, True),
        ("s LIKE 'a_'", "s LIKE 'b_'", False, False),
        # nothing and anything
        ("FALSE", "FALSE", True, False),
        ("TRUE", "FALSE", True, False),
        ("FALSE", "f = 1", False, False),
        ("f = 1", "TRUE", False, True),
    ],
)
def test_relations_worked_out_by_hand(wide: str, narrow: str, covering: bool, overlapping: bool) -> None:
    assert relation(OPEN, wide, narrow) == (covering, overlapping)


def test_a_domain_decides_what_an_open_attribute_leaves_open() -> None:
    assert relation(SMALL, "x >= 0", "x IS NOT NULL") == (True, True)
    assert relation(SMALL, "x < 2 OR x > 1.5", "x IS NOT NULL") == (True, True)
    assert relation(SMALL, "s <> 'a'", "s IN ('b', 'zzz')") == (True, True)
    assert relation(SMALL, "s LIKE '_'", "s IS NOT NULL") == (True, True)
    assert relation(SMALL, "x = 9", "x = 1") == (False, False)
    assert relation(SMALL, "x = 1", "x = 9") == (True, False)  # no event has it
    assert relation(SMALL, "x IS NULL", "TRUE") == (False, True)


def test_covers_is_reflexive_and_transitive_on_random_chains() -> None:
    texts = Texts(7, OPEN)
    for _ in range(60):
        one, two, three = (parse_predicate(OPEN, texts.text(1)) for _ in range(3))
        narrow, middle = one.intersect(two).intersect(three), one.intersect(two)
        assert covers(one, one)
        assert covers(middle, narrow)
        assert covers(one, middle)
        assert covers(one, narrow)
        assert overlaps(one, narrow) is not narrow.is_nothing


def test_many_alternatives_need_no_deep_stack() -> None:
    """Each alternative cuts one piece off and passes the rest on, a thousand times."""
    count = 800
    assert count > sys.getrecursionlimit() - 500
    wide = parse_predicate(OPEN, " OR ".join(f"n = {2 * number} AND f = {number}" for number in range(count)))
    pieces = parse_predicate(OPEN, f"n BETWEEN 0 AND {2 * count} AND f >= 0")
    assert covers(wide, pieces) is False
    assert overlaps(wide, pieces)


def test_past_its_budget_covers_says_no_although_it_is_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stripes that leave one point each, which the last alternative covers; every stripe cuts two pieces."""
    stripes = " OR ".join(f"n = {number} AND f <> {number}" for number in range(20))
    wide = parse_predicate(OPEN, f"{stripes} OR n < 0 OR n >= 20 OR f >= 0")
    narrow = parse_predicate(OPEN, "n IS NOT NULL AND f IS NOT NULL")
    assert covers(wide, narrow)
    monkeypatch.setattr(covering, "MOST_PARTS", 30)
    assert not covers(wide, narrow)


def test_predicates_of_different_spaces_have_nothing_to_compare() -> None:
    one, other = parse_predicate(SMALL, "x = 1"), parse_predicate(OPEN, "n = 1")
    for compare in (covers, overlaps):
        with pytest.raises(ValueError, match="a predicate over small and one over open have nothing to compare"):
            compare(one, other)


def test_past_its_steps_covers_says_no_and_overlaps_yes() -> None:
    """Safe for routing: too much is sent on, never too little."""
    wide, narrow = parse_predicate(OPEN, "n < 9"), parse_predicate(OPEN, "n < 5 AND s = 'a'")
    assert covers(wide, narrow)
    assert not covers(wide, narrow, most_steps=3)
    apart = parse_predicate(OPEN, "n > 20")
    assert not overlaps(apart, narrow)
    assert overlaps(apart, narrow, most_steps=3)


def boxes(count: int, first: int, names: str) -> str:
    one, other = names
    return " OR ".join(
        f"({one} BETWEEN {first + 9 * at} AND {first + 9 * at + 3} AND {other} BETWEEN {3 * at} AND {3 * at + 1})"
        for at in range(count)
    )


def test_what_strangers_compare_is_answered_in_time() -> None:
    """Hundreds of alternatives on both sides, long lists, and many patterns; without a limit the first takes a second."""
    both = Space("both", a="int", b="int", c="int", s="string")
    lists = [
        " OR ".join(f"(a IN ({', '.join(str(3 * each + at) for each in range(60))}) AND b = {at})" for at in range(start, 130))
        for start in (0, 1)
    ]
    patterns = [" OR ".join(f"(s LIKE '%a{at}_b%c{end}%' AND a > {at})" for at in range(60)) for end in ("", "d")]
    for one, other in ((boxes(600, 0, "ab"), boxes(600, 5_002, "ac")), lists, patterns):
        mine, theirs = parse_predicate(both, one), parse_predicate(both, other)
        begun = process_time()
        covers(mine, theirs), covers(theirs, mine), overlaps(mine, theirs)
        assert process_time() - begun < 2.0  # 0.2 s on a quiet machine
