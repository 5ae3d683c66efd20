"""Events into a batch from plain Python, what is refused or set aside on the way, and batches taken apart and put together."""

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contentcast.model import Attribute, EventBatch, EventError, Rejection, Space
from contentcast.model.events.event_batch import concat

TRADES = Space(
    "trades",
    {
        "issue": "string",
        "price": Attribute("float", low=0.0, high=1000.0),
        "side": Attribute("string", values=("buy", "sell")),
        "detail.state": "string",
        "detail.depth": "int",
    },
)
IBM = {"issue": "IBM", "price": 119.5, "side": "buy"}
SAP = {"issue": "SAP", "price": 98.25}


def batch_of(count: int, *, first_id: int = 0) -> EventBatch:
    events = [{"price": float(number)} for number in range(count)]
    return EventBatch.from_dicts(TRADES, events, ids=range(first_id, first_id + count))


# --- events as dicts


def test_events_come_back_as_they_were_given() -> None:
    batch = EventBatch.from_dicts(TRADES, [IBM, {}, SAP])
    assert batch.to_dicts() == [IBM, {}, SAP]
    assert batch.ids.to_pylist() == [0, 1, 2]
    assert batch.records.schema == TRADES.arrow_schema
    assert (len(batch), batch.rejected) == (3, ())


def test_no_events_make_an_empty_batch_of_the_space() -> None:
    batch = EventBatch.from_dicts(TRADES, [])
    assert (len(batch), batch.records.schema) == (0, TRADES.arrow_schema)


def test_events_may_come_from_a_generator() -> None:
    assert len(EventBatch.from_dicts(TRADES, (IBM for _ in range(3)))) == 3


def test_nested_and_dotted_say_the_same() -> None:
    nested = {"detail": {"state": "up", "depth": 2}}
    dotted = {"detail.state": "up", "detail.depth": 2}
    mixed = {"detail": {"state": "up"}, "detail.depth": 2}
    assert EventBatch.from_dicts(TRADES, [nested, dotted, mixed]).to_dicts() == [dotted] * 3


@pytest.mark.parametrize("nothing", [None, {}])
def test_an_empty_object_carries_none_of_its_attributes(nothing: object) -> None:
    assert EventBatch.from_dicts(TRADES, [{"issue": "IBM", "detail": nothing}]).to_dicts() == [{"issue": "IBM"}]


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ({"prise": 5.0}, "event 0, attribute prise: trades has no attribute 'prise'; did you mean 'price'?"),
        ({"prise": None}, "attribute prise: trades has no attribute 'prise'"),
        ({"extra": {}}, "attribute extra: trades has no attribute 'extra'"),
        ({5: 5}, "attribute 5: trades has no attribute 5"),
        ({"price": {}}, "attribute price: {} is a nested object, not a float"),
        (
            {"detail": {"stale": 5}},
            "attribute detail.stale: trades has no attribute 'detail.stale'; did you mean 'detail.state'?",
        ),
        ({"detail": {"state": {"x": 1}}}, "trades has no attribute 'detail.state.x'"),
        ({"detail": {"state": "up"}, "detail.state": "up"}, "detail.state is given twice, nested and dotted"),
        ({"price": 1000.5}, "attribute price: 1000.5 is outside the domain from 0.0 to 1000.0"),
        ({"side": "hold"}, "attribute side: 'hold' is not one of 'buy', 'sell'"),
        (["price", 5.0], "event 0: ['price', 5.0] is not an object with attributes"),
        (None, "event 0: None is not an object with attributes"),
    ],
)
def test_an_event_that_is_none_of_the_space_is_refused(event: Any, says: str) -> None:
    with pytest.raises(EventError) as caught:
        EventBatch.from_dicts(TRADES, [event])
    assert says in str(caught.value)


def test_an_event_nested_without_end_is_refused_like_any_other() -> None:
    event: dict[str, Any] = {"state": "up"}
    for _ in range(100_000):
        event = {"detail": event}
    with pytest.raises(EventError, match="event 0: nested too deeply"):
        EventBatch.from_dicts(TRADES, [event])


def test_a_single_event_without_its_list_is_told_apart_from_a_list_of_events() -> None:
    with pytest.raises(EventError, match="'issue' is not an object with attributes"):
        EventBatch.from_dicts(TRADES, IBM)  # type: ignore[arg-type]


# --- set aside


