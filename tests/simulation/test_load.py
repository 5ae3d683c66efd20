"""Clients of a scenario: every event enters once, at its broker, at the rate that was asked for."""

from random import Random
from statistics import fmean, pvariance

import pytest

from contentcast.hosting.costs import FREE
from contentcast.language import parse_predicate
from contentcast.matching.scan import Scan
from contentcast.model import EventBatch
from contentcast.network.named import gryphon
from contentcast.routing.contract import Published
from contentcast.simulation.agenda import SimulationError
from contentcast.simulation.load import bursts, exponential, poisson, publish_bursts, publish_poisson, subscribe
from contentcast.simulation.world import World
from contentcast.workload import scenario
from tests.simulation.small import Recorder, flooding

GRYPHON = scenario("gryphon", seed=4)


def entered(publish: object, **options: object) -> list[tuple[float, str, int]]:
    told: list[tuple[float, str, int, object]] = []
    world = World(gryphon(), lambda broker, life: Recorder(broker, life.incarnation, told), costs=FREE, announce=False)
    publish(world, GRYPHON, **options)  # type: ignore[operator]
    world.run()
    return [(at, broker, input.events.ids[0].as_py()) for at, broker, _, input in told if isinstance(input, Published)]


@pytest.mark.parametrize("publish", [publish_poisson, publish_bursts])
def test_every_event_enters_once_at_its_broker_in_the_order_of_time(publish: object) -> None:
    came = entered(publish, rate=50.0, count=900, seed=1, first=100, start=2.0)
    assert sorted(number for _, _, number in came) == list(range(100, 1000))
    publishers = GRYPHON.publishers(900, 100).to_pylist()
    assert all(publishers[number - 100] == broker for _, broker, number in came)
    assert [at for at, *_ in came] == sorted(at for at, *_ in came)
    assert came[0][0] > 2.0
    assert came == entered(publish, rate=50.0, count=900, seed=1, first=100, start=2.0)
    assert came != entered(publish, rate=50.0, count=900, seed=2, first=100, start=2.0)


def test_each_publisher_has_the_rate() -> None:
    came = entered(publish_poisson, rate=50.0, count=6000, seed=1)
    brokers = {broker for _, broker, _ in came}
    assert len(brokers) == 3
    for broker in brokers:
        times = [at for at, each, _ in came if each == broker]
        assert len(times) / times[-1] == pytest.approx(50.0, rel=0.08)  # 2000 gaps: the mean is known to 2 %, 4 of them


def test_exponential_times_have_mean_one_variance_one_and_the_right_tail() -> None:
    dice = Random("exponential")
    drawn = [exponential(dice) for _ in range(100_000)]
    assert fmean(drawn) == pytest.approx(1.0, rel=0.015)
    assert pvariance(drawn) == pytest.approx(1.0, rel=0.04)
    assert sum(each > 3.0 for each in drawn) / len(drawn) == pytest.approx(0.049787, rel=0.06)


def test_bursts_have_the_same_mean_rate_and_come_in_bursts() -> None:
    def counted(times: object, seconds: int) -> list[int]:
        counts = [0] * seconds
        for at in times:  # type: ignore[attr-defined]
            if at >= seconds:
                return counts
            counts[int(at)] += 1
        raise AssertionError("the times ended")

    steady = counted(poisson(20.0, Random("a")), 4000)
    bursty = counted(bursts(20.0, 1.0, 4.0, Random("b")), 4000)
    assert fmean(steady) == pytest.approx(20.0, rel=0.02)
    assert fmean(bursty) == pytest.approx(20.0, rel=0.10)
    assert pvariance(steady) / fmean(steady) == pytest.approx(1.0, rel=0.1)  # Poisson
    assert pvariance(bursty) / fmean(bursty) > 20


def test_the_scenarios_subscribers_get_what_the_oracle_says() -> None:
    world = World(gryphon(), flooding)
    subscribe(world, GRYPHON, 200)
    world.run()
    publish_poisson(world, GRYPHON, 20.0, 50, seed=1)
    world.run()
    scan, rows = Scan(GRYPHON.space), GRYPHON.subscriptions(200).to_pylist()
    for row in rows:
        scan.add(row["subscription"], parse_predicate(GRYPHON.space, row["predicate"]))
    events = EventBatch.from_arrow(GRYPHON.space, GRYPHON.events(50))
    wanted = {(rows[each]["subscriber"], event) for event, ids in enumerate(scan.match_batch(events)) for each in ids}
    assert len(wanted) > 50
    assert sorted(world.delivered) == sorted(wanted)


@pytest.mark.parametrize(("name", "options"), [("rate", {"rate": 0.0}), ("on_s", {"rate": 1.0, "on_s": -1.0})])
def test_a_load_that_cannot_be_is_refused(name: str, options: dict[str, float]) -> None:
    with pytest.raises(SimulationError, match=f"{name} is a number above 0"):
        entered(publish_bursts, count=1, **options)
