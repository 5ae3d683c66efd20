"""Stories of the overlay in virtual time: who joins, leaves or crashes takes no subscription along, and nobody gets twice."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from contentcast.catalog import make_router, options_of, protocol
from contentcast.language import parse_predicate
from contentcast.model import Attribute, ContentcastError, EventBatch, Space, Subscription, SubscriptionBatch
from contentcast.network.topology import Topology
from contentcast.routing.chord.keys import distance, key_of
from contentcast.routing.contract import Published, SendTo, SetTimer, Subscribed, Unsubscribed
from contentcast.routing.overlay.mappings import MAPPINGS, KeyMapping
from contentcast.routing.overlay.post import Post
from contentcast.routing.overlay.router import places_of
from contentcast.routing.overlay.store import Ranges, Store
from contentcast.routing.parts.spaces import SpaceRegister
from contentcast.routing.parts.versions import Versions
from contentcast.routing.setup import Setup
from contentcast.simulation.world import World
from contentcast.wire.chord import Ask
from contentcast.wire.overlay import Stored

SPACE = Space("trades", issue="string", price=Attribute("int", low=0, high=999), volume="int")
NODES = [f"n{number}" for number in range(8)]


def a_world(nodes: list[str] | None = None, **options: object) -> World:
    topology = Topology.of(nodes or NODES, [])
    return World(topology, make_router("overlay", Setup(topology=topology, contacts=tuple(NODES)), **options), announce=False)


def subscribe(world: World, node: str, number: int, text: str) -> None:
    batch = SubscriptionBatch.of([Subscription(number, parse_predicate(SPACE, text), f"{node}/client")])
    world.put(node, Subscribed(batch))


def publish(world: World, node: str, first: int) -> None:
    events = [{"issue": issue, "price": price, "volume": 7} for issue in ("IBM", "SAP") for price in (5, 500)]
    world.put(node, Published(EventBatch.from_dicts(SPACE, events, ids=range(first, first + 4))))


def got(world: World, first: int) -> list[tuple[str, int]]:
    return sorted((who, event - first) for who, event in world.delivered if event >= first)


WISHES = {"n1": "price < 10", "n2": "issue = 'IBM'", "n3": "issue LIKE 'S%' AND price > 100", "n4": "volume IS NULL"}
EXPECTED = sorted([("n1/client", 0), ("n1/client", 2), ("n2/client", 0), ("n2/client", 1), ("n3/client", 3)])


def ready(world: World) -> World:
    for number, (node, text) in enumerate(WISHES.items()):
        subscribe(world, node, number, text)
    return world.run(until=world.now + 6.0)


@pytest.mark.parametrize("notify", ["at-once", "buffered", "collected"])
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_every_mapping_and_every_way_to_notify_delivers_once(mapping: str, notify: str) -> None:
    world = ready(a_world(mapping=mapping, notify=notify))
    publish(world, "n0", 100)
    publish(world, "n2", 200)
    world.run()
    assert got(world, 200) == EXPECTED
    assert sorted((who, event - 100) for who, event in world.delivered if event < 200) == EXPECTED


def test_a_broker_with_several_places_on_the_ring_delivers_the_same() -> None:
    """Also when brokers join, leave and crash: all places of a broker go at once, and copies are at other brokers."""
    world = ready(a_world(NODES[:6], points=4, renew_s=100.0))
    publish(world, "n0", 100)
    world.run(until=world.now + 5.0)
    assert got(world, 100) == EXPECTED
    state = world.router("n1").state()
    assert sorted(state["places"]) == ["n1", "n1#1", "n1#2", "n1#3"]
    world.join("n6")
    world.run(until=world.now + 8.0)
    world.crash("n5")
    world.run(until=world.now + 15.0)
    publish(world, "n0", 200)
    world.run(until=world.now + 8.0)
    assert got(world, 200) == EXPECTED
    world.leave("n0")
    world.run(until=world.now + 8.0)
    publish(world, "n6", 300)
    world.run(until=world.now + 8.0)
    assert got(world, 300) == EXPECTED


def test_more_places_share_the_keys_more_evenly() -> None:
    def greatest_share(points: int) -> float:
        names = [f"b{number}" for number in range(40)]
        ring = sorted((key_of(place), broker) for broker in names for place in places_of(broker, points))
        shares: dict[str, float] = {}
        for (before, _), (key, broker) in zip([ring[-1], *ring], ring, strict=False):
            shares[broker] = shares.get(broker, 0.0) + distance(before, key) / 2**64
        return max(shares.values()) * len(names)

    assert greatest_share(16) < 2.0 < greatest_share(1)


def test_places_are_refused_where_names_would_be_mistaken() -> None:
    with pytest.raises(ContentcastError, match="rename"):
        a_world(["n#1", "n2"], points=2)
    with pytest.raises(ContentcastError, match="at least one place"):
        a_world(points=0)


def test_discretization_and_short_keys_deliver_the_same() -> None:
    world = ready(a_world(bits=13, cells=10))
    publish(world, "n0", 100)
    world.run()
    assert got(world, 100) == EXPECTED


def test_nodes_stand_apart_whatever_the_length_of_keys() -> None:
    """With keys of 4 bits n1 and n2 would have stood at one place, and an event that was published at n2 found nobody."""
    world = ready(a_world(bits=4))
    assert key_of("n1", 4) == key_of("n2", 4)
    for number, node in enumerate(NODES, 1):
        publish(world, node, 100 * number)
    world.run()
    for number in range(1, len(NODES) + 1):
        mine = sorted((who, event % 100) for who, event in world.delivered if event // 100 == number)
        assert mine == EXPECTED, NODES[number - 1]


@pytest.mark.parametrize("crashed", ["n0", "n5", "n6", "n7"])
def test_a_crash_is_covered_by_copies(crashed: str) -> None:
    """No renewal comes in time: what the dead node held is on its successors."""
    world = ready(a_world(renew_s=100.0))
    world.crash(crashed)
    world.run(until=world.now + 20.0)
    publish(world, "n4", 100)
    world.run(until=world.now + 10.0)
    assert got(world, 100) == EXPECTED


def lost_when_two_neighbours_crash(copies: int) -> int:
    """Deliveries that are missing, over all pairs of neighbours on the ring that crash at the same time."""
    lost = 0
    for first in NODES:
        world = ready(a_world(renew_s=100.0, copies=copies, mapping="key-space-split"))
        pair = {first, world.router(first).state()["ring"]["successors"][0]}
        for each in sorted(pair):
            world.crash(each)
        world.run(until=world.now + 15.0)
        publish(world, next(each for each in NODES if each not in pair), 100)
        world.run(until=world.now + 8.0)
        wanted = {each for each in EXPECTED if each[0].split("/")[0] not in pair}
        assert set(got(world, 100)) <= wanted
        lost += len(wanted - set(got(world, 100)))
    return lost


def test_as_many_neighbours_as_copies_may_fail_and_with_one_more_something_is_lost() -> None:
    assert lost_when_two_neighbours_crash(copies=2) == 0
    assert lost_when_two_neighbours_crash(copies=1) > 0


def test_a_joiner_takes_over_its_arc_and_a_leaver_hands_it_on() -> None:
    world = ready(a_world(NODES[:6], renew_s=100.0))
    world.join("n6")
    world.join("n7")
    publish(world, "n0", 100)  # while they join
    world.run(until=world.now + 15.0)
    assert got(world, 100) == EXPECTED
    assert {len(world.router(each).state()["ring"]["successors"]) for each in NODES} == {4}
    publish(world, "n5", 200)
    world.run(until=world.now + 5.0)
    assert got(world, 200) == EXPECTED
    for leaver in ("n0", "n5"):
        world.leave(leaver)
        world.run(until=world.now + 3.0)
    publish(world, "n7", 300)
    world.run(until=world.now + 5.0)
    assert got(world, 300) == EXPECTED


def lost_when_a_rendezvous_crashes_before_it_notifies() -> int:
    """Each node in turn crashes 0.3 s after an event was published: it has acknowledged and buffered what it matched."""
    lost = 0
    for crashed in ("n5", "n6", "n7", "n3"):
        world = ready(a_world(renew_s=100.0, notify="buffered", mapping="key-space-split"))
        publish(world, "n0", 100)
        world.run(until=world.now + 0.3)
        world.crash(crashed)
        world.run(until=world.now + 20.0)
        wanted = [each for each in EXPECTED if not each[0].startswith(crashed)]
        assert len(got(world, 100)) == len(set(got(world, 100)))
        lost += len(set(wanted) - set(got(world, 100)))
    return lost


def test_an_event_that_was_acknowledged_is_not_lost_with_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sent it keeps it until all that it caused has arrived, and finds another way."""
    assert lost_when_a_rendezvous_crashes_before_it_notifies() == 0
    monkeypatch.setattr(Post, "hold", staticmethod(lambda causes: None))
    monkeypatch.setattr(Post, "release", staticmethod(lambda causes: []))
    assert lost_when_a_rendezvous_crashes_before_it_notifies() > 0


