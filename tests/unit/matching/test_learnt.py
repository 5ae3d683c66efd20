"""The chosen order and factoring take fewer steps on events to come, and no match changes; a plan is saved as it was learnt."""

from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path

import msgspec
import numpy as np
import pytest

from contentcast.language import parse_many
from contentcast.matching.learnt import AttributeFacts, FanOut, Flow, LearntError, LearntPlan, Split, ValueShare
from contentcast.matching.search_tree import SearchTree
from contentcast.matching.search_tree.choose import choose, weigh
from contentcast.model import EventBatch, Space
from contentcast.workload import scenario

SEED = 3


def tree_with(table, **options) -> SearchTree:
    tree = SearchTree(table.space, **options)
    tree.add_many(np.arange(len(table)), table)
    return tree


def drawn(name: str, subscriptions: int, events: int):
    """Subscriptions, a sample of events, and later events."""
    made = scenario(name, seed=SEED)
    table = parse_many(made.space, made.subscriptions(subscriptions)["predicate"])
    sample, later = (EventBatch.from_arrow(made.space, made.events(events, start=start)) for start in (0, 50_000))
    return table, sample, later


def test_what_is_told_about_an_attribute() -> None:
    """Four events and four conjunctions, counted by hand."""
    space = Space("trades", issue="string", price="float", volume="int")
    table = parse_many(
        space, ["issue = 'IBM' AND price < 10", "issue = 'IBM'", "issue IN ('IBM', 'SAP') AND price < 20", "TRUE"]
    )
    sample = EventBatch.from_dicts(
        space, [{"issue": "IBM", "price": 5.0}, {"issue": "SAP", "price": 15.0}, {"issue": "X", "price": 99.0}, {"volume": 1}]
    )
    facts = weigh(table, sample)
    # = 'IBM' twice passes 1 of 4 events, IN passes 2 of 4: (1/4 + 1/4 + 2/4) / 3 of those that care; and one star.
    assert facts["issue"].stars == 0.25
    assert facts["issue"].selectivity == pytest.approx(1 / 3)
    assert facts["issue"].survivors == pytest.approx((1 + 1 / 4 + 1 / 4 + 2 / 4) / 4)
    assert facts["issue"].branches == pytest.approx(1 / 4 + 2 / 4), "two different tests"
    assert facts["issue"].tests == 2
    # Codes of issue: other, IBM, SAP, absent. The star stands in all 4 sub-trees, = in one, IN in two.
    assert facts["issue"].copies == pytest.approx((4 + 1 + 1 + 2) / 4)
    assert facts["price"].selectivity == pytest.approx((1 / 4 + 2 / 4) / 2)
    assert facts["volume"] == (1.0, 0.0, 1.0, 0.0, 0, 2.0)


@pytest.mark.parametrize(("name", "gain"), [("market", 1.1), ("market-hot", 1.3), ("summaries", 3.0), ("w1", 2.0)])
def test_later_events_take_fewer_steps_and_match_the_same(name: str, gain: float) -> None:
    table, sample, later = drawn(name, 1_500, 400)
    chosen = choose(table, sample)
    before = tree_with(table).match_batch(later)
    after = tree_with(table, order=chosen.order, factored=chosen.factored).match_batch(later)
    assert before.steps.mean() > gain * after.steps.mean()
    assert np.array_equal(before.offsets, after.offsets)
    assert np.array_equal(before.ids, after.ids)


def test_the_order_is_near_the_best_of_all() -> None:
    table, sample, _ = drawn("market", 1_000, 300)
    asked = ("symbol", "exchange", "price", "volume")
    best = min(float(tree_with(table, order=each).match_batch(sample).steps.mean()) for each in permutations(asked))
    chosen = choose(table, sample, nbytes_at_most=0)
    assert chosen.factored == (), "no memory, no factoring"
    assert best <= chosen.steps <= 1.05 * best
    assert chosen.steps_before == tree_with(table).match_batch(sample).steps.mean()


