"""Durable delivery, message by message: what each broker answers, what waits for the disk, and what a new life remembers."""

from __future__ import annotations

import numpy as np
import pytest

from contentcast.hosting.instant import Instant
from contentcast.language import subscription
from contentcast.model import EventBatch, Space, SubscriptionBatch
from contentcast.network.named import network
from contentcast.routing.contract import (
    Accepted,
    Acknowledged,
    Append,
    DeliverDurably,
    DurablySubscribed,
    DurablyUnsubscribed,
    Effect,
    Holds,
    Input,
    LinkUp,
    Published,
    Received,
    Resumed,
    SendTo,
    SetTimer,
    Started,
    Synced,
    TimerFired,
)
from contentcast.routing.durable import Durable
from contentcast.routing.durable.keeping import Keeping
from contentcast.routing.durable.lives import before_life
from contentcast.routing.durable.origin import RESEND, WINDOW
from contentcast.routing.durable.publishers import MOST_GAPS, NumberError, Publishers
from contentcast.routing.durable.router import AGE
from contentcast.routing.flooding import Flooding
from contentcast.routing.setup import Life, Setup
from contentcast.wire import Message, Neighbours, Publish, SpaceVersions, WireError, decode, encode
from contentcast.wire.checkpoints import Checkpoint
from contentcast.wire.durable import Custody, DurableInterest, Have, InForce, Kept, Taken, Wanted, check_rows

TRADES = Space("trades", issue="string", price="float")


def made(broker: str, life: Life) -> Durable:
    setup = Setup().living(life)
    return Durable(Flooding(broker, setup), setup)


def wish(number: int, predicate: str) -> DurablySubscribed:
    return DurablySubscribed(SubscriptionBatch.of(subscription(TRADES, number, predicate, subscriber=f"desk-{number}")))


def trades(first: int, *prices: float) -> EventBatch:
    return EventBatch.from_dicts(TRADES, [{"price": price} for price in prices], ids=range(first, first + len(prices)))


class Alone:
    """One broker and its disk: records are synced when the story says so."""

    def __init__(self, broker: str = "a") -> None:
        self.broker = broker
        self.disk: list[bytes] = []
        self.safe = 0
        self.life = 0
        self.start()

    def start(self) -> list[Effect]:
        """A new life with what was synced."""
        del self.disk[self.safe :]
        self.life += 1
        self.router = made(self.broker, Life(self.life))
        return self.told(Started(tuple(self.disk)))

    def told(self, input: Input, now: float = 0.0) -> list[Effect]:
        effects = self.router.handle(input, now)
        self.disk += [each.record for each in effects if isinstance(each, Append)]
        return effects

    def sync(self) -> list[Effect]:
        """Until everything is on disk."""
        found: list[Effect] = []
        while self.safe < len(self.disk):
            self.safe = len(self.disk)
            found += self.told(Synced(self.safe))
        return found

    def meets(self, other: str, interest: DurableInterest) -> None:
        """The other broker is a neighbour and has told its durable interests."""
        self.told(LinkUp(other))
        self.told(Received(other, Neighbours(other, 1, 1, ((self.broker, 0.01),))))
        self.told(Received(other, interest))


def sent(effects: list[Effect], kind: type[Message]) -> list[Message]:
    return [each.message for each in effects if isinstance(each, SendTo) and isinstance(each.message, kind)]


def of(effects: list[Effect], kind: type[Effect]) -> list[Effect]:
    return [each for each in effects if isinstance(each, kind)]


def interest(version: int, *wishes: DurablySubscribed) -> DurableInterest:
    return DurableInterest("b", 1, version, tuple(each.subscriptions for each in wishes))


def test_accepted_is_said_after_the_sync_and_a_number_counts_once_over_all_lives() -> None:
    a = Alone()
    batch = Published(trades(1, 10.0), "p", 1)
    assert of(a.told(batch), Accepted) == []
    assert a.told(batch) == [], "the answer comes with the sync"
    assert of(a.sync(), Accepted) == [Accepted("p", 1, 1)]
    assert a.told(batch) == [Accepted("p", 1, 1, duplicate=True)]
    a.start()
    assert a.told(batch) == [Accepted("p", 1, 1, duplicate=True)]
    a.told(Published(trades(2, 10.0), "p", 2))
    a.sync()
    assert a.told(batch) == [Accepted("p", 1, 0, duplicate=True)]


