"""Worked examples of Banavar et al. 1999 (papers/1) on the search tree: figure 2, table 1, figure 4 and the slides' walk."""

from __future__ import annotations

import numpy as np
import pytest

from contentcast.language import parse_many, parse_predicate
from contentcast.matching.search_tree import SearchTree, links_of, words_of
from contentcast.matching.search_tree.annotate import alternative, parallel
from contentcast.model import Attribute, EventBatch, Space
from contentcast.workload import scenario

FIVE = Space("five", dict.fromkeys(["a1", "a2", "a3", "a4", "a5"], "int"))
ORDER = FIVE.names
PLAIN = {"eliminate_trivial_tests": False, "delay_branching": False, "share": False}


def grown(subscriptions: dict[int, str], space: Space = FIVE, **options: bool) -> SearchTree:
    tree = SearchTree(space, order=space.names, **options)
    for each, text in subscriptions.items():
        tree.add(each, parse_predicate(space, text))
    return tree


def event(*values: int, space: Space = FIVE) -> dict[str, int]:
    return dict(zip(space.names, values, strict=True))


# --- section 2: matching

RIGHTMOST = {1: "a1 = 1 AND a2 = 2 AND a3 = 3 AND a5 = 3"}


def test_the_rightmost_leaf_of_figure_2_is_a_path_of_six_nodes() -> None:
    """Figure 2: a1=1 & a2=2 & a3=3 & a5=3, with a star for a4: one node for each attribute, and the leaf."""
    tree = grown(RIGHTMOST, **PLAIN)
    assert tree.shape.nodes == 6
    assert tree.search(event(1, 2, 3, 9, 3)) == ([1], 6)
    assert tree.search(event(1, 2, 3, 9, 4)) == ([], 5)
    assert tree.search(event(1, 2, 4, 9, 3)) == ([], 3)
    assert tree.search(event(2, 2, 3, 9, 3)) == ([], 1)


def test_trivial_test_elimination_takes_the_star_level_away() -> None:
    """Section 2.1: nodes with a single child which is reached by a *-branch may be eliminated. Here the node of a4."""
    tree = grown(RIGHTMOST, **(PLAIN | {"eliminate_trivial_tests": True}))
    assert tree.shape.nodes == 5
    assert tree.search(event(1, 2, 3, 9, 3)) == ([1], 5)


def test_the_walk_follows_the_value_and_the_star() -> None:
    """Section 2, event <1, 2, 3, 1, 2>: at each node the edge of the value and that of the star, where there is one."""
    tree = grown(
        {
            1: "a1 = 1 AND a2 = 2 AND a3 = 3 AND a5 = 3",
            2: "a1 = 1 AND a2 = 2 AND a3 = 3 AND a5 = 2",
            3: "a1 = 1 AND a2 = 2 AND a3 = 3",
            4: "a2 = 2 AND a3 = 3",
            5: "a1 = 1 AND a3 = 3 AND a4 = 1",
            6: "a1 = 1 AND a3 = 3 AND a4 = 2",
            7: "a1 = 2",
        },
        **PLAIN,
    )
    # 1, 2, 3 share root, a2, a3, a4, a5 and end in a leaf for = 2 and one for the star; 4 and 5 have nodes of their own from a2
    # and from a3 on; 6 ends at the node of a4 that it shares with 5, and 7 at the root.
    assert tree.search(event(1, 2, 3, 1, 2)) == ([2, 3, 4, 5], 7 + 5 + 4)


def test_delayed_branching_applies_the_tests_below_a_star_first() -> None:
    """Section 2.1: *-branches are traversed after tests have been applied, which prunes the paths inconsistent with them."""
    subscriptions = {1: "a1 = 1 AND a2 = 2", 2: "a2 = 5", 3: "a3 = 7"}
    eager, delayed = (grown(subscriptions, delay_branching=delay) for delay in (False, True))
    # Eager: root, then the star's node of a2, and below its star the node of a3; they lead nowhere.
    assert eager.search(event(9, 9, 9, 9, 9)) == ([], 3)
    assert delayed.search(event(9, 9, 9, 9, 9)) == ([], 1)
    assert eager.search(event(9, 5, 9, 9, 9)) == ([2], 4)
    assert delayed.search(event(9, 5, 9, 9, 9)) == ([2], 2)


