"""A small LAN in virtual time for the stories of this folder: four servers, trades, and a mapping by issue."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from contentcast.catalog import make_router
from contentcast.language import advertisement, subscription
from contentcast.model import EventBatch, Space, SubscriptionBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import Effect, Input, Published, Received, Subscribed
from contentcast.routing.multicast import MappingId, MappingSpecification, Multicast, Row
from contentcast.routing.multicast.agreement import proposal_of
from contentcast.routing.setup import Life, Setup
from contentcast.simulation.trace import Trace
from contentcast.simulation.ways.segment import SegmentPlan
from contentcast.simulation.world import World

TRADES = Space("trades", issue="string", price="float")
LAN = Topology.of(["a", "b", "c", "d"], [])
G = "udp_ipm://239.192.10.{}:6666"


def wish(number: int, text: str, client: str) -> Subscribed:
    return Subscribed(SubscriptionBatch.of(subscription(TRADES, number, text, subscriber=client)))


def trades(first: int, count: int = 1) -> Published:
    dicts = [{"issue": "IBM" if at % 2 else "SAP", "price": float(at % 100)} for at in range(first, first + count)]
    return Published(EventBatch.from_dicts(TRADES, dicts, ids=list(range(first, first + count))))


def by_issue(*issues: str, first: int = 1, id: MappingId | None = None) -> MappingSpecification:
    every = dict.fromkeys(TRADES.names, "ANY")
    rows = [
        Row(advertisement(TRADES, at, {**every, "issue": f"issue = '{issue}'"}), G.format(first + at))
        for at, issue in enumerate(issues)
    ]
    return MappingSpecification(tuple(rows), id=id or MappingId())


def world(seed: int = 1, *, loss: float = 0.0, join_s: float = 0.0, trace: Trace | None = None, **options: object) -> World:
    plan = SegmentPlan(loss=loss, join_s=join_s)
    return World(LAN, make_router("multicast", **options), seed=seed, segments=[plan], trace=trace, codec=True)


def until(world: World, fact: object, most_s: float = 60.0) -> None:
    """Lets time pass until the fact holds."""
    end = world.now + most_s
    while not fact():  # type: ignore[operator]
        assert world.now < end, "it never came true"
        world.run(until=world.now + 0.1)


def knows(world: World, one: str, other: str, wants: int) -> bool:
    member = world.router(one).state()["members"].get(other)
    return member is not None and len(member["wants"]) == wants and not member["lacks"]


class Operated(Multicast):
    """A server whose operator proposes a mapping at a time: what a host does with a message of `contentcast lan map set`."""

    plans: ClassVar[dict[str, list[tuple[float, MappingSpecification]]]] = {}

    def handle(self, input: Input, now: float) -> list[Effect]:
        due = [each for each in self.plans.get(self.broker, ()) if each[0] <= now]
        effects = super().handle(input, now)
        for each in due:
            self.plans[self.broker].remove(each)
            effects += super().handle(Received("operator", replace(proposal_of(each[1]), number=0)), now)
        return effects


def operated(seed: int, plans: dict[str, list[tuple[float, MappingSpecification]]], **more: object) -> World:
    Operated.plans = plans

    def make(broker: str, life: Life) -> Multicast:
        return Operated(broker, Setup().living(life), mapping=by_issue("IBM", "SAP"))

    return World(LAN, make, seed=seed, codec=True, segments=[SegmentPlan(join_s=0.01)], **more)  # type: ignore[arg-type]