def test_the_memory_bounds_the_factoring() -> None:
    table, sample, _ = drawn("w1", 2_000, 300)
    free = choose(table, sample)
    plain = tree_with(table, order=free.order).shape.nbytes
    tight = choose(table, sample, nbytes_at_most=int(1.2 * plain))
    assert len(free.factored) > len(tight.factored) > 0
    assert tree_with(table, order=tight.order, factored=tight.factored).shape.nbytes <= 1.2 * plain
    assert free.steps < tight.steps < free.steps_before


def test_nothing_to_learn_from_is_the_papers_order() -> None:
    table, sample, _ = drawn("market", 50, 10)
    fewest_stars = tuple(sorted(table.space.names, key=lambda name: weigh(table, sample)[name].stars))
    assert choose(table, sample.slice(0, 0)).order == fewest_stars
    assert [level.name for level in tree_with(table).prepared()[0].levels] == list(fewest_stars)
    nobody = choose(parse_many(table.space, []), sample)
    assert (nobody.order, nobody.factored) == (table.space.names, ())


# --- the plan


def plan_of(space: Space, **changes) -> LearntPlan:
    facts = AttributeFacts(
        stars=0.5, tests=2, selectivity=0.1, survivors=0.55, present=1.0, distinct=2, values=[], quantiles=[]
    )
    day = datetime(2026, 3, 1, tzinfo=UTC)
    attributes = {
        "issue": msgspec.structs.replace(facts, values=[ValueShare("IBM", 0.75)]),
        "at": msgspec.structs.replace(facts, values=[ValueShare(day, 1.0)], quantiles=[day, day]),
        "seal": msgspec.structs.replace(facts, distinct=None, values=[ValueShare(b"\x00\xff", 0.5)]),
    }
    told = {
        "space": space.to_dict(),
        "events": 4,
        "subscriptions": 2,
        "attributes": attributes,
        "order": ["at", "issue", "seal"],
        "factored": ["issue"],
        "steps": 2.5,
        "steps_before": 7.0,
        "matches": 1.5,
        "unwanted": 0.25,
        "idle": 0,
        "fan_out": [FanOut(0, 0.25), FanOut(2, 0.75)],
        "wanted": {"b1": 0.5, "b2": 0.0},
        "by_value": Split("at", [day], {"b1": [0.75, 0.25], "b2": [0.0, 0.0]}),
        "flows": [Flow("b2", "b1", 0.5)],
    }
    return LearntPlan(**(told | changes))


SPACE = Space("trades", issue="string", at="timestamp", seal="bytes")


def test_a_plan_is_read_back_as_it_was(tmp_path: Path) -> None:
    plan = plan_of(SPACE)
    plan.save(tmp_path / "plan.json")
    assert LearntPlan.load(tmp_path / "plan.json") == plan
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    tree = SearchTree(SPACE, **plan.tree_options())
    assert (tree.plan.order, tree.plan.factored) == (("at", "issue", "seal"), ("issue",))


def test_how_likely_an_event_is_wanted() -> None:
    plan = plan_of(SPACE)
    assert plan.chance("b1") == 0.5
    assert plan.chance("b1", {"at": datetime(2026, 3, 1, tzinfo=UTC)}) == 0.75
    assert plan.chance("b1", {"at": datetime(2027, 3, 1, tzinfo=UTC)}) == 0.25
    assert plan.chance("b1", {}) == 0.25
    assert plan.chance("b9", {}) == 1.0, "who is not known must not lose events"
    assert plan_of(SPACE, by_value=None).chance("b1", {}) == 0.5


def test_a_plan_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    with pytest.raises(LearntError, match=r"there is no plan .*; contentcast\.spark\.learn makes one"):
        LearntPlan.load(tmp_path / "plan.json")
    (tmp_path / "plan.json").write_text('{"order": 5}')
    with pytest.raises(LearntError, match="is not a learnt plan: "):
        LearntPlan.load(tmp_path / "plan.json")
    with pytest.raises(LearntError, match="learnt for the space trades, which is not this other"):
        plan_of(SPACE).check(Space("other", issue="string"))
    plan_of(SPACE).check(SPACE)
