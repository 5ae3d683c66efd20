"""Ids of one's own: texts, replaced subscriptions, ids that come twice, and which of 5,000 texts was wrong."""

import numpy as np
import pyarrow as pa
import pytest

import contentcast as cc
from contentcast.matching.id_names import IdNames
from contentcast.spark.subscriptions.tables import check_table

TRADES = cc.Space("trades", issue="string", price="float")
EVENT = {"issue": "IBM", "price": 5.0}


@pytest.fixture
def index() -> cc.MatchIndex:
    index = cc.MatchIndex(TRADES)
    index.add("desk-7", "price < 10")
    index.add_many(["desk-9", "desk-8"], ["issue = 'IBM'", "price > 10"])
    return index


def test_ids_may_be_texts(index: cc.MatchIndex, tmp_path) -> None:
    assert (
        index.match(EVENT)
        == ["desk-7", "desk-9"]
        == index.match_ids(EVENT).tolist()
        == index.match_json('{"issue": "IBM", "price": 5}')
    )
    assert list(index) == ["desk-7", "desk-8", "desk-9"]
    assert "desk-8" in index
    assert 1 not in index
    table = pa.table({"price": [5.0, 50.0, None], "issue": [None, "IBM", "IBM"]})
    expected = {(0, "desk-7"), (1, "desk-8"), (1, "desk-9"), (2, "desk-9")}
    for threads in (1, 2):
        found = index.match_batch(pa.concat_tables([table] * 4), threads=threads)
        assert found.schema.field("subscription").type == pa.string()
        assert {(event % 3, id) for event, id in zip(*found.to_pydict().values(), strict=True)} == expected
    assert set(zip(*next(index.match_stream(table)).to_pydict().values(), strict=True)) == expected
    assert [sorted(each) for each in index.match_lists(table).to_pylist()] == [["desk-7"], ["desk-8", "desk-9"], ["desk-9"]]
    assert next(index.match_list_stream(table)).to_pydict()["subscriptions"][2] == ["desk-9"]
    assert index.match_counts(table).to_pylist() == [1, 2, 1]
    index.save(tmp_path / "desks")
    again = cc.MatchIndex.load(tmp_path / "desks")
    assert again.match(EVENT) == ["desk-7", "desk-9"]
    again.remove("desk-7")
    again.add("desk-1", "price < 6")
    assert again.match(EVENT) == ["desk-1", "desk-9"]
    assert index.match(EVENT) == ["desk-7", "desk-9"]


def test_texts_and_ints_do_not_mix_and_what_is_wrong_is_named(index: cc.MatchIndex) -> None:
    with pytest.raises(cc.ContentcastError, match="the ids of this index are texts, and ints were given"):
        index.add(5, "price < 1")
    with pytest.raises(cc.ContentcastError, match="subscription 'desk-7' is already there; remove it first"):
        index.add("desk-7", "price < 1")
    with pytest.raises(cc.ContentcastError, match="subscription 'new' is given twice"):
        index.add_many(["new", "new"], ["price < 1"] * 2)
    with pytest.raises(cc.ContentcastError, match="there is no subscription 'desk-1'"):
        index.remove_many(["desk-7", "desk-1"])
    with pytest.raises(cc.ContentcastError, match="there is no subscription 7"):
        index.predicate(7)
    with pytest.raises(cc.ContentcastError, match="all ints or all texts"):
        index.add_many(["a", 5], ["price < 1"] * 2)
    with pytest.raises(cc.ContentcastError, match="all ints or all texts"):
        index.add_many([5, "a"], ["price < 1"] * 2)
    assert index.match(EVENT) == ["desk-7", "desk-9"]
    index.remove_many(["desk-7", "desk-8", "desk-9"])
    index.add_many(np.array([3, 4]), ["price < 9", "price < 1"])
    assert index.match(EVENT) == [3]
    with pytest.raises(cc.ContentcastError, match="the ids of this index are ints, and texts were given"):
        index.add("desk-7", "price < 10")


def test_numbers_of_ids_that_went_are_used_again(index: cc.MatchIndex) -> None:
    for turn in range(200):
        index.add(f"turn-{turn}", f"price < {turn}")
        assert (f"turn-{turn}" in index.match(EVENT)) == (turn > 5)
        index.remove(f"turn-{turn}")
    assert index.match(EVENT) == ["desk-7", "desk-9"]


def test_as_many_numbers_are_used_as_there_were_texts_at_a_time() -> None:
    names, used = IdNames({}), set()
    for turn in range(200):
        given = [f"turn-{turn}", f"turn-{turn}-too"]
        numbers = names.reserved(given)
        names.keep(given, numbers)
        assert names.of(numbers).tolist() == given
        used.update(numbers.tolist())
        names.forget(numbers)
    assert used == {0, 1}


