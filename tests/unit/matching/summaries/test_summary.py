"""A summary told as stories: budgets, subscriptions that come and go, brokers that merge, versions, a space that grows."""

from __future__ import annotations

import numpy as np
import pytest

from contentcast.language import parse_many
from contentcast.matching.summaries import EXACT, PAPER, Precision, Summary
from contentcast.matching.summaries.precision import elementary
from contentcast.model import Attribute, ContentcastError, EventBatch, Space
from contentcast.model.values.keys import value_of

TRADES = Space("trades", symbol="string", price="float", volume="int", halted="bool", data="bytes", at="timestamp")


def summary_of(*texts: str, broker: str = "a", space: Space = TRADES, **options: object) -> Summary:
    made = Summary(space, **options)  # type: ignore[arg-type]
    made.add(broker, range(len(texts)), parse_many(space, list(texts)))
    return made


def matched(summary: Summary, **event: object) -> list[int]:
    return summary.match(EventBatch.from_dicts(summary.space, [event])).ids.tolist()


def row_texts(summary: Summary, name: str) -> list[str]:
    """The rows of an attribute as `describe` shows them."""
    lines = summary.describe().splitlines()[2:]
    begin = next(at for at, line in enumerate(lines) if line.startswith(name))
    end = next((at for at in range(begin + 1, len(lines)) if not lines[at].startswith(" ")), len(lines))
    return [line[len(max(summary.columns().rows, key=len)) :].strip() for line in lines[begin:end]]


# --- rows


def test_without_a_budget_ranges_are_cut_where_they_overlap() -> None:
    summary = summary_of("volume BETWEEN 1 AND 10", "volume BETWEEN 5 AND 20", "volume = 7")
    rows = summary.columns().rows["volume"]
    first, last = elementary(rows)
    assert list(zip(first.tolist(), last.tolist(), strict=True)) == [(1, 4), (5, 6), (7, 7), (8, 10), (11, 20)]
    size = summary.sizes().attributes["volume"]
    assert (size.ranges, size.values, size.ids) == (4, 1, 1 + 2 + 3 + 2 + 1)
    assert [matched(summary, volume=each) for each in (0, 1, 5, 7, 8, 11, 21)] == [[], [0], [0, 1], [0, 1, 2], [0, 1], [1], []]


def test_as_in_the_paper_ranges_that_overlap_are_one_row() -> None:
    summary = summary_of("volume BETWEEN 1 AND 10", "volume BETWEEN 5 AND 20", "volume = 7", "volume = 30", precision=PAPER)
    assert row_texts(summary, "volume") == [">= 1 AND <= 20  a:0 a:1 a:2", "= 30            a:3"]
    assert [matched(summary, volume=each) for each in (1, 20, 21, 30)] == [[0, 1, 2], [0, 1, 2], [], [3]]


def test_a_budget_joins_the_neighbours_that_let_in_least() -> None:
    """10 and 12 are 2 apart, 12 and 50 are 38: with two rows the first two share one."""
    summary = summary_of("volume = 10", "volume = 12", "volume = 50", precision=Precision(rows=2))
    assert row_texts(summary, "volume") == [">= 10 AND <= 12  a:0 a:1", "= 50             a:2"]
    assert [matched(summary, volume=each) for each in (10, 11, 13, 50)] == [[0, 1], [0, 1], [], [2]]


def test_a_row_that_many_want_is_widened_later() -> None:
    """Equal gaps: joining 20 and 30 would let in for six entries, joining 10 and 20 for two."""
    texts = ["volume = 10", "volume = 20", *["volume = 30"] * 5]
    summary = summary_of(*texts, precision=Precision(rows=2))
    assert [matched(summary, volume=each) for each in (15, 25, 30)] == [[0, 1], [], [2, 3, 4, 5, 6]]


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 8])
def test_a_budget_of_rows_is_kept(budget: int) -> None:
    random = np.random.default_rng(1)
    texts = [f"volume BETWEEN {low} AND {low + width}" for low, width in random.integers(0, 1000, (50, 2)).tolist()]
    texts += [f"symbol = '{chr(97 + each % 26)}{each}'" for each in range(40)] + ["symbol LIKE '%x'", "symbol LIKE '%y%'"]
    texts += [f"price < {each}" for each in range(20)]
    sizes = summary_of(*texts, precision=Precision(rows=budget)).sizes().attributes
    assert all(1 <= each.rows <= budget for each in sizes.values())
    assert sizes["volume"].rows == budget, "a budget that is not used would let in more than it must"


