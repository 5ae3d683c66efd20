"""Summaries while things change: periods, differences, what is lacking, options, and events that come twice or not at all."""

from __future__ import annotations

from random import Random

import pytest

from contentcast.catalog import make_router, options_of, protocol
from contentcast.hosting.instant import Instant
from contentcast.language import subscription
from contentcast.matching.summaries import PAPER, Columns
from contentcast.model import EventBatch, Space, SubscriptionBatch
from contentcast.model.errors import ContentcastError
from contentcast.network.named import network
from contentcast.network.topology import Topology
from contentcast.routing.contract import (
    DIRECT,
    Declared,
    Deliver,
    Effect,
    Input,
    LinkUp,
    Published,
    Received,
    Router,
    Send,
    SendTo,
    SetTimer,
    Started,
    Subscribed,
    Timer,
    TimerFired,
    Unsubscribed,
)
from contentcast.routing.setup import Life, Setup
from contentcast.routing.summaries import Degrees, Summaries
from contentcast.routing.summaries.handing import HAND_AGAIN
from contentcast.routing.summaries.merged import Examination
from contentcast.routing.summaries.propagation import PERIOD
from contentcast.wire import Header, Publish, decode, encode
from contentcast.wire.summaries import Arrived, Handed, Lacking, Propagated
from tests.conformance.test_routers import a_network, check_exact

TRADES = Space("trades", issue="string", price="float")
STAR = Topology.of("abcx", [("a", "x"), ("b", "x"), ("c", "x")])


def wants(number: int, text: str, space: Space = TRADES) -> Subscribed:
    return Subscribed(SubscriptionBatch.of(subscription(space, number, text, subscriber=f"desk-{number}")))


def trade(number: int, price: float) -> EventBatch:
    return EventBatch.from_dicts(TRADES, [{"issue": "IBM", "price": price}], ids=[number])


def sent(effects: list[Effect], kind: type) -> list[object]:
    return [each.message for each in effects if isinstance(each, Send | SendTo) and isinstance(each.message, kind)]


def router(broker: str, topology: Topology = STAR, **options: object) -> Summaries:
    made = Summaries(broker, Setup(topology=topology), **options)  # type: ignore[arg-type]
    made.handle(Started(), 0.0)
    return made


def period(made: Summaries, now: float = 1.0) -> Propagated:
    (message,) = sent(made.handle(TimerFired(PERIOD), now), Propagated)
    assert isinstance(message, Propagated)
    return message


