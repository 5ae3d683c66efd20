"""Skewed values give another mapping: all nodes change or none, and nothing is lost or doubled over the change."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from contentcast.catalog import make_router
from contentcast.language import parse_predicate
from contentcast.model import Attribute, EventBatch, Space, Subscription, SubscriptionBatch
from contentcast.network.topology import Topology
from contentcast.routing.chord.keys import key_of
from contentcast.routing.contract import DIRECT, Declared, Deliver, Published, Received, Started, Subscribed
from contentcast.routing.overlay.mappings import KeyMapping
from contentcast.routing.overlay.remapping import MOST_STEP
from contentcast.routing.overlay.scales import Scale
from contentcast.routing.setup import Life, Setup
from contentcast.simulation.world import World
from contentcast.wire import WireError, decode, encode
from contentcast.wire.overlay import Mapping

SPACE = Space("loads", load=Attribute("int", low=0, high=1_000_000), host="string")
NODES = [f"n{number}" for number in range(6)]


def a_world(cuts: Cuts | None = None, points: int = 1) -> World:
    topology = Topology.of(NODES, [])
    learn_s = 3.0 if cuts is None else 0.0
    make = make_router("overlay", Setup(topology=topology, cuts=cuts or {}), learn_s=learn_s, renew_s=4.0, points=points)
    return World(topology, make, announce=False)


Cuts = dict[str, dict[str, tuple[int, ...]]]
BY_SPARK: Cuts = {"loads": {"load": tuple(int((at / 64) ** 6 * 1000) for at in range(20, 64))}}
"""As `LearntPlan.cuts` hands them over: quantiles of the history."""


def elder(world: World) -> str:
    return min(NODES, key=lambda each: world.router(each).state()["ring"]["key"])


def skewed(random: Random, first: int, count: int) -> Published:
    events = [{"load": int(random.random() ** 6 * 1000), "host": "h"} for _ in range(count)]
    return Published(EventBatch.from_dicts(SPACE, events, ids=range(first, first + count)))


def a_subscribed_world(cuts: Cuts | None = None, points: int = 1) -> World:
    world = a_world(cuts, points)
    for number, node in enumerate(NODES):
        wish = parse_predicate(SPACE, f"load BETWEEN {number} AND {100 * number + 50}")
        world.put(node, Subscribed(SubscriptionBatch.of([Subscription(number, wish, f"{node}/client")])))
    return world.run(until=3.0)


@pytest.mark.parametrize(("cuts", "points"), [(None, 1), (BY_SPARK, 1), (BY_SPARK, 3)])
def test_all_nodes_change_and_every_event_arrives_once_meanwhile(cuts: Cuts | None, points: int) -> None:
    """By what the nodes have seen, or by what Spark has learnt from the history."""
    random = Random(1)
    world = a_subscribed_world(cuts, points)
    world.put(elder(world), skewed(random, 0, 300))
    wanted: list[tuple[str, int]] = []
    for step in range(60):
        node = random.choice(NODES)
        published = skewed(random, 1000 + 10 * step, 3)
        world.put(node, published, at=3.0 + 0.5 * step)
        for event, number in zip(published.events.to_dicts(), published.events.ids.to_pylist(), strict=True):
            wanted += [(f"{each}/client", number) for at, each in enumerate(NODES) if at <= event["load"] <= 100 * at + 50]
    world.run(until=40.0)
    assert [world.router(each).state()["mapping"] for each in NODES] == [1] * len(NODES)
    assert sorted(each for each in world.delivered if each[1] >= 1000) == sorted(wanted)


def test_nobody_changes_when_a_node_dies_before_everybody_has_prepared() -> None:
    world = a_subscribed_world()
    silent = world.router(elder(world)).state()["ring"]["predecessor"]
    world.crash(silent)
    world.put(elder(world), skewed(Random(2), 0, 300))
    world.run(until=world.now + 4.0)
    assert {world.router(each).state()["mapping"] for each in NODES if each != silent} == {0}


def test_a_node_that_comes_back_is_told_the_mapping() -> None:
    world = a_subscribed_world()
    world.put(elder(world), skewed(Random(3), 0, 300))
    world.run(until=25.0)
    other = next(each for each in NODES if each != elder(world))
    world.crash(other)
    world.restart(other)
    world.run(until=28.0)
    assert {world.router(each).state()["mapping"] for each in NODES} == {1}


def test_the_change_takes_the_load_off_the_fullest_node() -> None:
    """Greatest to mean number of events that a node matches, with most values near the beginning of the domain."""

    def greatest(cuts: Cuts | None) -> float:
        mapping = KeyMapping("selective-attribute", learnt=cuts or {}).in_space(SPACE)
        column = skewed(Random(4), 0, 2000).events.records.column(0)
        places = np.sort(np.array([key_of(f"n{number}") for number in range(50)], np.uint64))
        counts = np.bincount(np.searchsorted(places, mapping.scales[0].of_column(column)) % 50, minlength=50)
        return float(counts.max() / counts.mean())

    assert greatest(None) == 50.0
    assert greatest(BY_SPARK) < 20.0  # a third of the values are 0, and one value has one place


@pytest.mark.parametrize(
    "specification",
    ["no JSON", "[" * 60_000, "[]", '{"loads": []}', '{"loads": {"load": 5}}', '{"loads": {"load": [' + "9" * 5_000 + "]}}"],
)
def test_a_mapping_that_is_none_is_refused_by_the_decoder(specification: str) -> None:
    """A node failed with JSON's own exception when a damaged one came."""
    with pytest.raises(WireError, match="a Mapping"):
        decode(encode(Mapping(1, "n0", specification)), {})
    with pytest.raises(WireError, match="of version 4611686018427387905"):
        decode(encode(Mapping(2**62 + 1, "n0", "{}")), {})


