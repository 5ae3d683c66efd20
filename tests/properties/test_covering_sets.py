"""Cover sets agree with `covers` asked of every pair, for whatever predicates Hypothesis can think of."""

from __future__ import annotations

from random import Random

from hypothesis import given, note, settings
from hypothesis import strategies as st

from contentcast.language import parse_predicate
from contentcast.matching.covering import CoverSet, Shelf, boxes_of, uncovered
from contentcast.matching.covering.boxes import text_key
from contentcast.model import ContentcastError, Predicate, Space
from contentcast.model.predicates.covering import covers
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.values.keys import KEYED, key_of
from tests.properties.generate import Generator


def predicates(generate: Generator, space: Space, count: int) -> list[Predicate]:
    found: list[Predicate] = []
    while len(found) < count:
        try:
            found.append(parse_predicate(space, generate.text(space, depth=generate.random.choice([0, 1, 1, 2]))))
        except ContentcastError:
            continue
    return found


@given(st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_who_covers_and_who_is_covered(random: Random) -> None:
    generate = Generator(random)
    limited = random.random() < 0.5
    space = generate.space(domains=limited)
    asked = predicates(generate, space, random.randint(2, 12))
    shelf = Shelf(space)
    half = len(asked) // 2
    shelf.add(PredicateTable.of(space, asked[:half]))
    shelf.add(PredicateTable.of(space, asked[half:]))
    cover_set = CoverSet(shelf)
    inside = [row for row in range(len(asked)) if random.random() < 0.8]
    for row in inside:
        cover_set.add(row)
    for row in [row for row in inside if random.random() < 0.2]:
        cover_set.discard(row)
        inside.remove(row)
    assert cover_set.rows().tolist() == inside
    for row in range(len(asked)):
        note(f"{asked[row]}")
        if shelf.nothing[row]:
            continue
        wide = {each for each in inside if each != row and covers(asked[each], asked[row])}
        narrow = {each for each in inside if each != row and not shelf.nothing[each] and covers(asked[row], asked[each])}
        found = cover_set.coverer(row)
        assert found is None or found in wide
        beneath = {each for each in cover_set.covered(row) if not shelf.nothing[each]}
        assert beneath <= narrow
        if not limited:  # a domain with gaps covers more than the boxes can see
            assert (found is None) == (not wide), [asked[each] for each in wide]
            assert beneath == narrow


@given(st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_a_box_leaves_out_no_event_that_matches(random: Random) -> None:
    generate = Generator(random)
    space = generate.space(domains=random.random() < 0.5)
    asked = predicates(generate, space, 5)
    boxes = boxes_of(PredicateTable.of(space, asked))
    for _ in range(20):
        event = generate.event(space)
        for row, predicate in enumerate(asked):
            if not predicate.accepts(event):
                continue
            assert not boxes.nothing[row]
            for at, name in enumerate(space.names):
                value = event.get(name)
                if value is None:
                    assert boxes.absent[row, at]
                elif space.kinds[name].element is None:  # a box says of lists only whether they are there
                    kind = space.kinds[name]
                    key = key_of(kind, value) if kind.name in KEYED else text_key(value)
                    assert boxes.low[row, at] <= key <= boxes.high[row, at]


@given(st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_what_is_left_covers_everything(random: Random) -> None:
    generate = Generator(random)
    space = generate.space()
    asked = predicates(generate, space, random.randint(1, 15))
    shelf = Shelf(space)
    kept = uncovered(shelf, shelf.add(PredicateTable.of(space, asked)))
    for row, predicate in enumerate(asked):
        assert shelf.nothing[row] or any(covers(asked[each], predicate) for each in kept)
    for one in kept:
        assert not any(covers(asked[other], asked[one]) for other in kept if other != one)


def test_strings_that_begin_alike_or_end_in_zero_bytes_are_told_apart() -> None:
    """Their keys are equal, or next to each other: only the strings themselves decide."""
    space = Space("words", word="string", data="bytes")
    texts = ["a", "a\0", "a\0\0", "abcdefgh", "abcdefghi", "abcdefghij", "abcdefg", "abcdefg\0", ""]
    asked = [parse_predicate(space, f"word = '{text}'") for text in texts]
    asked += [parse_predicate(space, f"word LIKE '{text}%'") for text in texts]
    asked += [parse_predicate(space, f"word < '{text}'") for text in texts if text]
    shelf = Shelf(space)
    shelf.add(PredicateTable.of(space, asked))
    for wide in range(len(asked)):
        alone = CoverSet(shelf)
        alone.add(wide)
        for narrow in range(len(asked)):
            if wide != narrow:
                assert (alone.coverer(narrow) == wide) == covers(asked[wide], asked[narrow]), (asked[wide], asked[narrow])
