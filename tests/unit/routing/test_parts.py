"""What brokers tell each other: batched changes, told on once, and what a neighbour lacks when a link comes up."""

from __future__ import annotations

from contentcast.language import parse_predicate
from contentcast.model import Space, Subscription, SubscriptionBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import (
    Effect,
    LinkLost,
    LinkUp,
    Received,
    Send,
    SetTimer,
    Subscribed,
    TimerFired,
    Unsubscribed,
)
from contentcast.routing.parts.interest import KEPT_CHANGES, PROPAGATE
from contentcast.routing.setup import Setup
from contentcast.routing.skeleton import Skeleton
from contentcast.wire import Interest, Known, Message, Neighbours

TRADES = Space("trades", issue="string", price="float")


def wants(number: int, text: str = "price < 120", subscriber: str = "desk-7") -> SubscriptionBatch:
    return SubscriptionBatch.of(Subscription(number, parse_predicate(TRADES, text), subscriber))


def sent(effects: list[Effect], kind: type[Message]) -> list[tuple[str, Message]]:
    return [(each.link, each.message) for each in effects if isinstance(each, Send) and isinstance(each.message, kind)]


def knowing(broker: str, setup: Setup) -> Skeleton:
    return Skeleton(broker, setup, with_interest=True)


def propagate(router: Skeleton) -> list[Effect]:
    return router.handle(TimerFired(PROPAGATE), 1.0)


def test_changes_are_gathered_and_told_as_one_version() -> None:
    a = knowing("a", Setup(propagate_after_s=0.05))
    a.handle(LinkUp("b"), 0.0)
    assert a.handle(Subscribed(wants(1)), 0.0) == [SetTimer(PROPAGATE, 0.05)]
    assert a.handle(Subscribed(wants(2)), 0.01) == [], "the timer is set already"
    a.handle(Subscribed(wants(3)), 0.02)
    a.handle(Unsubscribed((2, 99)), 0.03)
    ((link, told),) = sent(propagate(a), Interest)
    assert link == "b"
    assert isinstance(told, Interest)
    assert (told.since, told.version) == (0, 1)
    assert [each for batch in told.added for each in batch.ids.tolist()] == [1, 3], "2 came and went unheard"
    assert propagate(a) == [], "nothing is new"


def test_news_is_told_on_once_and_not_back() -> None:
    b = knowing("b", Setup())
    for link in "acd":
        b.handle(LinkUp(link), 0.0)
    news = Interest("a", 1, 0, 1, (wants(1),))
    assert [link for link, _ in sent(b.handle(Received("a", news), 0.0), Interest)] == ["c", "d"]
    assert b.handle(Received("c", news), 0.0) == [], "heard already"
    assert b.interest.audience(TRADES).ids.tolist() == [1]
    assert b.local.audience(TRADES).ids.tolist() == [], "not a client of b"


def test_a_gap_is_asked_for() -> None:
    b = knowing("b", Setup())
    b.handle(LinkUp("a"), 0.0)
    ((link, asked),) = sent(b.handle(Received("a", Interest("x", 1, 4, 5, (wants(1),))), 0.0), Known)
    assert link == "a"
    assert isinstance(asked, Known)
    assert asked.marks["x"].of("interests") == 0


def test_a_link_that_comes_up_brings_what_is_lacking_and_no_more() -> None:
    a, b = knowing("a", Setup()), knowing("b", Setup())
    a.handle(LinkUp("b"), 0.0)
    a.handle(Subscribed(wants(1)), 0.0)
    propagate(a)
    for effect in a.handle(Received("b", Known(b.versions.marks())), 0.0):
        assert isinstance(effect, Send)
        b.handle(Received("a", effect.message), 0.0)
    assert b.interest.audience(TRADES).ids.tolist() == [1]
    a.handle(Unsubscribed((1,)), 1.0)
    a.handle(Subscribed(wants(2)), 1.0)
    propagate(a)
    ((_, told),) = sent(a.handle(Received("b", Known(b.versions.marks())), 1.0), Interest)
    assert isinstance(told, Interest)
    assert (told.since, told.version, told.removed) == (1, 2, (1,))
    b.handle(Received("a", told), 1.0)
    assert b.interest.audience(TRADES).ids[b.interest.audience(TRADES).living].tolist() == [2]
    assert sent(a.handle(Received("b", Known(b.versions.marks())), 1.0), Interest) == [], "b has it all"


def test_who_has_missed_more_than_is_kept_gets_the_whole() -> None:
    a, b = knowing("a", Setup()), knowing("b", Setup())
    a.handle(LinkUp("b"), 0.0)
    for number in range(3 * KEPT_CHANGES):
        a.handle(Subscribed(wants(number)), float(number))
        if number % 2:
            a.handle(Unsubscribed((number - 1,)), float(number))
        for _, told in sent(propagate(a), Interest):
            if number < 3:
                b.handle(Received("a", told), 0.0)
    ((_, told),) = sent(a.handle(Received("b", Known(b.versions.marks())), 99.0), Interest)
    assert isinstance(told, Interest)
    assert told.since == 0
    b.handle(Received("a", told), 99.0)
    assert b.state()["subscriptions"]["a"] == a.state()["subscribed"]


def test_a_broker_that_started_again_is_believed_and_its_earlier_life_forgotten() -> None:
    b = knowing("b", Setup())
    b.handle(LinkUp("a"), 0.0)
    b.handle(Received("a", Interest("a", 1, 0, 7, (wants(1), wants(2)))), 0.0)
    b.handle(Received("a", Neighbours("a", 2, 1, (("b", 0.01),))), 1.0)
    assert len(b.interest.audience(TRADES)) == 0
    b.handle(Received("a", Interest("a", 2, 0, 1, (wants(2),))), 1.0)
    assert b.handle(Received("c", Interest("a", 1, 7, 8, (wants(5),))), 1.0) == [], "old news"
    assert b.state()["subscriptions"] == {"a": [2]}


def test_a_link_is_there_when_both_ends_say_so() -> None:
    b = knowing("b", Setup())
    b.handle(LinkUp("a", 0.02), 0.0)
    assert not b.view.topology.links, "a has not said so yet"
    b.handle(Received("a", Neighbours("a", 1, 1, (("b", 0.02), ("c", 0.03)))), 0.0)
    assert [(each.one, each.other, each.delay_s) for each in b.view.topology.links] == [("a", "b", 0.02)]
    b.handle(LinkLost("a"), 1.0)
    assert not b.view.topology.links
    assert b.handle(LinkLost("a"), 1.0) == [], "it was lost already"


def test_a_configured_network_needs_no_telling_until_something_changes() -> None:
    line = Topology.of("abc", [("a", "b"), ("b", "c")])
    b = knowing("b", Setup(topology=line))
    assert b.view.topology == line
    ((link, _),) = sent(b.handle(LinkUp("a", line.link("a", "b").delay_s), 0.0), Known)
    assert link == "a"
    told = sent(b.handle(LinkLost("c"), 0.0), Neighbours)
    assert [link for link, _ in told] == ["a"]
    assert b.view.onward("a") == ()
    again = knowing("b", Setup(topology=line, incarnation=2))
    assert again.versions.links == {}, "who starts again is told which links work"
