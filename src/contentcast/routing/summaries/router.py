"""Algorithm 3: an event goes from examiner to examiner, with the list of brokers whose subscriptions have been checked.

Source: Triantafillou & Economides 2004, section 4.3 and Example 3. Each event carries BROCLI, the Broker Check List.

    1 publishes    has merged 1          checked 1          hands it to 5, which has the highest degree of those not checked
    5 examines     has merged 1 ... 6    checked 1 ... 6    hands it to 4, whose summary matches, and to 8
    8 examines     has merged 7 ... 10   checked 1 ... 10   hands it to 11
    11 examines    has merged 11 ... 13  all are checked    hands it to 13, whose summary matches

An examiner serves its own clients too; an owner only does that. Both test exactly: a summary may say yes wrongly.
Beyond the paper, `side_by_side`: the broker where an event enters divides all that is left among the examiners and asks them at
once. They are as many as before, but the last delivery is two hops away.
Rule: a broker is examined by at most one other for each event, since examiners add to the list what they have merged before it
goes on. While brokers disagree about the network it may be asked twice; what it served or examined before, it passes over.
"""

from __future__ import annotations

from typing import Self

from contentcast.matching.summaries import Precision
from contentcast.network.topology import Topology
from contentcast.routing.contract import Account, Effect, Input, Published, Received, SendTo
from contentcast.routing.parts.seen import Seen
from contentcast.routing.setup import Setup
from contentcast.routing.skeleton import Skeleton
from contentcast.routing.summaries.handing import Handing
from contentcast.routing.summaries.propagation import ITERATION_S, Propagation
from contentcast.wire import NO_HEADER, Header, Publish
from contentcast.wire.summaries import Arrived, Handed


class Summaries(Skeleton):
    """`precision` (see `Precision.of`) and `subsumption` are of the own clients' summary; `virtual_degree`: no broker counts as
    having more neighbours, 0 is no bound; `tell_highest`: summaries go to the neighbour of the highest degree. All brokers have
    the same options."""

    def __init__(
        self,
        broker: str,
        setup: Setup,
        *,
        side_by_side: bool = False,
        virtual_degree: int = 0,
        tell_highest: bool = False,
        subsumption: bool = False,
        precision: Precision | str = "exact",
        iteration_s: float = ITERATION_S,
    ) -> None:
        super().__init__(broker, setup)
        self.side_by_side = side_by_side
        self.propagation = Propagation(
            broker,
            self.versions,
            self.view,
            self.local,
            precision=precision if isinstance(precision, Precision) else Precision.of(precision),
            subsumption=subsumption,
            virtual_degree=virtual_degree,
            tell_highest=tell_highest,
            iteration_s=iteration_s,
        )
        self.handing = Handing(setup.incarnation, self._delay_s)
        self.parts[self.parts.index(self.local)] = self.propagation
        self.parts.append(self.handing)
        self._examined = Seen()
        self._topology: Topology | None = None

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Published(events):
                entering = self.publishing.publish(self.spaces.fit(events))
                return [effect for each in entering for effect in self._enter(each, now)]
            case Received(sender, Handed(number, Publish() as publish)):
                return [SendTo(sender, Arrived(number)), *self._come(publish, now)]
            case _:
                return [*super().handle(input, now), *self._rescue(now)]

    def rehearsal(self) -> Self:
        made = super().rehearsal()
        made.handing = Handing(self.setup.incarnation, self._delay_s)
        made._examined = Seen()
        return made

    def _enter(self, publish: Publish, now: float) -> list[Effect]:
        self._examined.fresh(publish)
        return [*self.local.serve(publish.events), *self._examine(publish, now)]

    def _come(self, publish: Publish, now: float) -> list[Effect]:
        """As one who owns subscriptions that may match, or (there is a list) as one who examines."""
        effects: list[Effect] = []
        unserved = self.publishing.fresh(publish)
        if unserved is not None:
            effects += self.local.serve(self._fitted(unserved).events)
        if publish.header.checked:
            unexamined = self._examined.fresh(publish)
            if unexamined is not None:
                effects += self._examine(self._fitted(unexamined), now)
        return effects

    # --- Algorithm 3

    def _examine(self, publish: Publish, now: float) -> list[Effect]:
        checked = frozenset(publish.header.checked)
        merged = self.propagation.merged()
        effects: list[Effect] = []
        if len(merged - checked) > 1:
            owners, steps = self.propagation.examination(publish.events.space).owners(publish.events)
            if self.setup.count_steps:
                effects.append(Account(publish.events, steps))
            for owner, rows in owners:
                if owner not in checked:
                    part = publish if len(rows) == len(publish.events) else publish.take(rows)
                    effects += self.handing.hand(owner, part.with_header(NO_HEADER), now)
        return [*effects, *self._pass_on(publish, checked | merged, now)]

    def _pass_on(self, publish: Publish, checked: frozenset[str], now: float) -> list[Effect]:
        """To the next examiner with the whole list; side by side, to each with all but its share on the list."""
        degrees = self.propagation.degrees
        reachable = degrees.reachable(self.broker)
        left = reachable - checked
        if not left:
            return []
        if not self.side_by_side:
            return self._ask(degrees.examiner(self.broker, left), publish, checked, now)
        shares = degrees.shares(self.broker, left)
        asked = [self._ask(examiner, publish, (checked | reachable) - share, now) for examiner, share in shares]
        return [effect for effects in asked for effect in effects]

    def _ask(self, examiner: str, publish: Publish, checked: frozenset[str], now: float) -> list[Effect]:
        return self.handing.hand(examiner, publish.with_header(Header(checked=tuple(sorted(checked)))), now)

    def _rescue(self, now: float) -> list[Effect]:
        """When brokers can no longer be reached, what they should have examined for others goes to the next in turn."""
        topology = self.view.topology
        if topology is self._topology:
            return []
        self._topology = topology
        stranded = self.handing.stranded(self.propagation.degrees.reachable(self.broker))
        asked = [self._pass_on(each, frozenset(each.header.checked), now) for each in stranded if each.header.checked]
        return [effect for effects in asked for effect in effects]

    def _delay_s(self, broker: str) -> float:
        topology = self.propagation.degrees.topology  # one object for all brokers of a process, so its ways are found once
        return float(topology.distances[topology.number(self.broker), topology.number(broker)]) if broker in topology else 0.0
