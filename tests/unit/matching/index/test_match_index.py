"""MatchIndex as its users meet it: what it takes, what it gives, and what it refuses."""

from __future__ import annotations

import multiprocessing
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import contentcast as cc
from contentcast.matching import Scan
from contentcast.matching.index import Limits
from contentcast.model import EventBatch
from contentcast.workload import scenario

TRADES = cc.Space("trades", issue="string", price="float", volume="int")
EVENT = {"issue": "IBM", "price": 119.5, "volume": 5000}


@pytest.fixture(autouse=True, params=["compiled", "plain"])
def engine(request: pytest.FixtureRequest) -> str:
    """Every story is told twice: with kernels, and as an index answers until they are compiled."""
    if request.param == "plain":
        request.getfixturevalue("plain_engine")
    return str(request.param)


of_kernels = pytest.mark.parametrize("engine", ["compiled"], indirect=True)
"""A story of plans, gates or forks, which only the engine with kernels has."""


def pairs(found: pa.RecordBatch) -> list[tuple[int, int]]:
    return sorted(zip(found.column("event").to_pylist(), found.column("subscription").to_pylist(), strict=True))


def test_the_ids_of_those_who_get_the_event_ascending(index: cc.MatchIndex) -> None:
    assert index.match(EVENT) == [1, 3, 4]
    assert index.match({}) == [4]
    assert len(index) == 4
    assert list(index) == [1, 2, 3, 4]
    assert 3 in index
    assert 9 not in index


def test_one_event_is_checked_like_a_batch(index: cc.MatchIndex) -> None:
    without_texts = cc.MatchIndex(cc.Space("nested", {"detail.state": "string", "price": "float"}))
    without_texts.add(1, "`detail.state` = 'up' AND price < 5")
    assert without_texts.match({"detail": {"state": "up"}, "price": 4}) == [1]
    assert without_texts.match({"detail.state": "up", "price": None}) == []
    for event, message in (
        ({"prise": 1.0}, "did you mean 'price'"),
        ({"price": "cheap"}, "attribute price: 'cheap' is a string, not a float"),
        ({"price": float("nan")}, "NaN is not a value"),
        ([{"price": 4.0}], "one event is a dict of its attributes, not list; many go to match_batch"),
    ):
        for match in (without_texts.match, without_texts.match_ids):
            with pytest.raises(cc.EventError, match=message):
                match(event)


def test_one_event_is_matched_by_text_tests_too() -> None:
    """Answers of values are remembered, and forgotten when they are too many, whoever asked: a batch or one event."""
    space = cc.Space("notes", note="string", place="string", price="float")
    texts = [
        "note LIKE '%ab%'",
        "note NOT LIKE '%b' AND place = 'here'",
        "endswith(place, 're') OR note = 'cab'",
        "price < 5",
        "note IN ('cab', 'b') OR startswith(note, 'c') OR price > 7",
    ]
    index, oracle = cc.MatchIndex(space, limits=Limits(most_remembered=6)), Scan(space)
    for number, text in enumerate(texts):
        index.add(number, text)
        oracle.add(number, cc.parse_predicate(space, text))
    notes, places = ["cab", "b", "abba", "", "xyz", "ab", None, "c", "éab"], ["here", "there", "where", "nowhere", None]
    events = [
        {"note": note, "place": place, "price": float(at % 10)} for at, (note, place) in enumerate(product(notes, places))
    ]
    batch = EventBatch.from_dicts(space, events)
    for turn in range(3):
        assert [index.match(event) for event in events] == oracle.match_batch(batch)
        assert [index.match_ids(event).tolist() for event in events] == oracle.match_batch(batch)
        assert [sorted(each) for each in index.match_lists(batch).to_pylist()] == oracle.match_batch(batch)
        index.add(10 + turn, "note LIKE 'a%'")
        oracle.add(10 + turn, cc.parse_predicate(space, "note LIKE 'a%'"))


