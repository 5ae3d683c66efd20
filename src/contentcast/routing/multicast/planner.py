"""A mapping specification from measured traffic: which flows share a group when there are fewer groups than flows.

Source: announced in Eide et al. 2003, section 7; the rule of thumb is their section 4.3.5. A *flow* is a part of a space with
its measured load and the servers that want it. A server joins every group that carries a flow it wants, and discards the rest
of the group. The objective is what servers receive and discard, in bytes a second:

    for each group, for each server that joins it:   the load of the group's flows that the server does not want

On a switched LAN that is wasted bandwidth and work; on a broadcast LAN every frame passes every interface anyway, and it is
wasted work alone. So the best plan is the same on both, and `Costs.links` says what either carries. A switch and an interface
tell groups apart by their Ethernet addresses: of groups that share one, `usable` leaves one, since two would not part anything.
Greedy: every flow has a group of its own; the two groups whose union costs least more are joined until few enough are left;
then single flows move while that costs less.
Rule: `plan` never costs more than one group for all, nor than the paper's rule of thumb.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.language import advertisement, parse_predicate, print_predicate
from contentcast.matching.learnt import LearntPlan
from contentcast.model import Conjunction, Constraint, EventBatch, Predicate, Ranges, Space, overlaps
from contentcast.routing.multicast.groups import Group, MappingError
from contentcast.routing.multicast.mapping import CONTROL, MappingId, MappingSpecification, Row
from contentcast.wire.encodings.sizes import event_bytes

MOST_EXACT: Final = 9
"""Flows of which all partitions are tried: 21,147 of them for nine."""
Plan = tuple[tuple[int, ...], ...]
"""For each group the numbers of its flows; ascending."""


@dataclass(frozen=True, slots=True)
class Flow:
    """`value` of `attribute` in `space`, its load in bytes a second, and the servers that want some of it."""

    space: Space
    attribute: str
    value: str | int | bool
    load: float
    wanted: frozenset[str]

    def text(self) -> str:
        points = Constraint(Ranges.points(self.space.kinds[self.attribute], [self.value]))
        return print_predicate(Predicate.of(self.space, [Conjunction.of(self.space, {self.attribute: points})]))


def flows(events: EventBatch, attribute: str, wants: dict[str, Predicate], seconds: float) -> list[Flow]:
    """The flows of a sample of events, one for each value of an attribute; the heaviest first.

    `wants`: what each server wants. `seconds`: how long the sample took.
    """
    space = events.space
    if space[attribute].kind not in ("string", "int", "bool"):
        raise MappingError(f"{attribute} is {space[attribute].kind}; events are split by a string, an int or a bool")
    sizes = event_bytes(events)
    found = []
    coded = events.records.column(space.position(attribute)).dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for code, value in enumerate(coded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        dicts = events.take(rows).to_dicts()
        wanted = frozenset(name for name, predicate in wants.items() if any(map(predicate.accepts, dicts)))
        found.append(Flow(space, attribute, value, float(sizes[rows].sum()) / seconds, wanted))
    return sorted(found, key=lambda flow: (-flow.load, str(flow.value)))


def learnt_flows(learnt: LearntPlan, load: float) -> list[Flow]:
    """The flows of a history that Spark's `learn` has counted. `load`: of all its events together, in bytes a second.

    A flow is a value of the attribute by which the history tells who wants what; brokers are servers.
    """
    split = learnt.by_value
    if split is None:
        raise MappingError("the plan does not say who wants which values; learn from subscriptions with a column `broker`")
    space = Space.from_dict(learnt.space)
    share = {each.value: each.share for each in learnt.attributes[split.attribute].values}
    found = [
        Flow(
            space,
            split.attribute,
            value,
            load * share.get(value, 0.0),
            frozenset(broker for broker, shares in split.shares.items() if shares[at] > 0),
        )
        for at, value in enumerate(split.values)
    ]
    return sorted(found, key=lambda flow: (-flow.load, str(flow.value)))


def with_promises(measured: Sequence[Flow], promises: Iterable[tuple[Predicate, float]]) -> list[Flow]:
    """A flow that a publisher has promised more of than was measured weighs what was promised.

    A promise is what an advertisement allows, and its rate in bytes a second; it counts for the flows that overlap it, each by
    its share of what was measured of them.
    """
    load = [flow.load for flow in measured]
    for predicate, rate in promises:
        mine = [at for at, flow in enumerate(measured) if flow.space.name == predicate.space.name and _meets(flow, predicate)]
        known = sum(measured[at].load for at in mine)
        for at in mine:
            share = measured[at].load / known if known else 1 / len(mine)
            load[at] = max(load[at], rate * share)
    return [replace(flow, load=each) for flow, each in zip(measured, load, strict=True)]


def promised_flows(
    space: Space, attribute: str, promises: Iterable[tuple[Predicate, float]], wants: dict[str, Predicate], known: set[Any]
) -> list[Flow]:
    """Flows that were promised and not measured: a value for each that a promise names and that is not `known`.

    Their load is 0, until `with_promises` gives them what was promised.
    """
    found: dict[Any, Flow] = {}
    for predicate, _ in promises:
        for conjunction in predicate.conjunctions:
            constraint = conjunction.get(attribute)
            for value in () if constraint is None else constraint.ranges.values() or ():
                if value in known or value in found:
                    continue
                flow = Flow(space, attribute, value, 0.0, frozenset())
                mine = parse_predicate(space, flow.text()).intersect(predicate)
                wanted = frozenset(name for name, each in wants.items() if overlaps(each, mine))
                found[value] = replace(flow, wanted=wanted)
    return list(found.values())


def _meets(flow: Flow, predicate: Predicate) -> bool:
    return overlaps(parse_predicate(predicate.space, flow.text()), predicate)


# --- what a plan costs


class Costs:
    """Of plans over these flows."""

    def __init__(self, chosen: Sequence[Flow]) -> None:
        self.servers = sorted({name for flow in chosen for name in flow.wanted})
        self.load: npt.NDArray[np.float64] = np.array([flow.load for flow in chosen])
        self.wants: npt.NDArray[np.bool_] = np.array(
            [[name in flow.wanted for name in self.servers] for flow in chosen], bool
        ).reshape(len(chosen), len(self.servers))

    def group(self, members: Sequence[int]) -> float:
        """Bytes a second that servers receive over this group and discard."""
        rows = list(members)
        wants, load = self.wants[rows], self.load[rows]
        joined = wants.any(axis=0)
        return float((load[:, None] * (~wants & joined)).sum())

    def of(self, plan: Plan) -> float:
        return sum(map(self.group, plan))

    def links(self, plan: Plan, *, broadcast: bool = False) -> float:
        """Bytes a second over the interfaces of all servers that want something.

        On a switched LAN each gets the groups that it has joined; on a broadcast LAN each gets everything that is sent.
        """
        if broadcast:
            return float(self.load[self.wants.any(axis=1)].sum()) * len(self.servers)
        return float(sum(self.load[list(each)].sum() * self.wants[list(each)].any(axis=0).sum() for each in plan))


# --- plans


def plan(chosen: Sequence[Flow], groups: int) -> Plan:
    """Flows in at most so many groups."""
    if groups < 1:
        raise MappingError(f"at least one group is needed, got {groups}")
    costs = Costs(chosen)
    candidates = [_improved(_merged(costs, groups), costs, groups), _improved(rule_of_thumb(chosen, groups), costs, groups)]
    return min(candidates, key=costs.of)


def _merged(costs: Costs, groups: int) -> Plan:
    parts: list[tuple[int, ...]] = [(each,) for each in range(len(costs.load))]
    while len(parts) > groups:
        alone = [costs.group(each) for each in parts]
        pairs = ((at, other) for at in range(len(parts)) for other in range(at + 1, len(parts)))
        at, other = min(pairs, key=lambda pair: costs.group(parts[pair[0]] + parts[pair[1]]) - alone[pair[0]] - alone[pair[1]])
        parts[at] += parts.pop(other)
    return _ordered(parts)


def _improved(given: Plan, costs: Costs, groups: int) -> Plan:
    """Moves single flows to other groups, or to a new one, while that costs less."""
    parts = [list(each) for each in given]
    better = True
    while better:
        better = False
        for flow in range(len(costs.load)):
            source = next(each for each in parts if flow in each)
            without = [each for each in source if each != flow]
            saved = costs.group(source) - (costs.group(without) if without else 0.0)
            targets = [each for each in parts if each is not source] + ([[]] if len(parts) < groups else [])
            for target in targets:
                added = costs.group([*target, flow]) - (costs.group(target) if target else 0.0)
                if added < saved - 1e-9:
                    source.remove(flow)
                    if not target:
                        parts.append(target)
                    target.append(flow)
                    parts = [each for each in parts if each]
                    better = True
                    break
    return _ordered(parts)


def rule_of_thumb(chosen: Sequence[Flow], groups: int) -> Plan:
    """The paper's heuristic: what is heavy and not of interest to all has a group of its own; the rest shares one."""
    everybody = {name for flow in chosen for name in flow.wanted}
    order = sorted(range(len(chosen)), key=lambda each: -chosen[each].load)
    alone = [each for each in order if chosen[each].wanted != everybody][: groups - 1]
    rest = [each for each in range(len(chosen)) if each not in alone]
    return _ordered([*([each] for each in alone), *([rest] if rest else [])])