def test_cuts_of_another_kind_do_not_count() -> None:
    """The sender need not know the space as we do, and may be a stranger."""
    odd = '{"loads": {"load": ["x", {}, [1], null, true, 1e400, NaN, 7], "host": [3, "\\\\ud800", "m"], "gone": [1]}, "x": {}}'
    told = decode(encode(Mapping(1, "n1", odd, commit=True, asked=True)), {})
    router = make_router("overlay")("n0", Life())
    wish = Subscription(1, parse_predicate(SPACE, "load < 50"), "client")
    for at, input in enumerate((Started(), Declared(SPACE), Subscribed(SubscriptionBatch.of([wish])))):
        router.handle(input, float(at))
    router.handle(Received("n1", told, DIRECT), 4.0)
    assert router.state()["mapping"] == 1
    found = router.handle(Published(EventBatch.from_dicts(SPACE, [{"load": 40, "host": "h"}], ids=[7])), 5.0)
    assert any(isinstance(each, Deliver) for each in found)
    assert Scale.learnt(SPACE["load"], (7, "x", 3)).cuts == (3, 7)


SKEWED = '{"loads": {"load": [7, 20, 300]}}'


def tell(world: World, node: str, told: Mapping) -> None:
    world._reach(node, Received("stranger", told, DIRECT), 100)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_forged_version_does_not_keep_later_ones_away(is_commit: bool) -> None:
    """Whoever took the last version took no other after it, and told its neighbours; a forged prepare was never given up."""
    world = a_subscribed_world()
    victim = elder(world)
    for version in (2**62, MOST_STEP):
        tell(world, victim, Mapping(version, "stranger", "{}", is_commit, is_commit))
    world.put(victim, skewed(Random(5), 0, 300))
    world.run(until=130.0)  # the forged prepare is given up after twenty renewal periods of 4 s
    found = {world.router(each).state()["mapping"] for each in NODES}
    assert found == {MOST_STEP + 1 if is_commit else 1}


def test_a_mapping_is_proposed_again_when_its_round_was_lost() -> None:
    world = a_subscribed_world()
    silent = world.router(elder(world)).state()["ring"]["predecessor"]
    world.crash(silent)
    world.put(elder(world), skewed(Random(2), 0, 300))
    world.run(until=world.now + 150.0)
    assert {world.router(each).state()["mapping"] for each in NODES if each != silent} == {1}


def test_who_was_away_for_more_versions_than_one_step_is_told_until_it_has_the_newest() -> None:
    world = a_subscribed_world()
    ahead, other = NODES[0], NODES[1]
    for _ in range(3):
        version = world.router(ahead).state()["mapping"] + MOST_STEP
        tell(world, ahead, Mapping(version, "stranger", SKEWED, True, True))
        world.run(until=world.now + 5.0)
    world.crash(other)
    world.restart(other)
    world.run(until=world.now + 10.0)
    assert {world.router(each).state()["mapping"] for each in NODES} == {3 * MOST_STEP}


def test_a_commit_on_its_way_round_far_ahead_and_a_round_that_was_not_begun_do_nothing() -> None:
    router = make_router("overlay")("n0", Life())
    router.handle(Started(), 0.0)
    for told in (
        Mapping(MOST_STEP + 1, "n1", SKEWED, commit=True),
        Mapping(MOST_STEP + 1, "n1", SKEWED),
        Mapping(0, "n1", SKEWED, commit=True, asked=True),
        Mapping(-(2**63), "n1", SKEWED, commit=True, asked=True),
        Mapping(5, "n0", SKEWED),
    ):
        assert router.handle(Received("n1", told, DIRECT), 1.0) == []
    assert router.state()["mapping"] == 0
