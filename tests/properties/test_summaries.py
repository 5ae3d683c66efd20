"""A summary never says no wrongly, and changed, merged, sent or patched it equals one that is built from scratch."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contentcast.language import parse_many, parse_predicate
from contentcast.matching import Scan
from contentcast.matching.summaries import EXACT, PAPER, Columns, Delta, Precision, Summary, difference, examine, patch
from contentcast.model import ContentcastError, EventBatch, Space
from contentcast.wire.fields import Reader, WireError
from contentcast.wire.summaries import decode_delta, decode_summary, encode_delta, encode_summary
from contentcast.workload import SCENARIOS, scenario
from tests.case_files import Case, cases
from tests.properties.generate import Generator

seeds = st.randoms(use_true_random=False)
MANY = settings.default.max_examples if settings.default else 100
PRECISIONS = [EXACT, PAPER, Precision(rows=1), Precision(rows=3), Precision(rows=4, general=True), Precision(bytes=20)]
BROKERS = ["a", "b", "c"]


def pairs(summary: Summary, batch: EventBatch) -> set[tuple[int, str, int]]:
    found = summary.match(batch)
    listed = list(zip(found.events.tolist(), (found.names[each] for each in found.brokers), found.ids.tolist(), strict=True))
    assert listed == sorted(set(listed)), "by event, broker and id, each once"
    return set(listed)


class World:
    """Some brokers with subscriptions of a random space, and the oracle of each."""

    def __init__(self, random: Random, space: Space | None = None) -> None:
        self.random, self.generate = random, Generator(random)
        self.space = space or self.generate.space(domains=self.generate.chance(0.4))
        self.texts: dict[str, dict[int, str]] = {broker: {} for broker in BROKERS}

    def subscribe(self, broker: str, count: int, depth: int = 2) -> dict[int, str]:
        unused = [each for each in range(-5, 60) if each not in self.texts[broker]]
        chosen = self.random.sample(unused, count)
        new = {each: self.generate.text(self.space, depth) for each in chosen}
        self.texts[broker] |= new
        return new

    def add(self, summary: Summary, broker: str, count: int) -> None:
        new = self.subscribe(broker, count)
        summary.add(broker, list(new), parse_many(self.space, list(new.values())))

    def events(self, count: int = 8) -> EventBatch:
        return EventBatch.from_dicts(self.space, [self.generate.event(self.space) for _ in range(count)])

    def expected(self, batch: EventBatch) -> set[tuple[int, str, int]]:
        found = set()
        for broker, texts in self.texts.items():
            oracle = Scan(self.space)
            for each, text in texts.items():
                oracle.add(each, parse_predicate(self.space, text))
            found |= {(event, broker, each) for event, ids in enumerate(oracle.match_batch(batch)) for each in ids}
        return found

    def scratch(self, precision: Precision, subsumption: bool = False) -> Summary:
        made = Summary(self.space, precision=precision, subsumption=subsumption)
        for broker, texts in self.texts.items():
            made.add(broker, list(texts), parse_many(self.space, list(texts.values())))
        return made


@given(seeds)
@settings(max_examples=2 * MANY)
def test_without_a_budget_it_agrees_with_the_oracle_on_one_attribute(random: Random) -> None:
    """On a space of one attribute "no row says yes wrongly for its attribute" means: it is the oracle, OR included."""
    generate = Generator(random)
    kind = random.choice(["string", "int", "float", "bool", "timestamp", "bytes"])
    world = World(random, Space("one", x=kind))
    summary = Summary(world.space)
    for broker in BROKERS:
        world.add(summary, broker, random.randint(0, 12))
    batch = EventBatch.from_dicts(world.space, [generate.event(world.space) for _ in range(15)])
    assert pairs(summary, batch) == world.expected(batch)


@given(seeds, st.sampled_from(PRECISIONS))
@settings(max_examples=3 * MANY)
def test_it_never_says_no_wrongly(random: Random, precision: Precision) -> None:
    world = World(random)
    summary = Summary(world.space, precision=precision)
    for broker in BROKERS:
        world.add(summary, broker, random.randint(0, 10))
    batch = world.events()
    found, expected = pairs(summary, batch), world.expected(batch)
    assert expected <= found
    if precision.is_exact:  # each entry is tested attribute by attribute, as a conjunction is
        assert found == expected
    brokers = summary.match_brokers(batch)
    assert set(zip(brokers.events.tolist(), (brokers.names[each] for each in brokers.brokers), strict=True)) == {
        (event, broker) for event, broker, _ in found
    }


@given(seeds, st.sampled_from(PRECISIONS))
@settings(max_examples=MANY)
def test_by_columns_it_is_the_paper_s_algorithm(random: Random, precision: Precision) -> None:
    world = World(random)
    summary = Summary(world.space, precision=precision)
    world.add(summary, "a", random.randint(0, 10))
    columns, batch = summary.columns(), world.events()
    plain = {
        (event, "a", int(columns.ids[entry]))
        for event, values in enumerate(batch.to_dicts())
        for entry in examine(columns, values).kept
    }
    assert pairs(summary, batch) == plain


@given(seeds, st.sampled_from(PRECISIONS), st.booleans())
@settings(max_examples=2 * MANY)
def test_maintained_it_equals_one_built_from_scratch(random: Random, precision: Precision, subsumption: bool) -> None:
    """Subscriptions come, go and change; whoever follows by differences has the same columns as well."""
    world = World(random)
    summary = Summary(world.space, precision=precision, subsumption=subsumption)
    follower, late = Summary(world.space), Summary(world.space)
    for broker in BROKERS:
        summary.add(broker, [], parse_many(world.space, []))
    for _ in range(5):
        broker = random.choice(BROKERS)
        there = list(world.texts[broker])
        if there and world.generate.chance(0.5):
            gone = random.sample(there, random.randint(1, len(there)))
            summary.remove(broker, gone)
            for each in gone:
                del world.texts[broker][each]
        elif there and world.generate.chance(0.5):
            changed = {
                each: world.generate.text(world.space, 2) for each in random.sample(there, random.randint(1, len(there)))
            }
            world.texts[broker] |= changed
            summary.change(broker, list(changed), parse_many(world.space, list(changed.values())))
        else:
            world.add(summary, broker, random.randint(1, 6))
        scratch = world.scratch(precision, subsumption)
        assert summary.columns() == scratch.columns()
        for delta in summary.deltas(follower.versions):
            assert follower.apply(delta)
        assert follower.columns() == scratch.columns()
        assert follower.versions == summary.versions
        assert not summary.deltas(follower.versions)
    for delta in summary.deltas({}):
        assert delta.is_whole
        late.apply(delta)
    assert late.columns() == follower.columns()


@given(seeds, st.sampled_from(PRECISIONS))
@settings(max_examples=MANY)
def test_a_difference_leads_from_any_version_to_any_other(random: Random, precision: Precision) -> None:
    world = World(random)
    states: list[Columns] = []
    for version in range(3):
        world.texts = {broker: {} for broker in BROKERS}
        summary = Summary(world.space, precision=precision, first_version=version)
        world.add(summary, "a", random.randint(0, 12))
        states.append(summary.part("a"))
    one, other = random.sample(states, 2)
    assert patch(one, difference(one, other)) == other


@given(seeds, st.sampled_from(PRECISIONS))
@settings(max_examples=MANY)
def test_merged_they_are_one(random: Random, precision: Precision) -> None:
    world = World(random)
    apart = {broker: Summary(world.space, precision=precision) for broker in BROKERS}
    for broker, each in apart.items():
        world.add(each, broker, random.randint(0, 8))
    merged = Summary(world.space)
    for broker in random.sample(BROKERS, len(BROKERS)):
        assert merged.merge(apart[broker]) == [broker]
        assert merged.merge(apart[broker]) == []
    assert merged.columns() == world.scratch(precision).columns()
    assert [part == apart[part.brokers[0]].columns() for part in merged.columns().parts()] == [True] * len(BROKERS)


@given(seeds)
@settings(max_examples=MANY)
def test_with_subsumption_every_broker_still_gets_its_events(random: Random) -> None:
    world = World(random)
    summary = Summary(world.space, subsumption=True)
    for broker in BROKERS:
        world.add(summary, broker, random.randint(0, 15))
    batch = world.events(15)
    found = {(event, broker) for event, broker, _ in pairs(summary, batch)}
    assert found == {(event, broker) for event, broker, _ in world.expected(batch)}


@given(seeds, st.sampled_from(PRECISIONS))
@settings(max_examples=MANY)
def test_summaries_of_a_smaller_and_a_larger_space_understand_each_other(random: Random, precision: Precision) -> None:
    """The larger one has gained attributes at its end. Who does not know them yet may say yes wrongly, never no wrongly."""
    world = World(random)
    few = random.randint(1, len(world.space))
    small = Space("things", dict(list(world.space.items())[:few]))
    new, old = Summary(world.space, precision=precision), Summary(small, precision=precision)
    world.add(new, "a", random.randint(0, 10))
    of_old = World(random, small)
    of_old.add(old, "b", random.randint(0, 10))
    old_part, new_part = old.columns(), new.columns()
    new.merge(old_part)
    old.merge(new_part)
    large_batch = world.events()
    expected = world.expected(large_batch)
    cut = EventBatch.from_arrow(small, large_batch.records.select(list(small.names)))
    assert expected <= pairs(new, large_batch)
    assert {each for each in expected} <= pairs(old, cut)
    assert of_old.expected(cut) <= pairs(new, large_batch)
    old.grow(world.space)
    assert pairs(old, large_batch) == pairs(new, large_batch)


# --- on the wire


def sent(summary: Summary) -> bytes:
    return encode_summary(summary.columns())


@given(seeds, st.sampled_from(PRECISIONS), st.booleans())
@settings(max_examples=MANY)
def test_what_is_sent_comes_back(random: Random, precision: Precision, subsumption: bool) -> None:
    world = World(random)
    summary = Summary(world.space, precision=precision, subsumption=subsumption)
    for broker in random.sample(BROKERS, random.randint(1, 3)):
        world.add(summary, broker, random.randint(0, 10))
    reader = Reader(sent(summary), {})
    found = Columns.of(decode_summary(reader))
    reader.end("a summary")
    assert found == summary.columns()
    assert found.versions == summary.columns().versions


@given(seeds, st.sampled_from(PRECISIONS))
@settings(max_examples=MANY)
def test_a_difference_comes_back(random: Random, precision: Precision) -> None:
    world = World(random)
    summary, follower = Summary(world.space, precision=precision), Summary(world.space)
    for _ in range(3):
        world.add(summary, "a", random.randint(0, 6))
        gone = random.sample(list(world.texts["a"]), random.randint(0, len(world.texts["a"])))
        summary.remove("a", gone)
        for each in gone:
            del world.texts["a"][each]
        for delta in summary.deltas(follower.versions):
            reader = Reader(encode_delta(delta), {})
            follower.apply(Delta.of(decode_delta(reader)))
            reader.end("a difference")
        assert follower.columns() == summary.columns()


@given(seeds, st.sampled_from(PRECISIONS))
@settings(max_examples=2 * MANY)
def test_bytes_that_were_tampered_with_are_a_wire_error_or_a_summary(random: Random, precision: Precision) -> None:
    """What is taken for a summary can be matched, merged and sent again; what is taken for a difference may still not fit."""
    world = World(random)
    summary = Summary(world.space, precision=precision)
    world.add(summary, "a", random.randint(0, 8))
    data = bytearray(random.choice([sent(summary), encode_delta(summary.delta("a"))]))
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(data))
        match random.choice(["change", "cut", "put in"]):
            case "change":
                data[at] = random.randrange(256)
            case "cut":
                del data[at : at + random.randint(1, 4)]
            case _:
                data[at:at] = random.randbytes(2)
        data = data or bytearray(b"\0")
    batch = world.events(2)
    with suppress(WireError):
        found = Columns.of(decode_summary(Reader(bytes(data), {})))
        again = (
            Summary(Space(found.space, x="int")) if found.space != world.space.name and found.space else Summary(world.space)
        )
        if found.space:
            again.merge(found)
            assert Columns.of(decode_summary(Reader(sent(again), {}))) == again.columns()
            again.match(batch)
    with suppress(WireError):
        delta = Delta.of(decode_delta(Reader(bytes(data), {})))
        with suppress(ContentcastError):
            Summary(world.space).apply(delta)


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario(name: str, precision: Precision) -> None:
    drawn = scenario(name, seed=5)
    table = parse_many(drawn.space, drawn.subscriptions(200)["predicate"])
    batch = EventBatch.from_arrow(drawn.space, drawn.events(30))
    oracle = Scan(drawn.space)
    for each, predicate in enumerate(table):
        oracle.add(each, predicate)
    summary = Summary(drawn.space, precision=precision)
    summary.add("a", np.arange(200), table)
    found = pairs(summary, batch)
    expected = {(event, "a", each) for event, ids in enumerate(oracle.match_batch(batch)) for each in ids}
    assert expected <= found
    assert not precision.is_exact or found == expected


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_case(case: Case) -> None:
    summary = Summary(case.space)
    summary.add("a", list(case.subscriptions), parse_many(case.space, list(case.subscriptions.values())))
    assert sorted(summary.match(case.batch).ids.tolist()) == case.expected