def test_one_event_sees_what_came_and_went_since_the_last() -> None:
    """Single events are matched through addresses of arrays; a batch in between makes new arrays known first."""
    index = cc.MatchIndex(TRADES)
    batch = pa.table({"issue": ["IBM"]})
    index.add(0, "issue = 'IBM'")
    assert index.match({"issue": "IBM"}) == [0]
    for number in range(1, 40):
        index.add(number, "issue = 'IBM'" if number % 2 else f"issue = 'IBM' AND price IN ({number}, {number + 1})")
        assert index.match_batch(batch).num_rows == (number + 1) // 2 + 1
        assert index.match({"issue": "IBM"}) == [0, *range(1, number + 1, 2)]
    index.remove(1)
    assert index.match({"issue": "IBM"}) == [0, *range(3, 40, 2)]


def test_a_removed_subscription_gets_nothing_and_its_id_is_free_again(index: cc.MatchIndex) -> None:
    index.remove(3)
    assert index.match(EVENT) == [1, 4]
    index.add(3, "volume = 5000")
    assert index.match(EVENT) == [1, 3, 4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index: index.add(1, "price < 1"), "subscription 1 is already there"),
        (lambda index: index.add_many([7, 7], ["price < 1", "price < 2"]), "subscription 7 is given twice"),
        (lambda index: index.remove_many([1, 3, 1]), "subscription 1 is to be removed twice"),
        (lambda index: index.add_many([7, 8], ["price < 1"]), "2 ids for 1 predicates"),
        (lambda index: index.add_many([7, 8], ["price < 1", "prise < 1"]), "did you mean 'price'"),
        (lambda index: index.add(-1, "price < 1"), "from 0 to 2\\^62 - 1, not -1"),
        (lambda index: index.add_many(["a"], ["price < 1"]), "the ids of this index are ints, and texts were given"),
        (lambda index: index.remove(9), "there is no subscription 9"),
        (lambda index: index.remove_many([1, 9]), "there is no subscription 9"),
        (lambda index: index.add(9, cc.parse_predicate(cc.Space("other", x="int"), "x = 1")), "other does not fit"),
    ],
)
def test_what_does_not_fit_is_named_and_changes_nothing(index: cc.MatchIndex, change: Any, message: str) -> None:
    with pytest.raises(cc.ContentcastError, match=message):
        change(index)
    assert list(index) == [1, 2, 3, 4]
    assert index.match(EVENT) == [1, 3, 4]


def test_bad_texts_can_be_left_out_and_are_reported_by_id(index: cc.MatchIndex) -> None:
    refused = index.add_many([10, 11, 12], ["price > 1", "prise > 1", "volume > 1"], on_error="reject")
    assert list(refused) == [11]
    assert "did you mean 'price'" in str(refused[11])
    assert index.match(EVENT) == [1, 3, 4, 10, 12]


def test_arrow_columns_in_every_guise(index: cc.MatchIndex) -> None:
    plain = pa.table({"issue": ["IBM", "SAP", None], "price": [119.5, None, 150.0], "volume": [5000, 1, None]})
    expected = [(0, 1), (0, 3), (0, 4), (1, 2), (2, 3), (2, 4)]
    dictionary = plain.set_column(0, "issue", plain.column("issue").dictionary_encode())
    large = plain.set_column(0, "issue", plain.column("issue").cast(pa.large_string()))
    narrow = plain.set_column(2, "volume", plain.column("volume").cast(pa.int16()))
    chunked = pa.concat_tables([plain.slice(0, 1), plain.slice(1)])
    sliced = pa.concat_tables([plain.slice(2), plain]).combine_chunks().slice(1)
    extra = plain.append_column("desk", pa.array(["x", "y", "z"])).select(["desk", "volume", "price", "issue"])
    for guise in (plain, dictionary, large, narrow, chunked, sliced, plain.to_batches()[0]):
        assert pairs(index.match_batch(guise)) == expected
    assert pairs(index.match_batch(extra, unknown="ignore")) == expected
    assert pairs(index.match_batch(plain.select(["price"]))) == [(0, 3), (0, 4), (1, 4), (2, 3), (2, 4)]
    assert pairs(index.match_batch(pa.table({"desk": ["x"]}), unknown="ignore")) == [(0, 4)]
    assert pairs(index.match_batch(plain.slice(0, 0))) == []


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (pa.table({"price": ["cheap"]}), "column price is string, and the attribute is a float"),
        (pa.table({"volume": [1.5]}), "event 0, attribute volume: 1.5 is a float, not an int"),
        (pa.table({"price": [1.0, float("nan")]}), "event 1, attribute price: NaN is not a value"),
        (cc.EventBatch.from_dicts(cc.Space("other", price="float"), [{"price": 1.0}]), "a batch of the space other"),
        ([{"price": 1.0}], "not as list"),
    ],
)
def test_events_that_do_not_fit_are_refused_by_name(index: cc.MatchIndex, events: Any, message: str) -> None:
    with pytest.raises(cc.EventError, match=message):
        index.match_batch(events)