def test_a_number_that_was_never_accepted_is_no_duplicate_in_any_life() -> None:
    """3 and 4 were refused somewhere, or left out; then 5 was accepted."""
    a = Alone()

    def publish(number: int) -> list[Effect]:
        return of(a.told(Published(trades(number, 10.0), "p", number)), Accepted)

    for each in (1, 2, 5):
        publish(each)
    why = "number 3 was never accepted by broker a, and number 5 of the same publisher was: .* under a number above 5"
    for life in ("this one", "another one, from records", "another one, from a checkpoint"):
        with pytest.raises(NumberError, match=why):
            publish(3)
        if life == "another one, from records":
            a.router.keep(Keeping(trim_bytes=1))
        a.sync()
        assert publish(2) == [Accepted("p", 2, 0, duplicate=True)]
        assert publish(5) == [Accepted("p", 5, 3, duplicate=True)]
        a.sync()
        a.start()
    assert isinstance(decode(a.disk[-1], SpaceVersions()), Checkpoint)


def test_a_number_below_one_that_is_held_back_is_refused_at_once() -> None:
    """While the log is about to be trimmed; later nobody could be told."""
    a = Alone()
    a.router.keep(Keeping(trim_bytes=1))
    for number in (1, 3, 5):
        a.told(Published(trades(number, 10.0), "p", number))
    assert a.told(Published(trades(5, 10.0), "p", 3)) == [], "it is held back, as 5 is, and answered then"
    with pytest.raises(NumberError, match="number 4 was never accepted by broker a, and number 5"):
        a.told(Published(trades(4, 10.0), "p", 4))
    assert {each.number for each in of(a.sync(), Accepted) if isinstance(each, Accepted)} == {1, 3, 5}


def test_a_publisher_that_leaves_out_numbers_all_the_time_takes_bounded_memory() -> None:
    publishers = Publishers("a")
    for number in range(10, 10 * (MOST_GAPS + 11), 10):
        publishers.note("p", number, number, 100)
    last, _ = publishers.last("p")
    assert len(publishers.gaps()["p"]) == MOST_GAPS
    publishers.check("p", last - 10, last)
    with pytest.raises(NumberError, match="was never accepted"):
        publishers.check("p", last - 5, last)
    with pytest.raises(NumberError, match="does not know any more whether it was accepted"):
        publishers.check("p", 20, last)
    again = Publishers("a")
    again.restore(publishers.table(), publishers.gaps(), 100)
    assert (again.table(), again.gaps()) == (publishers.table(), publishers.gaps())


def test_what_a_limit_has_dropped_is_told_to_who_returns_and_to_who_is_there_without_an_event() -> None:
    a = Alone()
    a.router.keep(Keeping(most_age_s=10.0))
    a.told(wish(7, "price < 50"))
    a.sync()

    def published_and_dropped(number: int, at: float) -> list[Effect]:
        a.told(Published(trades(number, 10.0), "p", number), at)
        a.sync()
        a.told(TimerFired(AGE), at + 11.0)
        return of(a.sync(), DeliverDurably)

    def missed(effects: list[Effect]) -> list[tuple[int, int, int]]:
        found = [each for each in effects if isinstance(each, DeliverDurably)]
        return [(each.first, len(each.events), each.missed) for each in found]

    assert published_and_dropped(1, 0.0) == []
    assert missed(a.told(Resumed(7, 0, 1))) == [(2, 0, 1)], "it returns, and nothing is left"
    assert missed(published_and_dropped(2, 20.0)) == [(3, 0, 1)], "it is there, and its connection was full"
    assert missed(a.told(Resumed(7, 2, 100))) == [], "it knows that already"
    a.start()
    a.router.keep(Keeping(most_age_s=10.0))
    assert missed(a.told(Resumed(7, 1, 100))) == [(3, 0, 1)], "what was not acknowledged is told again"
    a.told(Published(trades(3, 10.0), "p", 3), 40.0)
    assert missed(a.sync()) == [(3, 1, 0)]


def test_a_client_that_comes_while_the_log_is_about_to_be_trimmed_is_handed_what_comes() -> None:
    a = Alone()
    a.router.keep(Keeping(trim_bytes=1))
    a.told(Published(trades(1, 10.0), "p", 1))
    assert a.told(wish(7, "price < 50")) == [], "it waits for the checkpoint"
    a.told(Resumed(7, 0, 100))
    a.sync()
    a.told(Published(trades(2, 10.0), "p", 2))
    (delivered,) = of(a.sync(), DeliverDurably)
    assert isinstance(delivered, DeliverDurably)
    assert (delivered.subscription, delivered.first, delivered.events.ids.to_pylist()) == (7, 1, [2])