def test_a_budget_of_bytes_is_one_of_rows() -> None:
    texts = [f"volume = {each * each}" for each in range(50)]
    assert summary_of(*texts, precision=Precision(bytes=5 * 16)).sizes().rows == 5
    assert summary_of(*texts, precision=Precision(bytes=3)).sizes().rows == 1
    with pytest.raises(ContentcastError, match="a budget of 0 rows leaves no row"):
        Precision(rows=0)


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("exact", EXACT),
        ("general", PAPER),
        ("64 rows", Precision(rows=64)),
        ("256bytes", Precision(bytes=256)),
        ("general 8 rows", Precision(rows=8, general=True)),
        ("8 rows 256 bytes general", Precision(rows=8, bytes=256, general=True)),
    ],
)
def test_a_precision_as_text(text: str, precision: Precision) -> None:
    assert Precision.of(text) == precision


@pytest.mark.parametrize("text", ["", "64", "8 rows 9 rows", "exact 8 rows", "exact general", "8 lines", "-8 rows", "0 rows"])
def test_a_text_that_is_no_precision(text: str) -> None:
    with pytest.raises(ContentcastError, match=r"a precision is exact|leaves no row"):
        Precision.of(text)


def test_more_rows_never_say_yes_wrongly_more_often() -> None:
    random = np.random.default_rng(7)
    texts = [f"price BETWEEN {low} AND {low + 5}" for low in random.integers(0, 1000, 60).tolist()]
    events = EventBatch.from_dicts(TRADES, [{"price": float(each)} for each in range(0, 1000, 3)])
    found = [len(summary_of(*texts, precision=each).match(events).ids) for each in (EXACT, *map(Precision, (64, 16, 4, 1)))]
    assert found == sorted(found)
    assert found[0] < found[2] < found[-1]


def test_a_general_pattern_takes_in_what_it_covers() -> None:
    summary = summary_of(
        "symbol LIKE '%an%'", "symbol = 'banana'", "symbol LIKE '%an%d'", "symbol LIKE 'xy%'", "symbol = 'xyz'", precision=PAPER
    )
    assert row_texts(summary, "symbol") == ["LIKE 'xy%'   a:3 a:4", "LIKE '%an%'  a:0 a:1 a:2"]


def test_bool_bytes_and_timestamps_have_rows_too() -> None:
    summary = summary_of("halted", "NOT halted", "data = X'61'", "at >= TIMESTAMP '2026-03-01 12:00:00'", "halted IS NULL")
    assert matched(summary, halted=True, data=b"a") == [0, 2]
    assert matched(summary, halted=False) == [1]
    assert matched(summary) == [4]
    size = summary.sizes().attributes["halted"]
    assert (size.ranges, size.values, size.ids) == (0, 3, 3)


def test_a_float_just_below_zero_and_zero_are_neighbours() -> None:
    summary = summary_of("price < 0.0", "price >= 0.0", "price < 5.0", precision=Precision(rows=3))
    first, last = elementary(summary.columns().rows["price"])
    kind = TRADES.kinds["price"]
    assert [value_of(kind, each) for each in first.tolist()][1:] == [0.0, 5.0]
    assert value_of(kind, int(last[0])) < 0.0
    assert [matched(summary, price=each) for each in (-1.0, 0.0, 5.0)] == [[0, 2], [1, 2], [1]]


def test_widths_end_where_the_declared_domain_ends() -> None:
    """Without a domain everything above 90 is far away; within 0 to 100 it is 9 wide, and nearer to 90 than 50 is."""
    texts = ["volume = 50", "volume = 90", "volume > 91"]
    declared = Space("declared", volume=Attribute("int", low=0, high=100))
    summary = summary_of(*texts, space=declared, precision=Precision(rows=2))
    assert [matched(summary, volume=each) for each in (50, 60, 91)] == [[0], [], [1, 2]]


# --- maintenance


def test_a_row_is_narrow_again_once_its_wide_subscription_has_gone() -> None:
    summary = summary_of("symbol = 'OTE'", "symbol LIKE 'OT%'", precision=PAPER)
    assert matched(summary, symbol="OTX") == [0, 1]
    summary.remove("a", [1])
    assert matched(summary, symbol="OTX") == []
    assert matched(summary, symbol="OTE") == [0]