def test_what_fails_is_set_aside_and_the_ids_of_the_others_stay() -> None:
    events = [IBM, {"price": "5"}, SAP, {"side": "hold"}, {}]
    batch = EventBatch.from_dicts(TRADES, events, ids=[50, 40, 30, 20, 10], on_error="reject")
    assert batch.to_dicts() == [IBM, SAP, {}]
    assert batch.ids.to_pylist() == [50, 30, 10]
    assert batch.rejected == (
        Rejection(1, "price", "5", "'5' is a string, not a float"),
        Rejection(3, "side", "hold", "'hold' is not one of 'buy', 'sell'"),
    )
    assert str(batch.rejected[0]) == "event 1, attribute price: '5' is a string, not a float"


def test_all_may_be_set_aside() -> None:
    batch = EventBatch.from_dicts(TRADES, [{"price": "5"}] * 3, on_error="reject")
    assert (len(batch), len(batch.ids), len(batch.rejected)) == (0, 0, 3)


def test_what_was_set_aside_does_not_make_two_batches_differ() -> None:
    assert EventBatch.from_dicts(TRADES, [IBM, {"price": "5"}], on_error="reject") == EventBatch.from_dicts(TRADES, [IBM])


def test_a_misspelt_option_is_not_taken_for_the_other_one() -> None:
    with pytest.raises(EventError, match="on_error is 'raise' or 'reject' or 'absent', not 'ignore'"):
        EventBatch.from_dicts(TRADES, [], on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(EventError, match="on_error is 'raise' or 'reject' or 'absent', not 'drop'"):
        EventBatch.from_arrow(TRADES, pa.table({"price": [1.0]}), on_error="drop")  # type: ignore[arg-type]


# --- ids


@pytest.mark.parametrize(
    "ids", [[7, 8], (7, 8), range(7, 9), np.array([7, 8], np.int16), pa.array([7, 8], pa.uint8()), pa.chunked_array([[7], [8]])]
)
def test_ids_of_every_integer_type(ids: Any) -> None:
    assert EventBatch.from_dicts(TRADES, [IBM, SAP], ids=ids).ids.equals(pa.array([7, 8], pa.int64()))
    assert EventBatch.from_arrow(TRADES, pa.table({"price": [1.0, 2.0]}), ids=ids).ids.equals(pa.array([7, 8], pa.int64()))


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ([7], "1 ids for 2 events"),
        ([7, 7], "event ids must differ from each other"),
        ([7, None], "none may be missing"),
        (["7", "8"], "event ids are 64-bit ints, not string"),
        ([7.0, 8.0], "event ids are 64-bit ints, not double"),
        ([True, False], "event ids are 64-bit ints, not bool"),
        ([7, 2**63], "event ids are 64-bit ints"),
        ([7, 2**70], "event ids are 64-bit ints"),
        (7, "event ids are 64-bit ints"),
    ],
)
def test_ids_that_are_none(ids: Any, says: str) -> None:
    with pytest.raises(EventError, match=says):
        EventBatch.from_dicts(TRADES, [IBM, SAP], ids=ids)


# --- parts


@pytest.mark.parametrize("rows", [[3, 1], np.array([3, 1]), pa.array([3, 1], pa.uint8()), (3, 1)])
def test_take_follows_the_rows_with_events_and_ids(rows: Any) -> None:
    taken = batch_of(5, first_id=100).take(rows)
    assert taken.to_dicts() == [{"price": 3.0}, {"price": 1.0}]
    assert taken.ids.to_pylist() == [103, 101]


@pytest.mark.parametrize("none", [[], np.array([], np.int64), pa.array([], pa.int32()), range(0)])
def test_taking_nothing_leaves_an_empty_batch(none: Any) -> None:
    assert len(batch_of(5).take(none)) == 0


@pytest.mark.parametrize("strange", [[True, False, True], np.array([True, False]), [1.0], [0, None]])
def test_take_does_not_guess_rows_from_a_mask(strange: Any) -> None:
    with pytest.raises(EventError, match="take wants row numbers"):
        batch_of(3).take(strange)


@pytest.mark.parametrize("row", [-1, 5])
def test_a_row_that_is_not_there(row: int) -> None:
    with pytest.raises(IndexError):
        batch_of(5).take([row])