def test_what_was_not_synced_is_forgotten_and_no_position_is_given_twice() -> None:
    a = Alone()
    a.told(Published(trades(1, 10.0), "p", 1))
    a.start()
    a.told(Published(trades(1, 10.0), "p", 1))
    assert of(a.sync(), Accepted) == [Accepted("p", 1, before_life(2) + 1)]


def test_a_version_is_in_force_from_its_place_in_the_log_and_said_to_be_after_the_sync() -> None:
    a = Alone()
    a.told(Published(trades(1, 10.0), "p", 1))
    a.meets("b", interest(1, wish(7, "price < 50")))
    assert sent(a.told(Published(trades(2, 10.0, 90.0), "p", 2)), InForce) == []
    effects = a.sync()
    assert sent(effects, InForce) == [InForce(1, 1, 2)]
    (custody,) = sent(effects, Custody)
    assert isinstance(custody, Custody)
    assert (custody.base, custody.after, custody.position, custody.version) == (1, 1, 2, 1)
    assert custody.publish is not None
    assert (custody.publish.events.ids.to_pylist(), custody.rows.tolist(), custody.ids.tolist()) == ([2], [0], [7])


def test_an_origin_sends_again_until_the_home_has_it_and_no_more_than_a_window_at_once() -> None:
    a = Alone()
    a.meets("b", interest(1, wish(7, "price < 50")))
    for number in range(1, WINDOW + 11):
        a.told(Published(trades(number, 10.0), "p", number))
    first = sent(a.sync(), Custody)
    assert [each.position for each in first if isinstance(each, Custody)] == list(range(1, WINDOW + 1))
    more = sent(a.told(Received("b", Have(0, 4))), Custody)
    assert [each.position for each in more if isinstance(each, Custody)] == list(range(WINDOW + 1, WINDOW + 5))
    timer = a.router.origin.homes["b"].patience.timer
    assert timer.part == RESEND
    effects = a.told(TimerFired(timer), 1.0)
    again = sent(effects, Custody)
    assert [each.position for each in again if isinstance(each, Custody)] == list(range(5, WINDOW + 5))
    assert [each.background for each in effects if isinstance(each, SetTimer)] == [False]
    a.told(Received("b", Have(0, WINDOW + 10)), 1.1)
    assert a.told(TimerFired(timer), 2.0) == []
    assert a.router.sizes()["kept"] == 0


def test_a_home_takes_what_continues_and_leaves_the_rest() -> None:
    b = Alone("b")
    b.told(wish(7, "price < 50"))
    b.sync()
    b.told(Resumed(7))

    def custody(after: int, position: int, event: int) -> Received:
        publish = Publish("a", 1, position, trades(event, 10.0))
        return Received("a", Custody(3, after, position, 1, np.array([0]), np.array([7]), publish))

    assert sent(b.told(custody(5, 9, 2)), Have) == [Have(0, 0)], "5 is lacking"
    assert sent(b.told(custody(3, 5, 1)), Have) == [], "before the sync nothing is said"
    effects = b.sync()
    assert sent(effects, Have) == [Have(0, 5)]
    (delivered,) = of(effects, DeliverDurably)
    assert isinstance(delivered, DeliverDurably)
    assert (delivered.subscription, delivered.subscriber, delivered.first) == (7, "desk-7", 1)
    assert sent(b.told(custody(3, 5, 1)), Have) == [Have(0, 5)], "it has that already"
    b.told(custody(5, 9, 2))
    b.sync()
    assert b.router.state()["durable"]["home"]["have"]["a"] == 9
    b.start()
    assert b.router.state()["durable"]["home"]["have"]["a"] == 9
    numbers = [each.first for each in b.told(Resumed(7, 1)) if isinstance(each, DeliverDurably)]
    assert numbers == [2], "the client has number 1"
    b.told(Acknowledged(7, 2))
    b.sync()
    b.start()
    assert b.told(Resumed(7)) == [], "what was acknowledged is gone"