def test_factoring_saves_the_steps_at_the_index() -> None:
    """Section 2.1: a separate subtree for each value of the index attribute; a star is in all of them, absent included."""
    subscriptions = {1: "a1 = 1 AND a2 = 2", 2: "a2 = 2", 3: "a1 = 3 AND a2 = 4"}
    tree = SearchTree(FIVE, factored=["a1"])
    for each, text in subscriptions.items():
        tree.add(each, parse_predicate(FIVE, text))
    assert tree.search({"a1": 1, "a2": 2}) == ([1, 2], 2)  # the root of the subtree of 1, and a leaf of both
    assert tree.match({"a1": 3, "a2": 2}) == [2]
    assert tree.match({"a1": 99, "a2": 2}) == [2]
    assert tree.match({"a2": 2}) == [2]


def test_sharing_makes_the_tree_a_graph() -> None:
    """Section 2.1: after optimizations the tree may be a directed acyclic graph. Factoring puts 2 into four subtrees."""
    trees = [SearchTree(FIVE, factored=["a1"], share=share) for share in (True, False)]
    for tree in trees:
        for each, text in {1: "a1 = 1 AND a2 = 2", 2: "a2 = 2 AND a3 = 3 AND a4 = 4"}.items():
            tree.add(each, parse_predicate(FIVE, text))
    shared, separate = trees
    assert shared.search(event(7, 2, 3, 4, 0)) == separate.search(event(7, 2, 3, 4, 0)) == ([2], 4)
    assert shared.shape.nodes < separate.shape.nodes


def test_the_attribute_with_the_fewest_stars_is_the_root() -> None:
    tree = SearchTree(FIVE)
    for each, text in enumerate(["a3 = 1", "a3 = 1 AND a5 = 2", "a3 = 2 AND a1 = 1"]):
        tree.add(each, parse_predicate(FIVE, text))
    (part,) = tree.prepared()
    assert [level.name for level in part.levels] == ["a3", "a1", "a5", "a2", "a4"]


# --- section 3: link matching


def planes(trits: str) -> tuple[int, int]:
    """(yes, possible), the first link in the lowest bit."""
    return (
        sum(1 << at for at, trit in enumerate(trits) if trit == "Y"),
        sum(1 << at for at, trit in enumerate(trits) if trit in "YM"),
    )


def as_trits(words: tuple[int, int], count: int) -> str:
    yes, possible = words
    return "".join("Y" if yes >> at & 1 else "M" if possible >> at & 1 else "N" for at in range(count))


@pytest.mark.parametrize(
    ("combine", "table"),
    [
        (alternative, {"YY": "Y", "YM": "M", "YN": "M", "MY": "M", "MM": "M", "MN": "M", "NY": "M", "NM": "M", "NN": "N"}),
        (parallel, {"YY": "Y", "YM": "Y", "YN": "Y", "MY": "Y", "MM": "M", "MN": "M", "NY": "Y", "NM": "M", "NN": "N"}),
    ],
)
def test_table_1(combine: object, table: dict[str, str]) -> None:
    for (one, other), expected in table.items():
        assert as_trits(combine(*planes(one), *planes(other)), 1) == expected  # type: ignore[operator]


FIGURE_4 = {1: "a1 = 1 AND a2 = 1", 2: "a1 = 1", 3: "a1 = 3", 4: "TRUE"}
FIGURE_4_LINKS = {1: [0], 2: [1, 2], 3: [1], 4: [0, 1]}


def test_figure_4_by_the_operators() -> None:
    together = alternative(*planes("MYY"), *planes("NYN"))
    assert as_trits(together, 3) == "MYM"
    assert as_trits(parallel(*together, *planes("YYN")), 3) == "YYM"


@pytest.mark.parametrize("delay", [False, True])
def test_figure_4_in_a_tree(delay: bool) -> None:
    """Below a1 = 1 is MYY (link 0 only if also a2 = 1), below a1 = 3 NYN, below the star YYN; the node itself is YYM."""
    tree = grown(FIGURE_4, delay_branching=delay)
    annotation = tree.annotate(FIGURE_4_LINKS, 3)
    seen = {annotation.trits(node=node, count=3) for node in range(tree.prepared()[0].layout.nodes.shape[0])}
    assert annotation.trits(count=3) == "YYM"
    assert "MYY" in seen