def test_slices_share_what_lies_under_them_and_can_be_sliced_again() -> None:
    batch = batch_of(10, first_id=100)
    assert batch.slice(2, 3).ids.to_pylist() == [102, 103, 104]
    assert batch.slice(2, 5).slice(1, 2).to_dicts() == [{"price": 3.0}, {"price": 4.0}]
    assert batch.slice(8).ids.to_pylist() == [108, 109]
    assert len(batch.slice(99)) == 0
    assert batch.slice(2, 3).take([2, 0]).ids.to_pylist() == [104, 102]


def test_concat_keeps_order_ids_and_what_was_set_aside() -> None:
    flawed = EventBatch.from_dicts(TRADES, [IBM, {"price": "5"}], ids=[7, 8], on_error="reject")
    whole = concat([batch_of(2, first_id=1), flawed, batch_of(5, first_id=50).slice(3)])
    assert whole.ids.to_pylist() == [1, 2, 7, 53, 54]
    assert whole.to_dicts()[2] == IBM
    assert [each.event for each in whole.rejected] == [1]


def test_concat_wants_batches_of_one_space() -> None:
    other = EventBatch.from_dicts(Space("deals", price="float"), [{"price": 1.0}])
    with pytest.raises(EventError, match="batches of one space"):
        concat([batch_of(1), other])
    with pytest.raises(EventError, match="at least one"):
        concat([])


def test_a_batch_equals_one_of_the_same_space_events_and_ids() -> None:
    assert batch_of(3) == batch_of(3)
    assert batch_of(3) != batch_of(3, first_id=1)
    assert batch_of(3) != batch_of(4)
    assert batch_of(5).slice(1, 2) == EventBatch.from_dicts(TRADES, [{"price": 1.0}, {"price": 2.0}], ids=[1, 2])


def test_a_batch_survives_pickling() -> None:
    batch = EventBatch.from_dicts(TRADES, [IBM, {"price": "5"}, {}], on_error="reject")
    again = pickle.loads(pickle.dumps(batch))
    assert again == batch
    assert again.rejected == batch.rejected


# --- many events at once

EDGES = Space(
    "edges",
    {
        "text": "string",
        "side": Attribute("string", values=("buy", "sell")),
        "whole": Attribute("int", low=-3, high=10),
        "any": "int",
        "price": Attribute("float", low=0.0),
        "flag": "bool",
        "raw": "bytes",
        "at": "timestamp",
        "tags": "list of string",
    },
)
ODD: list[dict[str, Any]] = [
    {"text": 5},
    {"text": "\ud800"},
    {"text": np.str_("x")},
    {"side": "hold"},
    {"whole": 11},
    {"whole": True},
    {"whole": 3.0},
    {"any": 2**63},
    {"any": 2**63 - 1},
    {"any": np.int32(7)},
    {"price": -0.5},
    {"price": float("nan")},
    {"price": 3},
    {"price": 2**53 + 1},
    {"price": 2**60},
    {"price": False},
    {"price": None, "text": None},
    {"flag": 1},
    {"flag": True},
    {"raw": b"\xff"},
    {"raw": "x"},
    {"at": "2026-03-01T12:00:00Z"},
    {"tags": ["a", "b"]},
    {"detail": {"state": "up"}},
    {"unknown": 1},
    {1: 2},
]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_many_events_are_taken_as_each_of_them_is_taken_alone(odd: dict[str, Any]) -> None:
    """Many are made into columns at once; whatever is not plain goes the way of one event, with its answer."""
    plain: dict[str, Any] = {"text": "é", "side": "buy", "whole": -3, "price": 0.0, "flag": False, "raw": b""}
    events = [*[plain] * 50, odd, {}, *[plain] * 50]
    spaces = [EDGES, Space("plain", {name: EDGES[name] for name in EDGES.names if name not in ("at", "tags")})]
    for space in spaces:
        many = EventBatch.from_dicts(space, events, on_error="reject")
        alone = [EventBatch.from_dicts(space, [each], on_error="reject") for each in events]
        assert many.to_dicts() == [kept for each in alone for kept in each.to_dicts()]
        assert [each.reason for each in many.rejected] == [rejected.reason for each in alone for rejected in each.rejected]
        assert many.ids.to_pylist() == [at for at, each in enumerate(alone) if len(each)]
        assert {each.event for each in many.rejected} <= {50}


def test_many_plain_events_keep_the_ids_that_they_are_given() -> None:
    batch = EventBatch.from_dicts(TRADES, [IBM] * 100, ids=range(7, 107))
    assert (batch.ids.to_pylist(), batch.to_dicts()) == (list(range(7, 107)), [IBM] * 100)