def test_a_changed_subscription() -> None:
    summary = summary_of("price < 5", "price > 5")
    summary.change("a", [0], parse_many(TRADES, ["volume = 1 OR price = 7"]))
    assert matched(summary, price=4.0) == []
    assert matched(summary, price=7.0) == [0, 1]
    assert matched(summary, volume=1) == [0]


def test_what_cannot_be_added_or_removed() -> None:
    summary = summary_of("price < 5")
    with pytest.raises(ContentcastError, match="subscription 0 of a is already there; use `change`"):
        summary.add("a", [0], parse_many(TRADES, ["TRUE"]))
    with pytest.raises(ContentcastError, match="a has no subscription 9 to remove"):
        summary.remove("a", [9])
    with pytest.raises(ContentcastError, match="2 ids for 1 predicates"):
        summary.add("a", [1, 2], parse_many(TRADES, ["TRUE"]))
    with pytest.raises(ContentcastError, match="stands twice"):
        summary.add("a", [1, 1], parse_many(TRADES, ["TRUE", "TRUE"]))
    with pytest.raises(ContentcastError, match="has no place for subscriptions of other"):
        summary.add("a", [1], parse_many(Space("other", x="int"), ["x = 1"]))
    copy = Summary(TRADES)
    copy.merge(summary)
    with pytest.raises(ContentcastError, match="a keeps its own summary, and this is a copy"):
        copy.add("a", [1], parse_many(TRADES, ["TRUE"]))
    with pytest.raises(ContentcastError, match="nothing is known of b; known are a"):
        summary.part("b")


def test_what_a_copy_says_is_not_touched_by_later_changes() -> None:
    summary = summary_of("price < 5")
    before = summary.part("a")
    summary.remove("a", [0])
    assert len(before) == 1
    assert len(summary.part("a")) == 0


# --- versions


def test_a_period_sends_only_what_is_new_or_gone() -> None:
    summary, follower = summary_of("price < 5", "price > 9"), Summary(TRADES)
    for delta in summary.deltas(follower.versions):
        follower.apply(delta)
    assert follower.versions == {"a": 1}
    assert summary.deltas(follower.versions) == []
    summary.add("a", [7], parse_many(TRADES, ["price < 5 AND volume = 3"]))
    summary.remove("a", [1])
    (delta,) = summary.deltas(follower.versions)
    assert (delta.since, delta.version) == (1, 3)
    assert (delta.gone.tolist(), delta.ids.tolist()) == ([1], [7])
    assert delta.rows["price"].joined_rows.tolist() == [0], "the row price < 5 is there already"
    assert not len(delta.rows["price"].ends.low)
    assert follower.apply(delta)
    assert not follower.apply(delta), "no news"
    assert follower.columns() == summary.columns()


def test_a_row_that_moves_keeps_its_entries() -> None:
    """With one row, a new subscription far away widens it; the ten entries in it are not sent again."""
    texts = [f"volume = {each}" for each in range(10)]
    summary = summary_of(*texts, precision=Precision(rows=1))
    summary.part("a")
    summary.add("a", [50], parse_many(TRADES, ["volume = 1000"]))
    change = summary.delta("a", since=1).rows["volume"]
    assert change.moved_from.tolist() == [0]
    assert change.ends.members.tolist() == [10]


def test_a_version_that_is_too_long_ago_is_told_as_a_whole() -> None:
    summary, follower = summary_of("price < 5"), Summary(TRADES)
    follower.merge(summary)
    for each in range(1, 12):
        summary.add("a", [each], parse_many(TRADES, [f"price < {each}"]))
        summary.part("a")
    (delta,) = summary.deltas(follower.versions)
    assert delta.is_whole
    assert follower.apply(delta)
    assert follower.columns() == summary.columns()


def test_a_difference_from_another_version_is_refused() -> None:
    summary = summary_of("price < 5")
    summary.part("a")
    summary.add("a", [1], parse_many(TRADES, ["price < 6"]))
    delta = summary.delta("a", since=1)
    with pytest.raises(ContentcastError, match="nothing is known of a; ask for its whole summary"):
        Summary(TRADES).apply(delta)
    other = summary_of("price < 5", first_version=-1)
    follower = Summary(TRADES)
    follower.merge(other)
    with pytest.raises(ContentcastError, match="the difference leads from version 1 of a and not from version"):
        follower.apply(delta)


def test_the_newer_summary_of_a_broker_counts() -> None:
    old, new, mine = summary_of("price < 5"), summary_of("price < 5"), Summary(TRADES)
    new.add("a", [1], parse_many(TRADES, ["price < 6"]))
    assert mine.merge(new) == ["a"]
    assert mine.merge(old) == []
    assert len(mine) == 2
    assert mine.merge(summary_of("price < 7", broker="b")) == ["b"]
    mine.forget("a")
    assert mine.brokers == ("b",)


