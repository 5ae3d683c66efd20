"""The planner: never worse than the rule of thumb, near the optimum, and what it plans is a mapping that can be loaded."""

from random import Random

import pytest

from contentcast.language import parse_predicate
from contentcast.matching.learnt import AttributeFacts, LearntPlan, Split, ValueShare
from contentcast.model import EventBatch, Space
from contentcast.routing.multicast.groups import MappingError
from contentcast.routing.multicast.mapping_check import checked
from contentcast.routing.multicast.planner import (
    Costs,
    Flow,
    best,
    flows,
    learnt_flows,
    mapping,
    plan,
    promised_flows,
    rule_of_thumb,
    usable,
    with_promises,
)

VIDEO = Space("video", source="string", block="int")


def flow(value: str, load: float, wanted: str) -> Flow:
    return Flow(VIDEO, "source", value, load, frozenset(wanted))


def test_who_wants_the_same_shares_a_group() -> None:
    chosen = [flow("a", 10, "xy"), flow("b", 5, "xy"), flow("c", 7, "z")]
    assert plan(chosen, 2) == ((0, 1), (2,))
    assert Costs(chosen).of(plan(chosen, 2)) == 0
    assert Costs(chosen).of(plan(chosen, 1)) == 2 * 7 + 15


def test_a_heavy_stream_that_few_want_is_isolated() -> None:
    """Section 4.3.5 of the paper: the video stream leaves the group that everybody has joined."""
    chosen = [flow("camera", 1000, "x"), flow("ticks", 1, "xyz"), flow("alarms", 1, "yz")]
    assert plan(chosen, 2) == ((0,), (1, 2))
    assert rule_of_thumb(chosen, 2) == ((0,), (1, 2))


def random_flows(random: Random, count: int, servers: int) -> list[Flow]:
    names = [f"s{at}" for at in range(servers)]
    return [
        Flow(VIDEO, "source", f"v{at}", random.choice([1.0, 10.0, 100.0]) * random.random(), frozenset(wanted))
        for at in range(count)
        if (wanted := [each for each in names if random.random() < 0.4])
    ]


@pytest.mark.parametrize("seed", range(20))
def test_the_plan_is_near_the_optimum_and_not_above_the_rule_of_thumb(seed: int) -> None:
    random = Random(seed)
    chosen = random_flows(random, 7, 4)
    groups = random.randint(1, 4)
    costs = Costs(chosen)
    found, optimum, thumb = (costs.of(each(chosen, groups)) for each in (plan, best, rule_of_thumb))
    assert optimum <= found <= thumb + 1e-9
    assert found <= 1.25 * optimum + 1e-9


def test_many_flows_cost_a_fraction_of_the_rule_of_thumb() -> None:
    chosen = random_flows(Random(5), 60, 8)
    costs = Costs(chosen)
    assert costs.of(plan(chosen, 8)) < 0.9 * costs.of(rule_of_thumb(chosen, 8))


def test_flows_are_measured_from_events_and_become_a_mapping() -> None:
    dicts = [{"source": "c1" if at % 4 else "c2", "block": at} for at in range(40)]
    wants = {"x": parse_predicate(VIDEO, "source = 'c1'"), "y": parse_predicate(VIDEO, "block < 2")}
    events = EventBatch.from_dicts(VIDEO, dicts)
    chosen = flows(events, "source", wants, seconds=2.0)
    assert [(each.value, sorted(each.wanted)) for each in chosen] == [("c1", ["x", "y"]), ("c2", ["y"])]
    made = checked(mapping(chosen, plan(chosen, 2)))
    assert made.first(events).tolist() == [0 if at % 4 else 1 for at in range(40)]
    with pytest.raises(Exception, match="did you mean 'source'"):
        flows(events, "sorce", wants, 1.0)


def test_a_promise_weighs_what_was_not_measured_yet() -> None:
    measured = [flow("a", 10.0, "xy"), flow("b", 30.0, "z")]
    promises = [
        (parse_predicate(VIDEO, "source = 'a'"), 500.0),
        (parse_predicate(VIDEO, "source = 'b'"), 5.0),
        (parse_predicate(VIDEO, "source = 'elsewhere'"), 1e9),
    ]
    assert [each.load for each in with_promises(measured, promises)] == [500.0, 30.0]
    both = [(parse_predicate(VIDEO, "block > 3"), 400.0)]
    assert [each.load for each in with_promises(measured, both)] == [100.0, 300.0]  # by their shares of what was measured


