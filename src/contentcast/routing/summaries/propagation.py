"""Algorithm 2: once in a period each broker tells one neighbour what it has merged, in the order of their degrees.

Source: Triantafillou & Economides 2004, section 4.2. A period has an iteration for each degree that there is; `Degrees` says
whom a broker tells. The periods begin at whole multiples of their length, so brokers whose clocks agree act in turn:

    0.0       0.1             0.2              0.3            0.4        one period of figure 7 has four iterations
              1 tells 2       2 tells 5        (8, 11)        (5)        and a pause in which changes are gathered

Departs from it in what the paper leaves out. A broker with nothing new is silent. A period tells the difference to what this
neighbour was told before. What comes too late (a slow link, a clock that differs) goes on in the next period. A neighbour whose
link comes up, or that lacks the version a difference leads from, is told everything anew; so crashes and partitions heal.
Rule: when nobody owes its target anything, every broker has the present summaries of exactly those that `Degrees.merged` names.
A copy from an earlier life of its owner, or of a broker that the degrees no longer bring here, is never examined.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from contentcast.matching.summaries import EXACT, Columns, Delta, Precision
from contentcast.matching.summaries.describe import describe
from contentcast.model import Space
from contentcast.model.errors import ContentcastError
from contentcast.network.topology import Topology
from contentcast.routing.contract import Effect, Input, LinkLost, LinkUp, Received, Send, SetTimer, Timer, TimerFired
from contentcast.routing.parts.local import Local
from contentcast.routing.parts.network_view import NetworkView
from contentcast.routing.parts.versions import Versions
from contentcast.routing.summaries.degrees import Degrees
from contentcast.routing.summaries.merged import Examination, Held, split_by_kinds
from contentcast.routing.summaries.own import OwnSummary
from contentcast.wire.summaries import Lacking, MergedBroker, Propagated

PERIOD: Final = Timer("summary period")
ITERATION_S: Final = 0.1
"""Longer than a link's delay: else a summary misses the next iteration and waits for the next period."""


@dataclass(slots=True)
class ToldOf:
    """What a neighbour was told of one broker."""

    incarnation: int
    versions: dict[str, int] = field(default_factory=dict)


