"""Queues replayed are the simulation's queues; and small stories whose numbers can be done in the head."""

import numpy as np
import pytest

from contentcast import catalog
from contentcast.experiments.limits import highest
from contentcast.experiments.replay import latencies, replay
from contentcast.experiments.routes import CLIENT_DELAY_S, LAN_DELAY_S, enough, route
from contentcast.hosting.costs import PAPER_FAST, Costs
from contentcast.model import ContentcastError
from contentcast.network.named import gryphon, network, placed
from contentcast.routing.setup import Setup
from contentcast.simulation.load import publish_poisson, subscribe
from contentcast.simulation.world import World
from contentcast.workload import scenario

SUBSCRIPTIONS, EVENTS, SEED, RATE = 600, 240, 3, 700.0


@pytest.mark.parametrize(
    ("protocol", "options"),
    [("link-matching-paper", {}), ("link-matching", {}), ("match-first", {}), ("flooding", {"filter_at": "client"})],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_replay_has_the_queues_and_latencies_of_the_world(protocol: str, options: dict[str, str]) -> None:
    topology, source = gryphon(), scenario("gryphon", seed=SEED, decay=0.85)
    world = World(
        topology,
        catalog.make_router(protocol, Setup(topology=topology), **options),
        announce=False,
        watch=topology.brokers,
    )
    subscribe(world, source, SUBSCRIPTIONS)
    world.run()
    began = world.now
    publish_poisson(world, source, RATE, EVENTS, seed=SEED)
    world.run()

    routes = route(topology, source, protocol, subscriptions=SUBSCRIPTIONS, events=EVENTS, **options)
    times = routes.times(RATE, None, SEED)
    run = replay(routes, times, PAPER_FAST)

    longest = {}
    for broker in topology.brokers:
        queue = world.queue(broker)
        at, waiting = queue["time"].to_numpy(), queue["waiting"].to_numpy()
        longest[broker] = int(waiting[at >= began].max(initial=0))
    assert {each: run.longest(topology.number(each)) for each in topology.brokers} == longest
    assert max(longest.values()) >= 3, "nothing waited: this compared nothing"

    table = world.deliveries()
    theirs = np.sort(table["delivered_at"].to_numpy() - table["published_at"].to_numpy())
    np.testing.assert_allclose(np.sort(latencies(routes, run, times, PAPER_FAST)), theirs, rtol=0, atol=1e-9)


def test_a_group_is_one_copy_for_its_sender_and_reaches_all_members() -> None:
    """Multicast beside link matching, on the same brokers: the same deliveries, at most one copy an event, one hop each."""
    topology, source = gryphon(), scenario("gryphon", seed=SEED, decay=0.85)
    told = {"subscriptions": 200, "events": 100}
    lan, links = (route(topology, source, protocol, **told) for protocol in ("multicast", "link-matching"))
    np.testing.assert_array_equal(lan.deliveries, links.deliveries)
    wanted_elsewhere = links.copies.sum(axis=1) > 0
    np.testing.assert_array_equal(lan.copies.sum(axis=1), wanted_elsewhere)
    assert lan.group_bytes.sum() > 0
    assert (lan.bytes.sum(), links.group_bytes.sum()) == (0, 0)
    np.testing.assert_array_equal(lan.copies_in.sum(axis=1) > 1, wanted_elsewhere)
    assert set(lan.delay_s) == {LAN_DELAY_S}
    times = lan.times(1.0, None, SEED)
    late = latencies(lan, replay(lan, times, PAPER_FAST), times, PAPER_FAST)
    assert late.max() < 2 * CLIENT_DELAY_S + LAN_DELAY_S + 0.01  # one hop, whoever wants it


def test_two_events_at_once_wait_for_each_other() -> None:
    """A line of two brokers; each step of the CPU takes one second, the link ten: the second event begins one second later."""
    line = network("line:2", delay_s=10.0)
    source = placed("gryphon", line, seed=1, regions=1, attributes=1, values=1, care=0.0)
    costs = Costs(step_s=0.0, receive_s=1.0, send_s=0.0, deliver_s=0.0, latency_s=0.0)
    routes = route(line, source, "flooding", subscriptions=39, events=2)

    run = replay(routes, np.array([0.0, 0.0]), costs)

    publisher = int(routes.entered[0])
    assert run.began[:, publisher].tolist() == [0.0, 1.0]
    assert run.longest(publisher) == 1
    other = 1 - publisher
    assert run.arrived[:, other].tolist() == [11.0, 12.0]
    assert run.longest(other) == 0
    assert not run.overloads(2)
    assert run.overloads(1)
    late = np.sort(np.unique(latencies(routes, run, np.array([0.0, 0.0]), costs)))
    np.testing.assert_allclose(late, np.array([1.0, 2.0, 12.0, 13.0]) + CLIENT_DELAY_S)


def test_the_curve_goes_up_with_who_waits_and_down_with_who_is_served() -> None:
    line = network("line:2")
    source = placed("gryphon", line, seed=1, regions=1, attributes=1, values=1, care=0.0)
    routes = route(line, source, "flooding", subscriptions=39, events=3)
    run = replay(routes, np.array([0.0, 0.1, 0.2]), Costs(0.0, 1.0, 0.0, 0.0, 0.0, 0.0))
    times, waiting = run.curve(int(routes.entered[0]))
    np.testing.assert_allclose(times, [0.1, 0.2, 1.0, 2.0])
    assert waiting.tolist() == [1, 2, 1, 0]
    assert run.idle_after(int(routes.entered[0]), 0.05) is False


def test_too_few_events_for_the_time_are_refused() -> None:
    routes = route(gryphon(), scenario("gryphon", seed=1), "flooding", subscriptions=39, events=30)
    with pytest.raises(ContentcastError, match="route more of them"):
        routes.times(1000.0, 1.5, seed=1)


def test_enough_is_enough() -> None:
    routes = route(gryphon(), scenario("gryphon", seed=1), "flooding", subscriptions=39, events=enough(300.0, 1.5, 3))
    times = routes.times(300.0, 1.5, seed=1)
    assert np.isfinite(times).sum() == pytest.approx(3 * 300 * 1.5, rel=0.1)


def test_bisection_finds_the_rate() -> None:
    asked = []

    def carries(rate: float) -> bool:
        asked.append(rate)
        return rate < 123.4

    assert highest(carries, 0.0, 400.0, resolution=1.0) == pytest.approx(123.4, abs=0.5)
    assert len(asked) <= 9