def test_what_was_promised_and_never_sent_is_a_flow_too() -> None:
    """A camera that has advertised and not published anything has a place in the plan."""
    events = EventBatch.from_dicts(VIDEO, [{"source": "ticks", "block": 1}])
    everything = parse_predicate(VIDEO, "TRUE")
    wants = {"x": everything, "y": parse_predicate(VIDEO, "source = 'camera' AND block < 2"), "z": everything}
    promises = [
        (parse_predicate(VIDEO, "source IN ('camera', 'ticks') AND block < 10"), 5.0),
        (parse_predicate(VIDEO, "source = 'camera'"), 1e6),
        (parse_predicate(VIDEO, "source = 'door' AND block > 5"), 7.0),
        (parse_predicate(VIDEO, "source LIKE 'a%'"), 7.0),
    ]
    measured = flows(events, "source", wants, 1.0)
    known = {each.value for each in measured}
    found = with_promises([*measured, *promised_flows(VIDEO, "source", promises, wants, known)], promises)
    assert [(each.value, each.load, "".join(sorted(each.wanted))) for each in found] == [
        ("ticks", max(5.0, measured[0].load), "xz"),
        ("camera", 1e6, "xyz"),
        ("door", 7.0, "xz"),
    ]
    assert promised_flows(VIDEO, "block", promises[1:2], wants, set()) == []


def test_flows_from_what_spark_has_learnt() -> None:
    """`LearntPlan` as `learn` makes it: value x of the source is wanted at a and b, y at c only, z nowhere."""
    split = Split("source", ["x", "y", "z"], {"a": [0.5, 0, 0, 0], "b": [0.1, 0, 0, 0], "c": [0, 1.0, 0, 0]})
    values = [ValueShare("x", 0.7), ValueShare("y", 0.2)]
    about = AttributeFacts(
        stars=0, tests=3, selectivity=0.3, survivors=0.3, present=1.0, distinct=3, values=values, quantiles=[]
    )
    learnt = LearntPlan(
        space=VIDEO.to_dict(),
        events=10,
        subscriptions=3,
        attributes={"source": about},
        order=["source"],
        factored=[],
        steps=1.0,
        steps_before=1.0,
        matches=1.0,
        unwanted=0.1,
        idle=0,
        fan_out=[],
        wanted={"a": 0.4},
        by_value=split,
        flows=[],
    )
    found = learnt_flows(learnt, 1000.0)
    assert [(each.value, each.load, sorted(each.wanted)) for each in found] == [
        ("x", 700.0, ["a", "b"]),
        ("y", 200.0, ["c"]),
        ("z", 0.0, []),
    ]
    assert plan(found, 2) in (((0,), (1, 2)), ((0, 2), (1,)))


def test_groups_that_share_an_ethernet_address_are_one_to_a_switch() -> None:
    """239.192.10.1 and 239.64.10.1 have the low 23 bits in common, and so has 239.64.10.0 with the control group."""
    given = [
        "udp_ipm://239.64.10.0:6666",
        "udp_ipm://239.192.10.1:6666",
        "udp_ipm://239.64.10.1:6666",
        "udp_ipm://239.192.10.7",
    ]
    assert usable(given) == ["udp_ipm://239.192.10.1:6666", "udp_ipm://239.192.10.7:6666"]
    chosen = [flow(f"v{at}", 10.0, "xy"[at]) for at in range(2)]
    one = mapping(chosen, ((0, 1),), groups=given)
    assert [row.group for row in one.rows] == ["udp_ipm://239.192.10.1:6666"]
    assert one.otherwise == ("udp_ipm://239.192.10.7:6666",)
    with pytest.raises(MappingError, match="needs 3 with Ethernet addresses of their own, and there are 2"):
        mapping(chosen, ((0,), (1,)), groups=given)


def test_what_the_links_carry_on_a_switch_and_on_a_broadcast_lan() -> None:
    chosen = [flow(f"v{at}", 10.0 * (at + 1), "xy"[at]) for at in range(2)]
    costs = Costs(chosen)
    assert costs.links(((0,), (1,))) == 30  # each its own
    assert costs.links(((0, 1),)) == 60  # both get both
    assert costs.links(((0,), (1,)), broadcast=True) == costs.links(((0, 1),), broadcast=True) == 60