def test_explain_names_the_test_that_fails(index: cc.MatchIndex) -> None:
    assert index.explain(EVENT) == {"matched": [1, 3, 4]}
    told = index.explain({**EVENT, "volume": 10}, 1)
    assert told["matched"] is False
    assert told["failed"] == [{"test": "volume >= 1001", "value": 10}]
    assert index.explain(EVENT, 3) == {
        "subscription": 3,
        "matched": True,
        "text": "price BETWEEN 100 AND 200",
        "predicate": "price BETWEEN 100.0 AND 200.0",
        "verdict": None,
        "failed": [],
        "alternatives": [{"tests": "price BETWEEN 100.0 AND 200.0", "failed": []}],
    }


def test_a_stream_of_batches_is_numbered_through_and_bounded() -> None:
    index = cc.MatchIndex(TRADES)
    index.add_many(range(50), ["TRUE"] * 50)
    batches = [pa.table({"price": [1.0] * 7}), pa.table({"price": [2.0] * 3})]
    pieces = list(index.match_stream(batches, most_pairs=120))
    assert max(piece.num_rows for piece in pieces) <= 120
    assert sorted(pair for piece in pieces for pair in pairs(piece)) == [(e, s) for e in range(10) for s in range(50)]


@of_kernels
def test_what_it_is_made_of_can_be_asked(index: cc.MatchIndex) -> None:
    told = index.statistics()
    assert told["subscriptions"] == 4
    assert sum(group["entries"] for group in told["groups"]) == told["entries"] >= 4


@of_kernels
def test_a_new_plan_forgets_values_that_nobody_names_any_more() -> None:
    space = cc.Space("orders", order="string", state="int", price="float")
    index = cc.MatchIndex(space)
    for begin in range(0, 40_000, 1_000):
        texts = [f"order = 'o{number}' AND price NOT IN ({number}, 5, 7)" for number in range(begin, begin + 1_000)]
        index.add_many(range(begin, begin + 1_000), texts)
        if begin >= 3_000:
            index.remove_many(range(begin - 3_000, begin - 2_000))
    assert len(index) == 3_000
    assert index.statistics()["values"]["order"] < 20_000
    assert index.match({"order": "o39999", "price": 1.0}) == [39_999]
    assert index.match({"order": "o39999", "price": 39_999.0}) == []
    assert index.match({"order": "o10", "price": 1.0}) == []


@of_kernels
def test_a_new_plan_keeps_every_subscription() -> None:
    """All forms of entries, read back by columns: equal, ranges on one side or both, sets, texts, alternatives, long ids."""
    market = scenario("market", seed=4)
    texts = market.subscriptions(2_500)["predicate"].to_pylist()
    forms = [
        "price NOT IN (1, 2) AND side = 'buy'",
        "venue LIKE '%dark%' AND volume > 100",
        "NOT contains(venue, 'open') OR symbol IS NULL",
        "price IS NOT NULL AND volume IS NULL",
        "price < 20 AND price > 10 OR exchange IN ('NYSE', 'LSE')",
        "price >= 30",
        "volume <= 700 AND symbol <> 'IBM'",
        "FALSE",
    ]
    index, grown = cc.MatchIndex(market.space), cc.MatchIndex(market.space)
    ids = [number if number % 5 else 2**35 + number for number in range(len(texts) + 40 * len(forms))]
    texts = [*texts, *(forms * 40)]
    index.add_many(ids, texts)
    order = sorted(range(len(ids)), key=lambda at: at * 7919 % len(ids))
    for begin in range(0, len(order), 60):
        some = order[begin : begin + 60]
        grown.add_many([ids[at] for at in some], [texts[at] for at in some])
    assert grown.statistics()["planned_for"] > 60
    events = market.events(300, 0)
    expected, found = index.match_lists(events).to_pylist(), grown.match_lists(events).to_pylist()
    assert [sorted(each) for each in found] == [sorted(each) for each in expected]
    assert all(grown.predicate(ids[at]) == index.predicate(ids[at]) for at in order[:200])
    grown.remove_many([ids[at] for at in order[:1_500]])
    index.remove_many([ids[at] for at in order[:1_500]])
    expected, found = index.match_lists(events).to_pylist(), grown.match_lists(events).to_pylist()
    assert [sorted(each) for each in found] == [sorted(each) for each in expected]


