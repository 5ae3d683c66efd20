"""Links: when what arrives, what is lost, repeated and overtaken; and that one link's luck is its own."""

import pytest

from contentcast.hosting.costs import FREE
from contentcast.network.topology import Topology
from contentcast.routing.contract import Received
from contentcast.simulation.ways.links import LinkQuality
from contentcast.simulation.world import World
from contentcast.wire import Publish, message_bytes
from tests.simulation.small import Pipe, trade

COUNT = 2000
TRADES_SENT = [trade(number) for number in range(COUNT)]


def sent(quality: LinkQuality, *, seed: int = 1, also: int = 0) -> tuple[list[tuple[float, int]], dict[str, float]]:
    """`COUNT` trades from a to b, 10 ms apart, and `also` so many from c to d: what came to b, when, and the load of a > b."""
    two = Topology.of("abcd", [("a", "b", 0.005), ("c", "d", 0.005)])
    routers = {"a": Pipe("a", ["b"]), "b": Pipe("b"), "c": Pipe("c", ["d"]), "d": Pipe("d")}
    world = World(two, lambda broker, _: routers[broker], seed=seed, costs=FREE, links=quality, announce=False)
    for number in range(COUNT):
        world.put("a", TRADES_SENT[number], at=number / 100)
    for number in range(also):
        world.put("c", TRADES_SENT[number], at=number / 90)
    world.run()
    came = [(at, input.message.events.ids[0].as_py()) for at, _, _, input in routers["b"].told if isinstance(input, Received)]
    loads = [row for row in world.link_loads().to_pylist() if (row["sender"], row["receiver"]) == ("a", "b")]
    return came, loads[0]


def test_a_perfect_link_brings_everything_once_in_order_and_on_time() -> None:
    came, load = sent(LinkQuality())
    assert came == [(pytest.approx(number / 100 + 0.005), number) for number in range(COUNT)]
    assert (load["messages"], load["events"], load["lost"], load["duplicated"]) == (COUNT, COUNT, 0, 0)
    assert load["bytes"] == COUNT * message_bytes(Publish("a", 1, 1, trade(1).events))


def test_a_link_loses_and_repeats_as_often_as_it_says() -> None:
    came, load = sent(LinkQuality(loss=0.2, duplicate=0.1))
    assert len(came) == COUNT - load["lost"] + load["duplicated"]
    assert len({number for _, number in came}) == COUNT - load["lost"]
    # Binomial: four standard deviations are 0.036 and 0.030.
    assert load["lost"] / COUNT == pytest.approx(0.2, abs=0.036)
    assert load["duplicated"] / (COUNT - load["lost"]) == pytest.approx(0.1, abs=0.030)
    assert load["messages"] == COUNT


def test_jitter_lets_messages_overtake_within_its_bounds() -> None:
    came, _ = sent(LinkQuality(jitter_s=0.05))
    delays = [at - number / 100 for at, number in came]
    assert min(delays) >= 0.005
    assert 0.050 < max(delays) <= 0.0551
    numbers = [number for _, number in came]
    assert sorted(numbers) == list(range(COUNT))
    assert numbers != sorted(numbers)


def test_the_luck_of_a_link_depends_on_the_seed_and_not_on_other_links() -> None:
    quality = LinkQuality(loss=0.2, duplicate=0.1, jitter_s=0.01)
    assert sent(quality)[0] == sent(quality)[0]
    assert sent(quality)[0] != sent(quality, seed=2)[0]
    assert sent(quality)[0] == sent(quality, also=500)[0]


def test_messages_wait_for_a_narrow_link() -> None:
    size = message_bytes(Publish("a", 1, 1, trade(1).events))
    pair = Topology.of("ab", [("a", "b", 0.010, size / 0.002)])  # 2 ms for each
    routers = {"a": Pipe("a", ["b"]), "b": Pipe("b")}
    world = World(pair, lambda broker, _: routers[broker], costs=FREE, announce=False)
    for number, at in enumerate((1.000, 1.000, 1.003, 1.010)):
        world.put("a", trade(number), at=at)
    world.run()
    # The first two go one after the other, the third waits 1 ms for the second, the fourth finds the link free.
    assert [at for at, *_ in routers["b"].told] == [pytest.approx(at) for at in (1.012, 1.014, 1.016, 1.022)]
    load = world.link_loads().to_pylist()[0]
    assert (load["messages"], load["busy_s"]) == (4, pytest.approx(0.008))
    assert world.link_loads().to_pylist()[1]["messages"] == 0


def test_a_link_that_becomes_faster_keeps_the_order() -> None:
    pair = Topology.of("ab", [("a", "b", 0.5)])
    routers = {"a": Pipe("a", ["b"]), "b": Pipe("b")}
    world = World(pair, lambda broker, _: routers[broker], costs=FREE, announce=False)
    world.put("a", trade(1), at=1.0)
    world.delay("a", "b", 0.1, at=1.1)
    world.put("a", trade(2), at=1.2)
    world.put("a", trade(3), at=2.0)
    world.run()
    assert [(round(at, 6), input.message.events.ids[0].as_py()) for at, _, _, input in routers["b"].told] == [
        (1.5, 1),
        (1.5, 2),
        (2.1, 3),
    ]


@pytest.mark.parametrize(("name", "value"), [("loss", -0.1), ("duplicate", 1.1), ("jitter_s", float("nan"))])
def test_a_quality_that_cannot_be_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} goes from 0"):
        LinkQuality(**{name: value})
