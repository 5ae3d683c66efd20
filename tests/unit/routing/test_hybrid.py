"""The hybrid learns where a Maybe nearly always becomes a Yes; it never misses, and guesses only when told it may."""

from __future__ import annotations

from contentcast.catalog import make_router
from contentcast.hosting.instant import Instant
from contentcast.language import parse_predicate
from contentcast.model import EventBatch, Space, Subscription, SubscriptionBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import Account, Deliver, Effect, Input, Published, Send, Subscribed
from contentcast.routing.link_matching import Hybrid, LinkMatching
from contentcast.routing.setup import Setup

SPACE = Space("numbers", x="int", y="int")
PAIR = Topology.of("ab", [("a", "b")])
# 19 of 20 events are wanted at b: to know it for certain takes a step into the tree, to guess it takes none.
EVENTS = EventBatch.from_dicts(SPACE, [{"x": number % 20, "y": number % 3} for number in range(2000)])


class Counted:
    def __init__(self, threshold: float | None, wanted: dict[str, float] | None = None) -> None:
        self.copies = self.deliveries = self.steps_at_a = 0
        make = LinkMatching if threshold is None else lambda broker, setup: Hybrid(broker, setup, threshold=threshold)
        self.network = Instant(PAIR, make_router(make, Setup(topology=PAIR, wanted=wanted or {})), self.watch)  # type: ignore[operator]
        asked = [Subscription(x, parse_predicate(SPACE, f"x = {x} AND y < 5"), f"client-{x}") for x in range(19)]
        self.network.put("b", Subscribed(SubscriptionBatch.of(asked)))

    def watch(self, broker: str, input: Input, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(message=message) if hasattr(message, "events"):
                    self.copies += len(message.events)
                case Deliver(rows=rows):
                    self.deliveries += len(rows)
                case Account(steps=steps) if broker == "a":
                    self.steps_at_a += int(steps.sum())

    def publish(self) -> Counted:
        for begin in range(0, len(EVENTS), 100):
            self.network.put("a", Published(EVENTS.slice(begin, 100)))
        return self


def test_it_saves_steps_and_pays_in_copies() -> None:
    exact, hybrid = Counted(None).publish(), Counted(0.9).publish()
    assert exact.copies == exact.deliveries == hybrid.deliveries == 1900
    assert 1900 < hybrid.copies <= 2000
    assert hybrid.steps_at_a < exact.steps_at_a


def test_above_one_it_never_guesses_and_at_zero_it_always_does() -> None:
    never, always = Counted(1.1).publish(), Counted(0.0).publish()
    assert never.copies == 1900
    assert always.copies > 1990, "all but those before it had learnt anything"
    assert never.deliveries == always.deliveries == 1900


def test_it_does_not_guess_where_few_events_are_wanted() -> None:
    hybrid = Counted(0.96).publish()
    assert hybrid.copies == 1900, "0.95 is not enough"


def test_what_was_learnt_survives_a_new_subscription() -> None:
    hybrid = Counted(0.9).publish()
    before = hybrid.copies
    new = Subscription(99, parse_predicate(SPACE, "x = 19 AND y = 7"), "client-99")
    hybrid.network.put("b", Subscribed(SubscriptionBatch.of(new)))
    hybrid.publish()
    assert hybrid.deliveries == 2 * 1900
    assert hybrid.copies - before >= 1900


def test_what_a_history_says_spares_the_first_events() -> None:
    alone, told = Counted(0.9).publish(), Counted(0.9, {"a": 0.1, "b": 0.95}).publish()
    assert told.deliveries == alone.deliveries == 1900
    assert told.steps_at_a < alone.steps_at_a
    first = Counted(0.9, {"b": 0.95})
    first.network.put("a", Published(EVENTS.slice(19, 1)))  # nobody wants it, but that is not yet known
    assert first.copies == 1


def test_a_history_that_was_wrong_misses_nothing() -> None:
    for share in (0.0, 0.2, 1.0):
        told = Counted(0.9, {"b": share, "elsewhere": 1.0}).publish()
        assert told.deliveries == 1900
        assert told.copies <= 2000
