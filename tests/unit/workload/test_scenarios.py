"""What holds for every scenario: the same rows for the same seed, cut anyhow, and clear words for mistakes."""

import hashlib
import pickle
import re
from pathlib import Path

import pyarrow as pa
import pytest

from contentcast.language import parse_predicate
from contentcast.model import ContentcastError
from contentcast.model.events.event_batch import EventBatch
from contentcast.workload import SCENARIOS, contract, scenario
from contentcast.workload.catalog import ENTRIES
from contentcast.workload.parameters import limits

FAR_OUT = 3_000_000_000

# Name -> digest of the first 500 rows and of 50 far out. The same came out of NumPy 2.0 with Arrow 18, of NumPy 2.4
# with Arrow 26, and of the latter without vector instructions. They change only if a scenario is meant to change.
DIGESTS = {
    "market": ("fde1194b8977f608", "73db0a0404c85719"),
    "market-hot": ("1f4de34fd5f052a6", "b923ec10e37fa259"),
    "desks": ("b289dc34a97f37b6", "ea9b9bd61b8ecb2e"),
    "gryphon": ("d5f0edbf99965032", "aabd566dbedab1d3"),
    "w1": ("d5f0edbf99965032", "aabd566dbedab1d3"),
    "w1b": ("db7423f4b09bbc39", "631831d2ddbd2716"),
    "summaries": ("f35030175d8dbe2e", "bca149399ac4bb81"),
    "overlay": ("edbfa065cf15854b", "8b1bfe3cab0c0787"),
    "video": ("cfab93861fbc9056", "1d111ebf8c2aa3eb"),
}


def digest(*columns: pa.Array) -> str:
    """Of the values, not of Arrow's bytes; a float by the shortest text that reads back as it."""
    told = hashlib.sha256()
    for column in columns:
        told.update(repr(column.to_pylist()).encode())
    return told.hexdigest()[:16]


def rows_of(made, count: int, start: int) -> list[pa.Array]:
    batches = made.events(count, start), made.subscriptions(count, start)
    return [column for batch in batches for column in batch.columns] + [made.publishers(count, start)]