class Told:
    """Brokers in a network without time, and everything that they sent and delivered."""

    def __init__(self, topology: Topology, **options: object) -> None:
        self.messages: list[tuple[str, str, object]] = []
        self.delivered: list[tuple[str, int]] = []

        def make(broker: str, life: Life) -> Router:
            return Summaries(broker, Setup(topology=topology).living(life), **options)  # type: ignore[arg-type]

        self.network = Instant(topology, make, self.watch)

    def watch(self, broker: str, input: Input, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(other, message) | SendTo(other, message):
                    self.messages.append((broker, other, message))
                case Deliver():
                    self.delivered += [(who, each) for who, events in effect.each() for each in events.ids.to_pylist()]

    def hops(self) -> list[tuple[str, str]]:
        """The ways of events since the last call."""
        found = [(one, other) for one, other, message in self.messages if isinstance(message, Handed)]
        self.messages.clear()
        return found


# --- periods


def test_a_broker_waits_for_its_iteration_and_then_tells_what_is_new() -> None:
    """Degrees 1 and 3: a period has two iterations of 0.1 s and a pause."""
    a = Summaries("a", Setup(topology=STAR))
    assert a.handle(Started(), 0.0) == [SetTimer(PERIOD, 0.1)], "the first time it says that it is there"
    period(a, 0.1)
    assert a.handle(wants(1, "price < 9"), 0.15) == [SetTimer(PERIOD, pytest.approx(0.4))]
    assert a.handle(wants(2, "price < 8"), 0.2) == [], "the timer is set already"
    message = period(a, 0.4)
    assert [(each.name, each.whole) for each in message.brokers] == [("a", False)]
    assert [each.ids.tolist() for each in message.summaries] == [[1, 2]], "nothing was known of trades before"
    a.handle(wants(3, "price < 7"), 0.5)
    (difference,) = period(a, 0.7).differences
    assert (difference.ids.tolist(), difference.gone.tolist()) == ([3], [])
    assert a.handle(TimerFired(PERIOD), 1.0) == [], "nothing is new"


def test_the_broker_of_the_highest_degree_tells_nobody() -> None:
    x = Summaries("x", Setup(topology=STAR))
    assert x.handle(Started(), 0.0) == []
    assert x.handle(wants(1, "price < 9"), 0.0) == []


def test_in_a_period_at_most_one_message_leaves_each_broker() -> None:
    """Figure 9: on the backbone of 24 brokers, fewer messages than brokers, however many have new subscriptions."""
    backbone = network("cable-wireless-24")
    told = Told(backbone)
    for at, broker in enumerate(backbone.brokers):
        told.network._wait(broker, wants(at, f"price < {at}"))  # all in the same period
    told.messages.clear()
    told.network.settle()
    senders = [one for one, _, message in told.messages if isinstance(message, Propagated)]
    degrees = Degrees(backbone)
    assert sorted(senders) == [each for each in backbone.brokers if degrees.target[each] is not None]
    assert len(senders) < 24


def test_what_covers_nothing_new_is_told_to_nobody() -> None:
    """With subsumption a narrower subscription changes nothing that others see, and its owner still serves it."""
    told = Told(STAR, subsumption=True)
    told.network.put("a", wants(1, "price < 9"))
    told.messages.clear()
    told.network.put("a", wants(2, "price < 5"))
    assert not told.messages
    told.network.put("b", Published(trade(1, 3.0)))
    assert sorted(told.delivered) == [("desk-1", 1), ("desk-2", 1)]
    told.network.put("a", Unsubscribed((1,)))
    told.delivered.clear()
    told.network.put("b", Published(trade(2, 3.0)))
    told.network.put("b", Published(trade(3, 7.0)))
    assert told.delivered == [("desk-2", 2)]


def test_after_unsubscription_no_event_goes_there() -> None:
    told = Told(STAR)
    told.network.put("a", wants(1, "price < 9"))
    told.network.put("a", wants(2, "price > 100"))
    told.hops()
    told.network.put("b", Published(trade(1, 3.0)))
    assert told.hops() == [("b", "x"), ("x", "a")]
    told.network.put("a", Unsubscribed((1,)))
    told.hops()
    told.network.put("b", Published(trade(2, 3.0)))
    assert told.hops() == [("b", "x")]


# --- what is lacking


def test_a_neighbour_whose_link_comes_up_is_told_everything_anew() -> None:
    a = router("a")
    a.handle(wants(1, "price < 9"), 0.0)
    assert period(a).brokers[0].whole
    a.handle(LinkUp("x", 0.01), 2.0)
    again = period(a, 2.1)
    assert again.brokers[0].whole
    assert [each.ids.tolist() for each in again.summaries] == [[1]]


def test_a_difference_from_what_is_not_here_is_asked_for_whole() -> None:
    a, x = router("a"), router("x")
    a.handle(wants(1, "price < 9"), 0.0)
    period(a)  # x never gets it
    a.handle(wants(2, "price < 8"), 2.0)
    (lacking,) = sent(x.handle(Received("a", period(a, 2.1)), 2.2), Lacking)
    assert lacking == Lacking(("a",))
    assert "a" not in x.state()["merged"]
    a.handle(Received("x", lacking), 2.3)  # type: ignore[arg-type]
    x.handle(Received("a", period(a, 3.0)), 3.1)
    assert x.state()["merged"] == ["a", "x"]
    assert x.propagation.columns()["trades"].ids.tolist() == [1, 2]


def test_what_was_told_in_an_earlier_life_is_never_examined() -> None:
    x = router("x")
    later = Summaries("a", Setup(topology=STAR, incarnation=2))
    later.handle(LinkUp("x", 0.01), 0.0)
    first = router("a")
    first.handle(wants(1, "price < 9"), 0.0)
    x.handle(Received("a", period(first)), 1.0)
    assert x.propagation.merged() == {"a", "x"}
    for message in sent(later.handle(LinkUp("x", 0.02), 1.5), object):
        x.handle(Received("a", message), 1.6)  # type: ignore[arg-type]  # its links, in its new life
    assert x.propagation.merged() == {"x"}
    x.handle(Received("a", period(later, 2.0)), 2.1)
    assert x.propagation.merged() == {"a", "x"}
    assert not x.propagation.columns(), "in its new life it has no subscriptions yet"
    x.handle(Received("a", period(router("a"), 3.0)), 3.1)
    assert not x.propagation.columns(), "old news"


# --- events


def test_who_is_asked_as_an_owner_and_as_an_examiner_serves_once_and_examines_once() -> None:
    x, a = router("x"), router("a")
    a.handle(wants(1, "price < 9"), 0.0)
    x.handle(Received("a", period(a)), 1.0)
    x.handle(wants(2, "price < 9"), 1.0)
    as_owner = Publish("b", 1, 1, trade(7, 3.0))
    as_examiner = as_owner.with_header(Header(checked=("b",)))

    def come(number: int, publish: Publish) -> tuple[int, list[str]]:
        effects = x.handle(Received("b", Handed(number, publish), DIRECT), 2.0)
        assert sent(effects, Arrived) == [Arrived(number)], "every copy is acknowledged"
        to = [each.broker for each in effects if isinstance(each, SendTo) and isinstance(each.message, Handed)]
        return sum(isinstance(each, Deliver) for each in effects), to

    assert come(1, as_owner) == (1, [])
    assert come(2, as_examiner) == (0, ["a", "c"]), "a may want it; c is not checked yet"
    assert come(3, as_examiner) == (0, [])
    assert come(4, as_owner) == (0, [])


def test_what_is_not_acknowledged_is_sent_again() -> None:
    b = router("b")
    (handed,) = sent(b.handle(Published(trade(1, 3.0)), 1.0), Handed)
    again = next(each for each in b.handle(Published(trade(2, 3.0)), 1.1) if isinstance(each, SendTo))
    third = b.handle(Published(trade(3, 3.0)), 1.1)
    assert not any(isinstance(each, SetTimer) for each in third), "one timer for all that is on the way to a broker"
    assert isinstance(handed, Handed)
    b.handle(Received("x", Arrived(handed.number), DIRECT), 1.2)
    effects = b.handle(TimerFired(Timer(HAND_AGAIN, "x")), 9.0)
    numbers = [each.number for each in sent(effects, Handed) if isinstance(each, Handed)]
    assert handed.number not in numbers
    assert isinstance(again.message, Handed)
    assert numbers == [again.message.number, again.message.number + 1]
    assert any(isinstance(each, SetTimer) for each in effects), "and once more, if need be"


def test_a_batch_is_split_by_those_who_want_its_events() -> None:
    told = Told(STAR)
    told.network.put("a", wants(1, "price < 10"))
    told.network.put("b", wants(2, "price >= 5"))
    told.messages.clear()
    prices = [{"price": float(price)} for price in range(20)]
    told.network.put("c", Published(EventBatch.from_dicts(TRADES, prices, ids=range(20))))
    copies = {
        (one, other): message.message.events.ids.to_pylist()
        for one, other, message in told.messages
        if isinstance(message, Handed) and isinstance(message.message, Publish)
    }
    assert copies == {("c", "x"): [*range(20)], ("x", "a"): [*range(10)], ("x", "b"): [*range(5, 20)]}
    assert sorted(told.delivered) == [*(("desk-1", each) for each in range(10)), *(("desk-2", each) for each in range(5, 20))]


def test_a_space_gains_attributes_while_events_pass() -> None:
    """c3 grows: broker a asks for the new attribute before x and b have heard of it."""
    wider = Space("trades", issue="string", price="float", volume="int")
    told = Told(STAR)
    told.network.put("a", Declared(TRADES))
    told.network.put("a", wants(1, "price < 9"))
    told.network.put("c", Declared(wider))
    told.network.put("a", wants(2, "volume > 100", wider))
    told.network.put("b", Published(trade(1, 20.0)))
    told.network.put("b", Published(EventBatch.from_dicts(wider, [{"volume": 200}, {"price": 3.0}], ids=[2, 3])))
    assert sorted(told.delivered) == [("desk-1", 3), ("desk-2", 2)]


def test_an_attribute_of_another_kind_makes_a_broker_want_everything() -> None:
    a = router("a")
    a.handle(wants(1, "price < 9"), 0.0)
    part = Columns.of(period(a).summaries[0])
    texts = Space("trades", issue="string", price="string")
    events = EventBatch.from_dicts(texts, [{"price": "nine"}, {"price": "ten"}])
    ((owner, rows),), _ = Examination(texts, [part]).owners(events)
    assert (owner, rows.tolist()) == ("a", [0, 1])


def test_brokers_that_disagree_about_a_kind_are_told_side_by_side() -> None:
    """a and b call the same attribute differently; m, between them and the hub, cannot join their summaries."""
    texts = Space("trades", issue="string", price="string")
    tree = Topology.of("abmwxyz", [("a", "m"), ("b", "m"), ("m", "x"), ("x", "w"), ("x", "y"), ("x", "z")])
    told = Told(tree)
    told.network.put("a", wants(1, "price < 9"))
    told.network.put("b", wants(2, "price = 'nine'", texts))
    told.messages.clear()
    told.network.put("m", LinkUp("x"))
    ((one, other, message),) = [each for each in told.messages if isinstance(each[2], Propagated)]
    assert (one, other) == ("m", "x")
    assert isinstance(message, Propagated)
    assert [each.brokers for each in message.summaries] == [("a",), ("b",)]
    hub = told.network.routers["x"].state()
    assert hub["merged"] == ["a", "b", "m", "w", "x", "y", "z"]
    assert "a:1" in hub["summaries"]["trades"]


# --- options


OPTIONS: dict[str, dict[str, object]] = {
    "virtual degrees": {"virtual_degree": 2},
    "all degrees alike": {"virtual_degree": 1, "side_by_side": True},
    "to the highest degree": {"tell_highest": True},
    "subsumption": {"subsumption": True},
    "the paper's precision": {"precision": PAPER},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("seed", range(10))
def test_with_every_option_everybody_gets_what_matches_once(options: str, seed: int) -> None:
    check_exact(lambda broker, setup: Summaries(broker, setup, **OPTIONS[options]), Random(seed))  # type: ignore[arg-type]


def test_virtual_degrees_relieve_the_best_connected_broker() -> None:
    """Figure 7 of the paper again, where 5 is asked first by everybody: with degrees of at most 3 the nearest of 5, 8, 11."""
    links = "1-2 2-5 3-5 4-5 6-5 5-7 7-8 8-9 8-10 10-11 11-12 11-13"
    tree = Topology.of([str(each) for each in range(1, 14)], [tuple(each.split("-")) for each in links.split()])

    def first_asked(options: dict[str, object]) -> list[str]:
        told = Told(tree, **options)
        found = []
        for at, broker in enumerate(tree.brokers):
            told.hops()
            told.network.put(broker, Published(trade(at, 3.0)))
            found += [other for one, other in told.hops()[:1]]
        return found

    assert first_asked({}).count("5") == 12
    assert first_asked({"virtual_degree": 3}).count("5") == 7
    with pytest.raises(ContentcastError, match="at least 1"):
        router("a", virtual_degree=-1)


def test_every_option_can_be_told_as_text() -> None:
    """As on a command line and in a broker's configuration."""
    text = "summaries,virtual_degree=2,precision=general 8 rows,subsumption=true"
    net = Instant(STAR, make_router(text, Setup(topology=STAR)))
    net.put("x", wants(1, "price < 9"))
    state = net.routers["x"].state()
    assert state["degree"] == 2
    assert "as general as the paper's, at most 8 rows an attribute" in state["summaries"]["trades"]
    assert options_of(protocol("summaries")).keys() == {
        *("side_by_side", "virtual_degree", "tell_highest", "subsumption", "precision", "iteration_s")
    }


def test_telling_the_best_connected_neighbour_leaves_fewer_examiners() -> None:
    """On the paper's backbone: how many brokers look at an event, from each of the 24 where it may enter."""
    backbone = network("cable-wireless-24")

    def examiners(degrees: Degrees) -> float:
        asked = []
        for broker in backbone.brokers:
            checked, at, chain = degrees.merged[broker], broker, 1
            while left := frozenset(backbone.brokers) - checked:
                at = degrees.examiner(at, left)
                checked, chain = checked | degrees.merged[at], chain + 1
            asked.append(chain)
        return sum(asked) / len(asked)

    assert examiners(Degrees(backbone)) == pytest.approx(10.4, abs=0.3)
    assert examiners(Degrees(backbone, highest=True)) == pytest.approx(7.6, abs=0.3)


@pytest.mark.parametrize("seed", range(20))
def test_shares_are_all_brokers_each_once(seed: int) -> None:
    topology = a_network(Random(seed))
    degrees = Degrees(topology, Random(seed).choice([None, 1, 2]))
    for broker in topology.brokers:
        assert degrees.carried[broker] <= degrees.merged[broker]
        left = frozenset(topology.brokers) - degrees.merged[broker]
        shares = [share for _, share in degrees.shares(broker, left)]
        assert sorted(each for share in shares for each in share) == sorted(left)


# --- bytes


def test_the_messages_there_and_back() -> None:
    a = router("a")
    a.handle(wants(1, "price < 9 AND issue LIKE 'I%'"), 0.0)
    first = period(a)
    a.handle(wants(2, "price < 8"), 0.5)
    second = period(a, 2.0)
    for message in (first, second):
        came = decode(encode(message), {})
        assert isinstance(came, Propagated)
        assert came.brokers == message.brokers
        assert encode(came) == encode(message)
    assert decode(encode(Lacking(("a", "b"))), {}) == Lacking(("a", "b"))
    assert decode(encode(Arrived(7)), {}) == Arrived(7)
    events = Handed(8, Publish("a", 1, 1, trade(1, 3.0), Header(checked=("a", "b"))))
    came = decode(encode(events), {"trades": TRADES})
    assert isinstance(came, Handed)
    assert isinstance(came.message, Publish)
    assert (came.number, came.message.header.checked, came.message.events.ids.to_pylist()) == (8, ("a", "b"), [1])


def test_a_summary_is_a_table_that_a_person_can_read() -> None:
    told = Told(STAR)
    told.network.put("a", wants(1, "price < 9 AND issue = 'IBM'"))
    told.network.put("x", wants(2, "price > 20"))
    state = told.network.routers["x"].state()
    assert (state["degree"], state["target"], state["merged"]) == (3, None, ["a", "b", "c", "x"])
    assert state["summaries"]["trades"].splitlines()[1:] == [
        "attribute  row      entries",
        "issue      = 'IBM'  a:1",
        "price      < 9.0    a:1",
        "           > 20.0   x:2",
    ]