def best(chosen: Sequence[Flow], groups: int) -> Plan:
    """The optimum, by trying all partitions: for few flows."""
    if len(chosen) > MOST_EXACT:
        raise MappingError(f"all partitions of {len(chosen)} flows are too many; `plan` does without them")
    costs = Costs(chosen)
    return min((_ordered(each) for each in _partitions(len(chosen), groups)), key=costs.of, default=())


def _partitions(count: int, groups: int) -> Iterator[list[list[int]]]:
    def place(flow: int, parts: list[list[int]]) -> Iterator[list[list[int]]]:
        if flow == count:
            yield [list(each) for each in parts]
            return
        for each in parts:
            each.append(flow)
            yield from place(flow + 1, parts)
            each.pop()
        if len(parts) < groups:
            parts.append([flow])
            yield from place(flow + 1, parts)
            parts.pop()

    return place(0, [])


def _ordered(parts: Iterable[Iterable[int]]) -> Plan:
    return tuple(sorted(tuple(sorted(each)) for each in parts))


def usable(groups: Iterable[str], control: str = CONTROL) -> list[str]:
    """Of groups that share an Ethernet address with each other, or with the control group, the first: a switch sees but one."""
    taken = {Group.of(control).ethernet}
    found = []
    for text in groups:
        group = Group.of(text)
        if group.ethernet not in taken:
            taken.add(group.ethernet)
            found.append(str(group))
    return found


def mapping(
    chosen: Sequence[Flow], made: Plan, *, control: str = CONTROL, groups: Sequence[str] | None = None
) -> MappingSpecification:
    """The plan as a mapping specification, over these groups or those after the control group; one more takes the rest."""
    base = Group.of(control)
    names = [str(base.following(1 + at)) for at in range(len(made) + 1)] if groups is None else usable(groups, control)
    if len(names) <= len(made):
        raise MappingError(
            f"a plan of {len(made)} groups needs {len(made) + 1} with Ethernet addresses of their own, "
            f"and there are {len(names)}"
        )
    rows: list[Row] = []
    for number, members in enumerate(made):
        by_attribute: dict[tuple[Space, str], list[str]] = {}
        for each in members:
            flow = chosen[each]
            by_attribute.setdefault((flow.space, flow.attribute), []).append(flow.text())
        for (space, attribute), texts in by_attribute.items():
            filter = {**dict.fromkeys(space.names, "ANY"), attribute: texts}
            rows.append(Row(advertisement(space, len(rows), filter), names[number]))
    return MappingSpecification(tuple(rows), (names[len(made)],), control, MappingId())