# --- subsumption


def test_with_subsumption_what_is_covered_is_left_out_and_comes_back() -> None:
    summary = summary_of("price < 10", "price < 5", "price < 5 AND volume = 1", "volume = 1", subsumption=True)
    assert summary.part("a").ids.tolist() == [0, 3]
    summary.remove("a", [0])
    assert summary.part("a").ids.tolist() == [1, 3]
    summary.remove("a", [1, 3])
    assert summary.part("a").ids.tolist() == [2]


def test_of_equal_subscriptions_the_first_stays() -> None:
    texts = ["price IN (1, 3)", "price IN (1, 3)", "price = 3", "symbol LIKE '%a'", "symbol LIKE '%ba'", "price IS NULL"]
    assert summary_of(*texts, subsumption=True).part("a").ids.tolist() == [0, 3, 5]


def test_brokers_do_not_cover_each_other_s() -> None:
    summary = summary_of("price < 10", subsumption=True)
    summary.add("b", [0], parse_many(TRADES, ["price < 5"]))
    assert len(summary) == 2


# --- a space that grows


def test_a_space_gains_an_attribute() -> None:
    small, large = Space("things", x="int"), Space("things", x="int", y="int")
    old, new = summary_of("x = 1", broker="old", space=small), summary_of("x = 1 AND y = 2", broker="new", space=large)
    old.merge(new)
    new.merge(old)
    assert old.match_brokers(EventBatch.from_dicts(small, [{"x": 1}])).brokers.tolist() == [0, 1], "y is unknown, so maybe"
    assert new.match_brokers(EventBatch.from_dicts(large, [{"x": 1}])).brokers.tolist() == [1]
    old.grow(large)
    assert old.match_brokers(EventBatch.from_dicts(large, [{"x": 1, "y": 2}])).brokers.tolist() == [0, 1]
    assert old.match_brokers(EventBatch.from_dicts(large, [{"x": 1, "y": 3}])).brokers.tolist() == [1]
    with pytest.raises(ContentcastError, match="add new ones at the end"):
        old.grow(small)
    with pytest.raises(ContentcastError, match="let it `grow`"):
        summary_of("x = 1", space=small).add("b", [1], parse_many(large, ["y = 2"]))


def test_a_broker_that_has_an_attribute_of_another_kind_is_refused_and_changes_nothing() -> None:
    mine, theirs = summary_of("price < 5"), summary_of("price = 'x'", broker="b", space=Space("trades", price="string"))
    with pytest.raises(ContentcastError, match="b has price as a string, and here it is a float; declare it alike"):
        mine.merge(theirs)
    (delta,) = theirs.deltas({})
    with pytest.raises(ContentcastError, match="take it that this broker wants everything"):
        mine.apply(delta)
    assert mine.brokers == ("a",)
    unknown = [summary_of("y = 1", broker="c", space=Space("trades", y="int"))]
    unknown += [summary_of("y = 'z'", broker="d", space=Space("trades", y="string"))]
    mine.merge(unknown[0])
    with pytest.raises(ContentcastError, match="d has y as a string, and here it is an int"):
        mine.merge(unknown[1])
    with pytest.raises(ContentcastError, match="c has y as an int, and here it is a string"):
        mine.grow(Space("trades", {**dict(TRADES.items()), "y": "string"}))
    assert matched(mine, price=4.0) == [0, 0], "c asks for what is not known here"


# --- for people


def test_describe() -> None:
    summary = summary_of(
        "price > 8.3 AND price < 8.7 AND symbol LIKE 'OT%'", "price IS NULL", "symbol LIKE '%x' OR symbol = 'a'"
    )
    assert summary.describe() == "\n".join(
        [
            "trades: 4 entries of 1 broker (a: version 1), exact",
            "attribute  row              entries",
            "price      > 8.3 AND < 8.7  a:0",
            "           IS NULL          a:1",
            "symbol     LIKE 'OT%'       a:0",
            "           = 'a'            a:2",
            "           LIKE '%x'        a:2",
        ]
    )


def test_describe_counts_what_it_leaves_out() -> None:
    shown = summary_of(*[f"volume = {each}" for each in range(30)], *["price = 1"] * 20).describe()
    assert "... and 10 more rows" in shown
    assert "... 20 in all" in shown