def _matched_in_two_threads(index: cc.MatchIndex, events: pa.RecordBatch, answer: Any) -> None:
    answer.put(index.match_batch(events, threads=2).to_pydict())


@of_kernels
def test_threads_work_after_a_fork() -> None:
    market = scenario("market", seed=2)
    index = cc.MatchIndex(market.space)
    index.add_many(range(500), market.subscriptions(500)["predicate"])
    events = market.events(400, 0)
    expected = index.match_batch(events).to_pydict()
    assert index.match_batch(events, threads=2).to_pydict() == expected
    forked = multiprocessing.get_context("fork")
    answer = forked.Queue()
    child = forked.Process(target=_matched_in_two_threads, args=(index, events, answer))
    child.start()
    try:
        assert answer.get(timeout=60) == expected
    finally:
        child.kill()


def test_lists_in_pieces_are_those_of_one_piece() -> None:
    market = scenario("market", seed=6)
    index = cc.MatchIndex(market.space)
    index.add_many(range(0, 6_000, 3), market.subscriptions(2_000)["predicate"])
    batches = [market.events(300, 0), market.events(0, 300), market.events(200, 300)]
    pieces = list(index.match_list_stream(iter(batches), most_pairs=150))
    assert len(pieces) > 5
    found = {number: ids for piece in pieces for number, ids in zip(*piece.to_pydict().values(), strict=True)}
    expected = [ids for batch in batches for ids in index.match_lists(batch).to_pylist()]
    assert found == {number: ids for number, ids in enumerate(expected) if ids}
    assert all(sum(map(len, piece["subscriptions"].to_pylist())) <= 150 for piece in pieces if len(piece) > 1)


@of_kernels
def test_more_is_found_than_is_kept_for_a_stretch_of_events() -> None:
    """Each event opens two dozen cells and matches in both halves of each."""
    names = [f"a{number}" for number in range(24)]
    space = cc.Space("wide", x="int", **dict.fromkeys(names, "int"))
    asked = [(name, value, top) for name in names for value in range(30) for top in range(20)]
    index = cc.MatchIndex(space)
    index.add_many(range(len(asked)), [f"{name} = {value} AND x BETWEEN 0 AND {top}" for name, value, top in asked])
    gates = {group["on"] for group in index.statistics()["groups"] if group["gate"] == "equal"}
    assert gates >= set(names)
    dice = np.random.default_rng(5)
    columns = {name: dice.integers(0, 30, 600) for name in names}
    found = index.match_batch(pa.table({"x": np.zeros(600, np.int64), **columns}))
    expected = [
        600 * at + value * 20 + top for event in range(600) for at, value in enumerate(columns[name][event] for name in names)
        for top in range(20)
    ]  # fmt: skip
    assert np.array_equal(np.sort(found["subscription"].to_numpy().reshape(600, 480)), np.array(expected).reshape(600, 480))
    assert np.array_equal(found["event"].to_numpy(), np.repeat(np.arange(600), 480))


def test_values_that_became_part_of_a_set_leave_the_other_attributes_alone() -> None:
    """They have codes of the attribute's dictionary, which then has more of them than its bits were made for."""
    index = cc.MatchIndex(cc.Space("two", a="int", b="int"))
    index.add_many(range(20), [f"a = {number % 2} AND b = {number % 2}" for number in range(20)])
    for number in range(2, 40):
        index.add(100 + number, f"a = {number} OR a BETWEEN 1000 AND {2000 + number}")
        assert index.match({"a": number, "b": 0}) == [100 + number]
        assert index.match_lists(pa.table({"a": [number, 1], "b": [1, 1]})).to_pylist()[0] == [100 + number]