def test_without_a_star_branch_a_yes_on_every_branch_is_a_maybe() -> None:
    """Section 3.1: an all-No branch stands for values without a branch, unless the branches exhaust the declared domain."""
    declared = Space("declared", a1=Attribute("int", low=1, high=2))
    subscriptions, links = {1: "a1 = 1", 2: "a1 = 2"}, {1: [0], 2: [0, 1]}
    open_ended = grown(subscriptions)
    assert open_ended.annotate(links, 2).trits(count=2) == "MM"
    closed = grown(subscriptions, declared)
    assert closed.annotate(links, 2).trits(count=2) == "MM"  # an event may still leave a1 out
    assert closed.annotate(links, 2, carried=["a1"]).trits(count=2) == "YM"


def test_ranges_that_overlap_and_hold_every_value_are_a_yes() -> None:
    """Not in the paper: an outcome is a code, it takes all the ranges that hold it."""
    subscriptions = {1: "a1 < 10", 2: "a1 > 5", 3: "a1 IS NULL", 4: "a1 BETWEEN 7 AND 20"}
    tree = grown(subscriptions)
    assert tree.annotate({1: [0, 2], 2: [0], 3: [0], 4: [1]}, 3).trits(count=3) == "YMM"


def test_the_mask_of_the_slides() -> None:
    """Slides, matching events: event <2, 1, 3, 2, 3> of P1 at C. The mask NMM becomes NYM at the root and ends as NYN.

    The slides' tree is a picture; this one has the root YYM that the mask's change shows, and the same end.
    """
    subscriptions = {
        1: "a2 = 1 AND a3 = 3",  # with 2: link 0 and 1 whatever a1 is
        2: "TRUE",
        3: "a1 = 1 AND a2 = 2 AND a3 = 3 AND a5 = 3",
        4: "a1 = 2 AND a2 = 1 AND a5 = 1",
    }
    links = {1: [1], 2: [0, 1], 3: [2], 4: [2]}
    tree = grown(subscriptions, delay_branching=False)
    annotation = tree.annotate(links, 3)
    assert annotation.trits(count=3) == "YYM"
    batch = EventBatch.from_dicts(FIVE, [event(2, 1, 3, 2, 3)])
    found = annotation.match_links(batch, words_of([1, 2], 3))
    assert found.of(0) == [1]
    # Link 1 is decided at the root, so only what may lead to link 2 is visited: a1 = 2, a2 = 1.
    assert found.steps[0] < tree.match_batch(batch).steps[0]


def test_the_search_ends_when_no_maybe_is_left() -> None:
    tree = grown({1: "TRUE", **{each: f"a1 = 1 AND a2 = {each}" for each in range(2, 9)}})
    annotation = tree.annotate({each: [0] for each in range(1, 9)}, 1)
    batch = EventBatch.from_dicts(FIVE, [event(1, 5, 0, 0, 0)])
    assert tree.match_batch(batch).steps.tolist() == [3]
    assert annotation.match_links(batch, words_of([0], 1)).steps.tolist() == [1]
    nothing_asked = annotation.match_links(batch, words_of([], 1))
    assert (links_of(nothing_asked.yes[0]), nothing_asked.steps.tolist()) == ([], [0])


def test_the_number_of_steps_grows_less_than_the_subscriptions() -> None:
    """Section 2: the cost of matching increases less than linearly. Ten times the subscriptions, under four times."""
    w1 = scenario("w1")
    batch = EventBatch.from_arrow(w1.space, w1.events(500))
    steps = []
    for count in (1_000, 10_000):
        tree = SearchTree(w1.space, factored=w1.space.names[:3])
        tree.add_many(np.arange(count), parse_many(w1.space, w1.subscriptions(count)["predicate"]))
        steps.append(tree.match_batch(batch).steps.mean())
    assert steps[1] < 4 * steps[0]
    # Chart 3 has about 250 steps for 10,000 subscriptions with three attributes factored.
    assert steps[1] < 250