def test_copies_live_as_long_as_what_they_were_copied_from() -> None:
    world = ready(a_world(renew_s=2.0, copies=2))
    counts = []
    for _ in range(12):
        world.run(until=world.now + 1.0)
        counts.append(sum("n3/2" in world.router(each).state()["held"] for each in NODES))
    assert min(counts) >= 3  # at the rendezvous and on two others, also when the first lifetime is over


def test_who_sends_all_the_time_sends_again_too() -> None:
    """The timer is never moved by a later message, else nothing would be sent again while there is traffic."""
    post = Post(1)
    first = post.send("n2", Ask(False), 0.0)
    assert [type(each) for each in first] == [SendTo, SetTimer]
    assert [type(each) for each in post.send("n2", Ask(False), 0.3)] == [SendTo]
    effects, _ = post.woken(False, 0.4)
    assert [each.message.number for each in effects if isinstance(each, SendTo)] == [(1 << 32) + 1]
    assert [each.at for each in effects if isinstance(each, SetTimer)] == [pytest.approx(0.7)]


def test_what_is_not_renewed_expires_and_what_has_ended_is_gone() -> None:
    world = ready(a_world(renew_s=2.0))
    assert any("n1/0" in world.router(each).state()["held"] for each in NODES)
    world.put("n2", Unsubscribed((1,)))
    world.crash("n1")
    world.run(until=world.now + 30.0)
    held = {name for each in NODES if each != "n1" for name in world.router(each).state()["held"]}
    assert not any(name.startswith(("n1/", "n2/")) for name in held)
    assert "n3/2" in held