def test_a_range_that_ends_with_the_least_ints() -> None:
    index = cc.MatchIndex(cc.Space("s", a="int"))
    index.add_many([1, 2, 3], ["a <= -9223372036854775807", "a < -9223372036854775806", "a <= -9223372036854775808"])
    least = -(2**63)
    scan = Scan(index.space)
    for number in (1, 2, 3):
        scan.add(number, index.predicate(number))
    for value in (least, least + 1, least + 2, 0):
        expected = scan.match({"a": value})
        assert index.match({"a": value}) == expected
        assert sorted(index.match_lists(pa.table({"a": [value]})).to_pylist()[0]) == expected


def test_changing_while_matches_are_read_is_refused() -> None:
    index = cc.MatchIndex(cc.Space("s", a="int", b="int"))
    index.add_many(range(600), [f"a > {number} AND b > {number}" for number in range(600)])
    pieces = index.match_stream(pa.table({"a": [50_000] * 20, "b": [50_000] * 20}), most_pairs=700)
    next(pieces)
    index.add(1_000, "a > 1")
    with pytest.raises(cc.ContentcastError, match="was changed while its matches were read"):
        next(pieces)


def test_pieces_hold_what_was_asked_for_or_one_event() -> None:
    index = cc.MatchIndex(cc.Space("s", a="int"))
    index.add_many(range(20), ["a > 0"] * 10 + ["a > 5"] * 10)
    events = pa.table({"a": [1, 9] * 50})
    for most in (1, 10, 20, 45):
        sizes = [len(piece) for piece in index.match_stream(events, most_pairs=most)]
        assert sum(sizes) == 50 * 10 + 50 * 20
        assert max(sizes) <= max(most, 20)


def test_asking_for_ids_that_cannot_be() -> None:
    index = cc.MatchIndex(cc.Space("s", a="int"))
    index.add(2**62 - 1, "a > 0")
    assert 2**62 - 1 in index
    assert [2**70 in index, -1 in index, 2**62 in index, "1" in index] == [False] * 4


DOMAINS = cc.Space(
    "domains",
    level=cc.Attribute("int", low=1, high=10),
    side=cc.Attribute("string", values=("buy", "sell")),
    share=cc.Attribute("float", low=0.0, high=1.0),
    seen="timestamp",
    name="string",
)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"level": 50}, "level"),
        ({"level": 0}, "level"),
        ({"side": "hold"}, "side"),
        ({"share": 1.5}, "share"),
        ({"share": float("nan")}, "NaN"),
        ({"seen": 300_000_000_000_000_000}, "years 1 to 9999"),
        ({"name": b"\xff\xfe"}, "UTF-8"),
    ],
)
def test_every_entrance_refuses_what_an_event_batch_refuses(event: dict[str, Any], message: str) -> None:
    """One rule for dicts, batches, lists, counts and streams, whether a subscription looks at the attribute or not."""
    (name, value), index = next(iter(event.items())), cc.MatchIndex(DOMAINS)
    index.add_many([1, 2, 3], ["level > 3", "side <> 'buy'", "share > 0.5 OR level = 50"])
    kind = DOMAINS.kinds[name]
    raw = pa.array([value], pa.int64() if name == "seen" else pa.binary() if name == "name" else kind.arrow)
    column = pa.Array.from_buffers(kind.arrow, 1, raw.buffers())
    good = pa.record_batch([pa.nulls(1, kind.arrow)], names=[name])
    bad = pa.record_batch([column], names=[name])
    with pytest.raises(cc.EventError, match=message):
        EventBatch.from_arrow(DOMAINS, bad)
    for ask in (index.match_batch, index.match_lists, index.match_counts, lambda events: list(index.match_stream(events))):
        for events in (bad, pa.Table.from_batches([bad])):
            ask(good)  # a schema that has fitted before
            with pytest.raises(cc.EventError, match=message):
                ask(events)
    if name not in ("seen", "name"):
        for ask_one in (index.match, index.match_ids):
            with pytest.raises(cc.EventError, match=message):
                ask_one(event)


def test_what_lies_in_its_domain_is_matched() -> None:
    index = cc.MatchIndex(DOMAINS)
    index.add_many([1, 2, 3], ["level > 3", "side <> 'buy'", "share > 0.5"])
    event = {"level": 10, "side": "sell", "share": 1.0}
    assert index.match(event) == index.match_ids(event).tolist() == [1, 2, 3]
    assert sorted(index.match_batch(pa.RecordBatch.from_pylist([event]))["subscription"].to_pylist()) == [1, 2, 3]