class Propagation:
    """Takes the place of `Local` as a part: it hands clients' inputs down to it and summarises them."""

    def __init__(
        self,
        broker: str,
        versions: Versions,
        view: NetworkView,
        local: Local,
        *,
        precision: Precision = EXACT,
        subsumption: bool = False,
        virtual_degree: int = 0,
        tell_highest: bool = False,
        iteration_s: float = ITERATION_S,
    ) -> None:
        if virtual_degree < 0:
            raise ContentcastError(f"a virtual degree is at least 1, not {virtual_degree}; 0 stands for the real degrees")
        self.broker = broker
        self.local = local
        self._precision = precision
        self._versions, self._view = versions, view
        self._most, self._highest, self._iteration_s = virtual_degree or None, tell_highest, iteration_s
        self._own = OwnSummary(broker, precision, subsumption)
        self._own_changed = True
        self._held: dict[str, Held] = {broker: Held(broker, versions.incarnation)}
        self._told: dict[str, dict[str, ToldOf]] = {}
        """Neighbour -> broker -> what it was told since the link came up."""
        self._degrees: tuple[Topology, Degrees] | None = None
        self._looked_at: Topology | None = None
        self._changed = True
        self._alarm: float | None = None
        self._merged: frozenset[str] | None = None
        self._examinations: dict[Space, Examination] = {}

    def handle(self, input: Input, now: float) -> list[Effect]:
        effects: list[Effect] = []
        match input:
            case LinkUp(link):
                self._told[link] = {}
                self._changed = True
            case LinkLost(link):
                self._told.pop(link, None)
                self._changed = True
            case Received(sender, Propagated() as message):
                effects = self._hear(message, sender)
            case Received(sender, Lacking(brokers)):
                for each in brokers:
                    self._told.get(sender, {}).pop(each, None)
                self._changed = True
            case TimerFired(timer) if timer == PERIOD:
                self._alarm, self._changed = None, True
                effects = self._tell()
            case _:
                change = self.local.change(input)
                if change is not None:
                    self._own.note(change)
                    self._own_changed = self._changed = True
        return [*effects, *self._wait(now)]

    # --- periods

    @property
    def degrees(self) -> Degrees:
        topology = self._view.topology
        if self._degrees is None or self._degrees[0] is not topology:
            self._degrees = topology, Degrees.of(topology, self._most, highest=self._highest)
        return self._degrees[1]

    def _wait(self, now: float) -> list[Effect]:
        """Sets the timer for this broker's next iteration, if it will have something to tell then."""
        topology = self._view.topology
        if not self._changed and topology is self._looked_at:
            return []
        if topology is not self._looked_at:
            self._merged = None
        self._looked_at, self._changed = topology, False
        if not self._owes():
            return []
        at = self._next_iteration(now)
        if self._alarm == at:
            return []
        self._alarm = at
        return [SetTimer(PERIOD, at)]

    @property
    def period_s(self) -> float:
        """An iteration for each degree that there is, and a pause."""
        return (self.degrees.iterations + 1) * self._iteration_s

    def _next_iteration(self, now: float) -> float:
        begun = (now // self.period_s) * self.period_s
        at = begun + self.degrees.iteration(self.broker) * self._iteration_s
        return at if at > now else at + self.period_s

    def _owes(self) -> bool:
        target = self.degrees.target[self.broker]
        if target is None:
            return False
        return self._own_changed or any(True for _ in self._news(target))

    def _news(self, target: str) -> Iterable[tuple[Held, ToldOf | None]]:
        """The brokers of which the target was not told what is known here, in the order of their names."""
        told = self._told.setdefault(target, {})
        for origin in sorted(self.degrees.carried[self.broker]):
            held = self._held.get(origin)
            if held is None or held.incarnation < self._versions.mark(origin).incarnation:
                continue
            before = told.get(origin)
            if before is None or before.incarnation != held.incarnation:
                yield held, None
            elif before.versions != held.versions:
                yield held, before

    def _tell(self) -> list[Effect]:
        """This broker's iteration: the merged summary, as far as it is new, to the selected neighbour."""
        self._summarise()
        target = self.degrees.target[self.broker]
        if target is None:
            return []
        brokers: list[MergedBroker] = []
        wholes: dict[str, list[Columns]] = {}
        differences: list[Delta] = []
        for held, before in list(self._news(target)):
            brokers.append(MergedBroker(held.broker, held.incarnation, before is None))
            for space, part in held.parts().items():
                since = 0 if before is None else before.versions.get(space, 0)
                if since == part.versions[0]:
                    continue
                delta = held.delta(space, since)
                if delta is None:
                    wholes.setdefault(space, []).append(part)
                else:
                    differences.append(delta)
            self._told[target][held.broker] = ToldOf(held.incarnation, held.versions)
        if not brokers:
            return []
        summaries: list[Columns] = []
        for _, parts in sorted(wholes.items()):
            alike, others = split_by_kinds(parts)
            summaries += [Columns.joined(alike), *others]
        return [Send(target, Propagated(tuple(brokers), tuple(summaries), tuple(differences)))]

    def _summarise(self) -> None:
        """What the own clients changed becomes a version, unless nobody else would see a difference."""
        if self._own_changed:
            self._own_changed = False
            mine = self._held[self.broker]
            for space, part in self._own.parts().items():
                if mine.part(space) != part:
                    mine.take(part)

    # --- what others tell

    def _hear(self, message: Propagated, sender: str) -> list[Effect]:
        parts: dict[str, list[Columns]] = {}
        for summary in message.summaries:
            for part in Columns.of(summary).parts():
                parts.setdefault(part.brokers[0], []).append(part)
        deltas: dict[str, list[Delta]] = {}
        for delta in message.differences:
            deltas.setdefault(delta.broker, []).append(Delta.of(delta))
        lacking = []
        for name, incarnation, whole in message.brokers:
            held = self._life(name, incarnation, whole)
            if held is None:
                lacking += [name] if self._is_news(name, incarnation) else []
                continue
            for part in parts.get(name, ()):
                held.take(part)
            if not all([held.apply(each) for each in deltas.get(name, ())]):
                lacking.append(name)
        self._changed, self._merged = True, None
        return [Send(sender, Lacking(tuple(lacking)))] if lacking else []

    def _life(self, broker: str, incarnation: int, whole: bool) -> Held | None:
        """What is held of that life of the broker; a later one begins with nothing, if all of it comes now."""
        if not self._is_news(broker, incarnation):
            return None
        held = self._held.get(broker)
        if held is not None and held.incarnation == incarnation:
            return held
        if not whole:
            return None
        self._held[broker] = Held(broker, incarnation)
        return self._held[broker]

    def _is_news(self, broker: str, incarnation: int) -> bool:
        """Old news of an earlier life are passed over, and what others say of this broker."""
        held = self._held.get(broker)
        return broker != self.broker and (held is None or held.incarnation <= incarnation)

    # --- what follows from it

    def merged(self) -> frozenset[str]:
        """The paper's Merged_Brokers: those whose present summaries are here, this broker included."""
        topology = self._view.topology
        if self._merged is None or topology is not self._looked_at:
            self._looked_at, self._changed = topology, True
            self._examinations.clear()
            self._merged = frozenset(each for each in self.degrees.merged[self.broker] if self._is_present(each))
        return self._merged

    def _is_present(self, broker: str) -> bool:
        held = self._held.get(broker)
        return broker == self.broker or (held is not None and held.incarnation >= self._versions.mark(broker).incarnation)

    def examination(self, space: Space) -> Examination:
        """The merged summary of the other brokers, for events of this space."""
        others = self.merged() - {self.broker}
        found = self._examinations.get(space)
        if found is None:
            parts = (self._held[each].part(space.name) for each in sorted(others))
            found = self._examinations[space] = Examination(space, [each for each in parts if each is not None])
        return found

    def columns(self) -> dict[str, Columns]:
        """The merged summary of each space, this broker's own included, as values.

        Brokers that have an attribute with another kind than those before them are left out.
        """
        parts: dict[str, list[Columns]] = {space: [part] for space, part in self._own.parts().items()}
        for other in sorted(self.merged() - {self.broker}):
            for space, part in self._held[other].parts().items():
                parts.setdefault(space, []).append(part)
        return {space: Columns.joined(split_by_kinds(found)[0]) for space, found in sorted(parts.items())}

    # --- looking inside

    def sizes(self) -> dict[str, int]:
        merged = self.columns().values()
        arrays = [array for each in merged for rows in each.rows.values() for array in (rows.low, rows.high, rows.members)]
        return {
            **self.local.sizes(),
            "summary brokers": len(self.merged()),
            "summary entries": sum(map(len, merged)),
            "summary bytes": sum(each.nbytes for each in arrays) + sum(each.ids.nbytes for each in merged),
        }

    def state(self) -> dict[str, Any]:
        degrees = self.degrees
        return {
            **self.local.state(),
            "degree": degrees.degree[self.broker],
            "target": degrees.target[self.broker],
            "merged": sorted(self.merged()),
            "summaries": {space: describe(found, str(self._precision)) for space, found in self.columns().items()},
        }