def test_every_scenario_has_its_digests():
    assert set(DIGESTS) == set(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_seed_gives_these_rows_on_every_machine(name):
    made = scenario(name, seed=7)
    assert digest(*rows_of(made, 500, 0)) == DIGESTS[name][0]
    assert digest(*rows_of(made, 50, FAR_OUT)) == DIGESTS[name][1]


@pytest.mark.parametrize("name", SCENARIOS)
def test_other_seeds_give_other_rows(name):
    one, other = scenario(name, seed=1), scenario(name, seed=2)
    assert one.events(20) != other.events(20)
    assert one.subscriptions(20) != other.subscriptions(20)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_row_does_not_depend_on_the_cut(name, monkeypatch):
    made = scenario(name, seed=7)
    monkeypatch.setattr(contract, "STRETCH_ROWS", 16)
    in_stretches = rows_of(made, 50, 0)
    monkeypatch.undo()
    assert rows_of(made, 50, 0) == in_stretches
    assert made.events(10, start=5) == made.events(15)[5:]
    assert made.subscriptions(10, start=5) == made.subscriptions(15)[5:]
    assert made.publishers(10, start=5) == made.publishers(15)[5:]


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_rows_still_have_their_columns(name):
    made = scenario(name)
    assert made.events(0).schema == made.space.arrow_schema
    assert made.events(0, start=9).num_rows == made.subscriptions(0).num_rows == len(made.publishers(0)) == 0


@pytest.mark.parametrize("name", SCENARIOS)
def test_events_are_of_the_space(name):
    made = scenario(name, seed=3)
    events = made.events(300)
    assert events.schema == made.space.arrow_schema
    assert len(EventBatch.from_arrow(made.space, events)) == 300, "refused by the declared domains"


@pytest.mark.parametrize("name", SCENARIOS)
def test_subscriptions_are_sql_over_the_space(name):
    made = scenario(name, seed=3)
    subscriptions = made.subscriptions(100, start=1_000)
    assert subscriptions.schema.names == ["subscription", "predicate", "subscriber", "broker"]
    assert subscriptions["subscription"].to_pylist() == list(range(1_000, 1_100))
    for text in subscriptions["predicate"].to_pylist():
        parse_predicate(made.space, text)


@pytest.mark.parametrize("name", SCENARIOS)
def test_everyone_hangs_on_one_known_broker(name):
    made = scenario(name, seed=3)
    subscriptions = made.subscriptions(5_000)
    places = set(zip(subscriptions["subscriber"].to_pylist(), subscriptions["broker"].to_pylist(), strict=True))
    assert len(places) == len({subscriber for subscriber, _ in places})
    assert {broker for _, broker in places} <= set(made.brokers)
    assert set(made.publishers(1_000).to_pylist()) <= set(made.brokers)
    assert len(set(made.brokers)) == len(made.brokers)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_can_be_sent_to_another_process(name):
    made = scenario(name, seed=3)
    made.events(10)
    assert pickle.loads(pickle.dumps(made)).events(10) == made.events(10)


def test_a_preset_takes_parameters_too():
    assert scenario("w1b").parameters["values"] == 30
    assert scenario("w1b", values=5).space["a30"].high == 5
    assert scenario("w1", seed=4).events(10) == scenario("gryphon", seed=4).events(10)


MISTAKES = [
    (("marked", {}), "contentcast has no scenario 'marked'; did you mean 'market'?"),
    (("zzz", {}), "contentcast has no scenario 'zzz'; it has market, market-hot, desks"),
    (("market", {"symbol": 3}), "market has no parameter 'symbol'; did you mean 'symbols'?"),
    (("overlay", {"qqq": 3}), "overlay has no parameter 'qqq'; it has selective, matching, standing"),
    (("market", {"symbols": 0}), "market: symbols lies between 1 and 6,840, got 0"),
    (("w1", {"care": 1.5}), "w1: care lies between 0 and 1, got 1.5"),
    (("w1", {"care": float("nan")}), "w1: care lies between 0 and 1, got nan"),
    (("market", {"symbols": 2.5}), "market: symbols takes an int, got 2.5"),
    (("market", {"symbols": True}), "market: symbols takes an int, got True"),
    (("market", {"zipf": "1"}), "market: zipf takes a number, got '1'"),
    (("market", {"hot": 1}), "market: hot is either True or False, got 1"),
    (("market", {"seed": -1}), "market: seed is an int from 0 to 2**64 - 1, got -1"),
    (("market", {"seed": 1.0}), "market: seed is an int from 0 to 2**64 - 1, got 1.0"),
]


@pytest.mark.parametrize(("told", "answer"), MISTAKES, ids=[answer for _, answer in MISTAKES])
def test_a_mistake_is_answered_with_the_way_out(told, answer):
    name, parameters = told
    with pytest.raises(ContentcastError, match=re.escape(answer)):
        scenario(name, **parameters)


def test_rows_are_counted_from_zero():
    with pytest.raises(ContentcastError, match="count counts rows from 0, got -1"):
        scenario("market").events(-1)
    with pytest.raises(ContentcastError, match="start counts rows from 0, got -5"):
        scenario("market").subscriptions(10, start=-5)


def test_a_column_that_arrow_cannot_hold_is_refused(monkeypatch):
    monkeypatch.setattr(contract, "COLUMN_BYTES", 10_000)
    with pytest.raises(ContentcastError, match="40 rows at once make a column of more than 2 GiB; ask for fewer"):
        scenario("video").events(40)
    assert scenario("video").events(30).num_rows == 30


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_page_tells_every_parameter(name):
    page = (Path(__file__).parents[3] / "docs" / "guide" / "workloads.md").read_text(encoding="utf-8")
    assert f"`{name}`" in page
    kind = ENTRIES[name].parameters
    for parameter, allowed in limits(kind).items():
        default = getattr(kind(), parameter)
        span = "False or True" if isinstance(default, bool) else f"{allowed.low:,} to {allowed.high:,}"
        assert f"| `{parameter}` | {default} | {span} | {allowed.meaning} |" in page