@pytest.mark.parametrize("id", [7, "desk-7"])
def test_a_subscription_is_replaced_or_stays(id: int | str) -> None:
    index = cc.MatchIndex(TRADES)
    index.add(id, "price < 10")
    index.replace(id, "price < 3")
    assert index.match(EVENT) == []
    assert index.explain(EVENT, id)["text"] == "price < 3"
    with pytest.raises(cc.PredicateError, match="did you mean 'price'"):
        index.replace(id, "prise < 10")
    assert str(index.explain(EVENT, id)["predicate"]) == "price < 3.0"
    index.replace(id, "price < 10")
    assert index.match(EVENT) == [id]
    with pytest.raises(cc.ContentcastError, match="there is no subscription"):
        index.replace("nobody" if id == "desk-7" else 8, "price < 10")


@pytest.mark.parametrize("ids", [[1, 2, 1, 3, 2], ["a", "b", "a", "c", "b"]])
def test_an_id_that_comes_twice_keeps_the_first_and_reports_the_second(ids: list) -> None:
    index = cc.MatchIndex(TRADES)
    index.add(ids[3], "price < 9")
    texts = ["price < 6", "price < 7", "price > 6", "price > 9", "prise"]
    refused = index.add_many(ids, texts, on_error="reject")
    assert index.match(EVENT) == sorted(set(ids))
    assert {id: str(error).splitlines()[0] for id, error in refused.items()} == {
        ids[0]: f"subscription {ids[0]} is given twice; the first stays",
        ids[3]: f"subscription {ids[3]} is already there; the first stays",
        ids[1]: "line 1, column 1: trades has no attribute 'prise'; did you mean 'price'?",
    }
    with pytest.raises(cc.ContentcastError, match=r"is given twice|is already there"):
        index.add_many(ids, ["price < 6"] * 5)


def test_strict_adding_says_which_of_5000_was_wrong() -> None:
    index = cc.MatchIndex(TRADES)
    texts = [f"price < {number} AND issue = 'I{number}'" for number in range(5000)]
    texts[4711] = "price < 5 AND isue = 'IBM'"
    texts[4999] = "price <"
    with pytest.raises(cc.PredicateError) as caught:
        index.add_many([f"rule-{number}" for number in range(5000)], texts)
    assert str(caught.value) == (
        "predicate 4,711 of 5,000, subscription rule-4711 (1 more cannot be read either): "
        "line 1, column 15: trades has no attribute 'isue'; did you mean 'issue'?\n"
        "    price < 5 AND isue = 'IBM'\n"
        "                  ^"
    )
    assert len(index) == 0


def test_a_table_that_was_parsed_leaves_out_what_it_refused() -> None:
    table = cc.parse_many(TRADES, ["price < 9", "prise < 9"], on_error="reject")
    index = cc.MatchIndex(TRADES)
    assert list(index.add_many([1, 2], table)) == [2]
    assert index.match(EVENT) == [1]


# --- explain


def test_an_explanation_groups_by_alternative_and_shows_both_texts() -> None:
    index = cc.MatchIndex(TRADES)
    index.add("r", "NOT (price >= 3) OR issue = 'SAP' AND price > 1")
    told = index.explain(EVENT, "r")
    assert told["text"] == "NOT (price >= 3) OR issue = 'SAP' AND price > 1"
    assert told["matched"] is False
    assert told["verdict"] is None
    assert [each["failed"] for each in told["alternatives"]] == [
        [{"test": "issue = 'SAP'", "value": "IBM"}],
        [{"test": "price < 3.0", "value": 5.0}],
    ]
    assert len(told["failed"]) == 2


def test_a_contradiction_can_never_match() -> None:
    index = cc.MatchIndex(TRADES)
    index.add_many([1, 2], ["price < 3 AND price > 5", "price < 3 OR TRUE"])
    assert index.explain(EVENT, 1)["verdict"] == "can never match: its tests contradict each other"
    assert index.explain(EVENT, 1)["alternatives"] == []
    assert index.explain(EVENT, 2)["verdict"] == "matches every event"


# --- a table of them


def test_a_table_keeps_the_first_of_an_id_and_all_columns_of_what_is_refused() -> None:
    table = pa.table({"subscription": ["a", None, "b", "a"], "predicate": ["x", "y", None, "z"], "owner": ["A", "B", "C", "D"]})
    checked = check_table(table)
    assert checked.columns.to_pydict() == {"subscription": ["a", "b"], "owner": ["A", "C"]}
    refused = checked.refuse({1: cc.ContentcastError("no text")})
    assert refused.to_pydict() == {
        "subscription": [None, "a", "b"],
        "predicate": ["y", "z", None],
        "reason": [
            "the subscription has no id (null)",
            "subscription a is given already; the first is kept",
            "the predicate is null; TRUE asks for every event",
        ],
        "owner": ["B", "D", "C"],
    }