def test_a_subscription_that_begins_anew_gets_nothing_that_an_older_version_asked_for() -> None:
    b = Alone("b")
    for input in (wish(7, "price < 50"), DurablyUnsubscribed((7,)), wish(7, "price > 50")):
        b.told(input)
    b.sync()
    assert b.told(wish(7, "price > 50")) == [Holds((7,), ("b",))], "the same again changes nothing, and is answered"
    publish = Publish("a", 1, 1, trades(1, 10.0))
    b.told(Received("a", Custody(0, 0, 1, 1, np.array([0]), np.array([7]), publish)))
    assert sent(b.sync(), Have) == [Have(0, 1)], "it has it, for nobody"
    assert b.told(Resumed(7)) == []


def test_a_network_without_time() -> None:
    """A record is on disk as soon as it is written; one of the subscribers is at home where the events enter."""
    got: list[tuple[int, int, list[int]]] = []
    accepted: list[Accepted] = []

    def watch(broker: str, input: Input, effects: list[Effect]) -> None:
        accepted.extend(each for each in effects if isinstance(each, Accepted))
        got.extend(
            (each.subscription, each.first, each.events.ids.to_pylist()) for each in effects if isinstance(each, DeliverDurably)
        )

    world = Instant(network("line:3"), made, watch)
    for broker, number in (("b1", 7), ("b3", 8)):
        world.put(broker, wish(number, "price < 50"))
        world.put(broker, Resumed(number))
    assert world.routers["b3"].state()["durable"]["home"]["lacking"] == []
    world.put("b1", Published(trades(1, 10.0, 90.0, 20.0), "p", 1))
    world.put("b1", Published(trades(4, 30.0), "p", 2))
    assert accepted == [Accepted("p", 1, 1), Accepted("p", 2, 2)]
    assert sorted(got) == [(7, 1, [1, 3]), (7, 3, [4]), (8, 1, [1, 3]), (8, 3, [4])]


# --- bytes


def test_records_and_messages_there_and_back() -> None:
    publish = Publish("a", 1, 3, trades(1, 10.0, 20.0))
    wanted = (Wanted("b", 2, np.array([0, 1]), np.array([7, 7])), Wanted("c", 1, np.array([1]), np.array([-5])))
    kept = decode(encode(Kept(3, "p", 9, wanted, publish)), {"trades": TRADES})
    assert isinstance(kept, Kept)
    assert (kept.position, kept.publisher, kept.number) == (3, "p", 9)
    assert [(each.home, each.version, each.rows.tolist(), each.ids.tolist()) for each in kept.wanted] == [
        ("b", 2, [0, 1], [7, 7]),
        ("c", 1, [1], [-5]),
    ]
    assert kept.publish is not None
    assert kept.publish.events.to_dicts() == [{"price": 10.0}, {"price": 20.0}]
    for message in (InForce(1, 2, 3), Have(7, 8), Have(0, 1, asks=True)):
        assert decode(encode(message), {}) == message
    told = decode(encode(interest(4, wish(7, "price < 50"))), {"trades": TRADES})
    assert isinstance(told, DurableInterest)
    assert (told.origin, told.version, told.since, told.subscriptions[0].ids.tolist()) == ("b", 4, 0, [7])


def test_bytes_that_lie_are_refused() -> None:
    publish = Publish("a", 1, 3, trades(1, 10.0))
    beyond = decode(encode(Taken("a", 3, np.array([4]), np.array([7]), publish)), {"trades": TRADES})
    assert isinstance(beyond, Taken)
    with pytest.raises(WireError, match="row 4 of 1 events"):
        check_rows(beyond)
    with pytest.raises(WireError, match="without its events"):
        check_rows(Taken("a", 3, np.array([0]), np.array([7])))
    with pytest.raises(WireError, match="position 3 after 5"):
        decode(encode(Custody(0, 5, 3, 1, np.array([0]), np.array([7]), publish)), {"trades": TRADES})
    whole = encode(Kept(3, "p", 9, (Wanted("b", 2, np.array([0]), np.array([7])),), publish))
    for end in range(len(whole)):
        try:
            cut = decode(whole[:end], {"trades": TRADES})
        except WireError:
            continue
        assert isinstance(cut, Kept)
        assert cut.publish is None, "all that may be left out whole are its events"


def test_a_damaged_log_stops_the_broker_and_names_the_record() -> None:
    a = Alone()
    a.told(Published(trades(1, 10.0), "p", 1))
    a.sync()
    with pytest.raises(WireError, match=r"broker a: its log is damaged: record 2 cannot be read: .*from a copy"):
        made("a", Life(2)).handle(Started((a.disk[0], a.disk[1][:-3])), 0.0)