def test_a_network_of_unknown_nodes_finds_itself_by_one_contact() -> None:
    topology = Topology.of(NODES, [])
    world = World(topology, make_router("overlay", Setup(contacts=("n0",))), announce=False)
    world.run()
    ready(world)
    publish(world, "n7", 100)
    world.run()
    assert got(world, 100) == EXPECTED


def test_an_unknown_way_to_notify_is_refused_with_those_there_are() -> None:
    with pytest.raises(ContentcastError, match="at-once, buffered, collected"):
        a_world(notify="later")
    with pytest.raises(ContentcastError, match="selective-attribute"):
        a_world(mapping="hash")


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("bits", 65, "keys have 1 to 64 bits, got 65"),
        ("cells", -1, "cells is 0 or more, got -1"),
        ("successors", 1, "at least 2 successors, got 1"),
        ("copies", 5, "1 to 4 copies, since it has 4 successors, got 5"),
        ("stabilise_s", 0.0, "stabilise_s is more than 0, got 0"),
        ("renew_s", -1.0, "renew_s is more than 0, got -1"),
        ("renew_s", 24_686.0, "renew_s is at most 24,685, since no subscription is kept for more than 86,400 s"),
        ("suspect_after_s", float("inf"), "suspect_after_s is more than 0, got inf"),
        ("buffer_s", -1.0, "buffer_s is 0 or more, got -1"),
        ("learn_s", -1.0, "learn_s is 0 or more, got -1"),
    ],
)
def test_an_option_that_would_not_work_is_refused(option: str, value: float, reason: str) -> None:
    """A simulation with stabilise_s=0 never came to its second instant, and 65 bits were an exception of Python's."""
    with pytest.raises(ContentcastError, match=reason):
        a_world(**{option: value})


def test_the_page_has_all_options_with_their_defaults() -> None:
    page = (Path(__file__).parents[4] / "docs/protocols/overlay.md").read_text()
    told = dict(re.findall(r"^\| `(\w+)` \| `(.+?)` \|", page, re.MULTILINE))
    assert told == {name: str(default) for name, default in options_of(protocol("overlay")).items()}


def test_the_lives_of_a_broker_may_begin_anew_when_nothing_of_it_is_left() -> None:
    """It was in memory first, where lives are numbered by the clock, and got a disk, where they are counted."""
    store = Store(SpaceRegister("n0", Versions("n0", 1)))
    ranges = Ranges([KeyMapping()])
    batch = SubscriptionBatch.of([Subscription(7, parse_predicate(SPACE, "price < 10"), "n1/client")])
    one, none = np.array([1], np.int64), np.empty(0, np.int64)

    def told(life: int) -> Stored:
        return Stored("n1", life, 35.0, batch, one, none, none)

    assert store.adopt(told(120_000_000), ranges, now=0.0)
    assert not store.adopt(told(1), ranges, now=1.0)
    for now in (36.0, 72.0):
        store.expire(now, keep_s=35.0)
    assert store.adopt(told(1), ranges, now=73.0)
    assert store.living() == [("n1", 1, 7)]
