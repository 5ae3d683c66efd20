"""Stories of durable delivery: publishers that insist, subscribers that go away, faults, and a ledger that judges.

    python -m tests.simulation.durable --seeds 10000        any protocol that promises it
    python -m tests.simulation.durable --seed 17

`Books` reads what is safe on every broker's disk and checks the invariants after every step. `Story.judge` knows nothing of
the protocol: it compares what was published with what the clients have got, by the oracle.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable
from math import inf
from random import Random
from typing import Any

from rich.console import Console
from rich.progress import track

from contentcast import catalog
from contentcast.catalog import Promise, promising
from contentcast.language import subscription
from contentcast.matching import Scan
from contentcast.model import EventBatch, SubscriptionBatch
from contentcast.network.named import network
from contentcast.progress_lines import lines_without_terminal
from contentcast.routing.contract import (
    Accepted,
    Append,
    DeliverDurably,
    DurablySubscribed,
    DurablyUnsubscribed,
    Effect,
    Input,
    Published,
    Resumed,
    SendTo,
    Sizes,
    Started,
    Suspended,
    Synced,
)
from contentcast.routing.durable import Durable
from contentcast.routing.durable.keeping import Keeping
from contentcast.routing.durable.lives import before_life
from contentcast.routing.reliable import Reliable
from contentcast.routing.setup import Life, Setup
from contentcast.simulation.ways.links import LinkQuality
from contentcast.simulation.world import World
from contentcast.wire import DeclaredSpaces, SpaceVersions, decode
from contentcast.wire.checkpoints import Checkpoint
from contentcast.wire.durable import DurableInterest, Have, Kept, Taken
from tests.simulation.small import TRADES

MakeDurable = Callable[[Any, Setup, Keeping], Durable]


def wishes(number: int, predicate: str, subscriber: str = "desk-7") -> DurablySubscribed:
    return DurablySubscribed(SubscriptionBatch.of(subscription(TRADES, number, predicate, subscriber=subscriber)))


def batch(first: int, prices: list[float]) -> EventBatch:
    rows = [{"issue": "IBM", "price": price} for price in prices]
    return EventBatch.from_dicts(TRADES, rows, ids=range(first, first + len(rows)))


class Book:
    """The safe part of one broker's log, and what follows from it."""

    def __init__(self, broker: str, books: dict[str, Book]) -> None:
        self.broker = broker
        self.books = books
        self.records: list[bytes] = []
        """Over all lives, also those that were trimmed."""
        self.read = 0
        self.checkpoints = 0
        self.spaces = SpaceVersions()
        self.kept: dict[int, Kept] = {}
        self.publishers: dict[str, int] = {}
        self.taken: dict[str, list[int]] = defaultdict(list)
        self.numbered: dict[int, int] = defaultdict(int)
        self.homes: dict[str, DurableInterest] = {}
        self.seen: set[tuple[str, int, int, int]] = set()
        self.lives: set[int] = set()
        """Before which positions its lives have begun."""

    def start(self, restored: tuple[bytes, ...], trimmed: int) -> None:
        assert tuple(self.records[trimmed : self.read]) == restored[: self.read - trimmed], "what was safe is there"
        assert trimmed <= self.read
        self.records[trimmed:] = restored
        self.sync(len(self.records))

    def sync(self, upto: int) -> None:
        for record in self.records[self.read : upto]:
            message = decode(record, self.spaces)
            match message:
                case DeclaredSpaces(spaces=spaces):
                    for each in spaces:
                        self.spaces.declare(each)
                case DurableInterest():
                    before = self.homes.get(message.origin)
                    assert before is None or before.version < message.version, "versions in a log ascend"
                    self.homes[message.origin] = message
                case Kept():
                    self._keep(message)
                case Taken():
                    self._take(message)
                case Checkpoint():
                    self.checkpoints += 1
        self.read = max(self.read, upto)

    def _keep(self, kept: Kept) -> None:
        last = max(self.kept, default=0)
        assert kept.position > last, "positions ascend"
        assert kept.position == last + 1 or kept.position - 1 in self.lives, "a gap lies between two lives only"
        assert self.publishers.get(kept.publisher, 0) < kept.number, "a publisher's batch stands once, in its order"
        self.publishers[kept.publisher] = kept.number
        self.kept[kept.position] = kept
        assert kept.publish is not None
        for home, interest in self.homes.items():
            scan = Scan(TRADES)
            for each in (each for some in interest.subscriptions for each in some):
                scan.add(each.id, each.predicate)
            expected = {(row, number) for row, ids in enumerate(scan.match_batch(kept.publish.events)) for number in ids}
            told = {
                pair
                for each in kept.wanted
                if each.home == home
                for pair in zip(each.rows.tolist(), each.ids.tolist(), strict=True)
            }
            assert told == expected, "what is silent is wanted by no subscription in force"

    def _take(self, taken: Taken) -> None:
        assert taken.publish is not None
        before = max(self.taken[taken.origin], default=0)
        origin = self.books[taken.origin]
        skipped = [
            at
            for at, kept in origin.kept.items()
            if before < at < taken.position and any(each.home == self.broker for each in kept.wanted)
        ]
        assert taken.position > before, "what it has it does not take again"
        assert not skipped, f"{self.broker} has {before} of {taken.origin} and takes {taken.position}; {skipped} are between"
        self.taken[taken.origin].append(taken.position)
        for number in taken.missed.tolist():
            self.numbered[number] += 1
        for row, number in zip(taken.rows.tolist(), taken.ids.tolist(), strict=True):
            pair = (taken.origin, taken.position, row, number)
            assert pair not in self.seen
            self.seen.add(pair)
            self.numbered[number] += 1


class Booked:
    """A durable router whose every step is checked against the books."""

    def __init__(self, router: Durable, books: dict[str, Book], incarnation: int) -> None:
        self.broker = router.broker
        self.router = router
        self.books = books
        self.book = books.setdefault(router.broker, Book(router.broker, books))
        self.book.lives.add(before_life(incarnation))

    def handle(self, input: Input, now: float) -> list[Effect]:
        effects = self.router.handle(input, now)
        if isinstance(input, Started):
            self.book.start(input.restored, input.trimmed)
        self.book.records += [each.record for each in effects if isinstance(each, Append)]
        if isinstance(input, Synced):
            self.book.sync(input.upto)
        for effect in effects:
            self._check(effect)
        self._check_trimmed()
        return effects

    def _check(self, effect: Effect) -> None:
        book = self.book
        match effect:
            case Accepted(publisher, number, position):
                assert book.publishers.get(publisher, 0) >= number, "accepted is synced"
                assert not position or position in book.kept
            case SendTo(origin, Have(0, upto)) if upto:
                assert upto in book.taken[origin], "have is told when it is synced"
            case DeliverDurably(number, _, first, events):
                assert first + len(events) - 1 <= book.numbered[number], "what is handed over is synced"

    def _check_trimmed(self) -> None:
        for name, home in self.router.origin.homes.items():
            waiting = {each.position for each in home.waiting}
            there = self.books[name].taken[self.broker] if name in self.books else []
            for position, kept in self.book.kept.items():
                if position not in waiting and any(each.home == name for each in kept.wanted):
                    assert position in there, f"{self.broker} dropped {position}, which {name} does not have"

    def sizes(self) -> Sizes:
        return self.router.sizes()

    def state(self) -> dict[str, Any]:
        return self.router.state()


class Story:
    """A network with seeded publishers, subscribers and faults."""

    PREDICATES = ("price < 50", "price >= 30 AND price < 70", "price > 60", "issue = 'IBM'", "price > 1000", "price <> 10")

    def __init__(self, seed: int, make: MakeDurable = Durable, checked: bool = True, protocol: str = "", **kept: Any) -> None:
        self.seed = seed
        self.dice = dice = Random(f"durable {seed}")
        self.books: dict[str, Book] = {}
        lossy = dice.random() < 0.4
        self.protocol = protocol or dice.choice(["flooding", "link-matching"])
        keeping = Keeping(**{"trim_bytes": dice.choice([500, 5_000, 1 << 20]), **kept})

        def made(broker: str, life: Life) -> Any:
            setup = Setup().living(life)
            inside: Any = catalog.router(self.protocol, broker, setup)
            durable: Any = make(inside, setup, keeping)
            if checked:
                durable = Booked(durable, self.books, life.incarnation)
            return Reliable(durable, life.incarnation) if lossy else durable

        quality = LinkQuality(loss=0.15, jitter_s=0.05) if lossy else LinkQuality()
        shape = network(dice.choice(["line:3", "star:4", "ring:4"]))
        sync_s = dice.choice([0.002, 0.06])
        self.world = World(shape, made, seed=seed, links=quality, codec=True, client_delay_s=0.03, sync_s=sync_s)
        self.brokers = list(self.world.topology.brokers)
        self.published: dict[str, list[tuple[float, EventBatch]]] = {}
        self.at: dict[str, str] = {}
        self.asked: dict[int, float] = {}
        self.confirmed: dict[int, float] = {}
        self.ended: set[int] = set()

    def play(self, judged: bool = True) -> Story:
        dice = self.dice
        for number in range(1, 5):
            self._subscribe(number, dice.uniform(0, 1) if number < 3 else dice.uniform(1, 6))
        for number in range(3):
            self._publish(f"p{number}", dice.choice(self.brokers), first=1_000 * (number + 1))
        self._faults()
        for tick in range(200):
            self.world.agenda.put(tick * 0.05, self._look)
        self.world.run(most_steps=300_000)
        self._look(None)
        if judged:
            self.judge()
        return self

    def _subscribe(self, number: int, at: float) -> None:
        dice, world = self.dice, self.world
        broker = dice.choice(self.brokers)
        self.asked[number] = at
        world.put(broker, wishes(number, dice.choice(self.PREDICATES), f"desk-{number}"), at=at)
        away = at + 0.01
        for _ in range(dice.randrange(3)):
            away += dice.uniform(0, 2)
            back = away + dice.uniform(0, 2)
            world.put(broker, Suspended(number), at=away)
            world.put(broker, Resumed(number), at=back)
            away = back
        if dice.random() < 0.15:
            self.ended.add(number)
            world.put(broker, DurablyUnsubscribed((number,)), at=max(away, 8.0) + 1)

    def _publish(self, name: str, broker: str, first: int) -> None:
        """One batch after the other; each again until it is accepted."""
        dice, world = self.dice, self.world
        batches = [
            batch(first + 10 * each, [float(dice.randrange(100)) for _ in range(dice.randrange(1, 5))]) for each in range(12)
        ]
        self.published[name] = []
        self.at[name] = broker

        def step(_: None) -> None:
            told = {each.number for _, each in world.durable.accepted if each.publisher == name}
            number = len(told) + 1
            if number > len(batches):
                return
            if len(self.published[name]) < number:
                self.published[name].append((world.now, batches[number - 1]))
            world.put(broker, Published(batches[number - 1], name, number))
            world.agenda.put(world.now + dice.choice([0.002, 0.1, 0.6]), step)
            if dice.random() < 0.1:  # just when something is being written, sent or answered
                self._fail(dice.choice([broker, dice.choice(self.brokers)]), world.now + dice.uniform(0, 0.1), 0.2)

        world.agenda.put(dice.uniform(0, 2), step)

    def _faults(self) -> None:
        dice, world = self.dice, self.world
        for broker in self.brokers:
            down = dice.uniform(0, 2)
            while down < 8 and dice.random() < 0.7:
                back = down + dice.choice([0.01, 0.3, 2.0])
                self._fail(broker, down, back - down)
                down = back + dice.choice([0.02, 0.3, 2.0])
        for link in world.topology.links:
            if dice.random() < 0.5:
                cut = dice.uniform(0, 6)
                world.cut(link.one, link.other, at=cut)
                world.mend(link.one, link.other, at=cut + dice.uniform(0.05, 3))
        if dice.random() < 0.3:
            world.partition([self.brokers[:2]], at=4.0)
        world.heal(at=10.0)

    def _fail(self, broker: str, at: float, for_s: float) -> None:
        """It crashes and starts again, if it runs."""
        world = self.world

        def restart(_: None) -> None:
            if not world.is_up(broker):
                world.restart(broker)

        def crash(_: None) -> None:
            if world.is_up(broker):
                world.crash(broker)
                world.agenda.put(world.now + for_s, restart)

        world.agenda.put(at, crash)

    def _look(self, _: None) -> None:
        """Since when is each subscription in force everywhere, as its home says?"""
        for number, client in self.world.durable.clients.items():
            if number not in self.confirmed and self.world.is_up(client.broker):
                home = self.world.router(client.broker).state()["durable"]["home"]
                heard = set(self.brokers) <= set(home["in force"])
                if heard and number in home["subscriptions"] and not home["lacking"]:
                    self.confirmed[number] = self.world.now

    # --- the ledger

    def judge(self) -> None:
        durable = self.world.durable
        for name, batches in self.published.items():
            told = {each.number for _, each in durable.accepted if each.publisher == name}
            assert told == set(range(1, 13)), f"seed {self.seed}: {name} was accepted {sorted(told)} of 12"
            assert len(batches) == 12
        for number, client in durable.clients.items():
            scan = Scan(TRADES)
            scan.add(number, client.subscription.predicate)
            what = f"seed {self.seed}: subscription {number} at {client.broker}"
            everything = set()
            for name, batches in self.published.items():
                matching = [
                    (at, each)
                    for at, events in batches
                    for each, ids in zip(events.ids.to_pylist(), scan.match_batch(events), strict=True)
                    if ids
                ]
                everything |= {each for _, each in matching}
                got = [each for each in client.got if any(each == other for _, other in matching)]
                expected = [each for _, each in matching]
                assert got == expected[len(expected) - len(got) :], f"{what}: {name} published {expected}, it got {got}"
                since = self.holds_since(number, self.at[name])
                due = [each for at, each in matching if at >= since]
                assert set(due) <= set(got), f"{what} is in force since {since} and lacks {due} of {name}"
            assert set(client.got) <= everything, f"{what} got what it did not want"

    def holds_since(self, number: int, origin: str) -> float:
        """When its client was told that it holds at this broker, or its home said that it does everywhere."""
        told = self.world.durable.holds.get(number, [])
        return min((at for at, brokers in told if origin in brokers), default=self.confirmed.get(number, inf))


def main() -> None:
    parser = argparse.ArgumentParser(description="Plays stories of durable delivery and judges them.")
    parser.add_argument("--seeds", type=int, default=100, help="how many stories")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this one alone")
    asked = parser.parse_args()
    protocols = promising(Promise.DURABLE)
    seeds = range(asked.first, asked.first + asked.seeds) if asked.seed is None else [asked.seed]
    failed: list[int] = []
    done = 0
    with lines_without_terminal(lambda: f"durable delivery: {done:,} of {len(seeds):,} stories"):
        for seed in track(seeds, "durable delivery", console=Console(stderr=True), disable=not sys.stderr.isatty()):
            try:
                Story(seed, protocol=protocols[seed % len(protocols)]).play()
            except AssertionError as reason:
                failed.append(seed)
                print(f"seed {seed}, {protocols[seed % len(protocols)]}: {reason}", file=sys.stderr)
            done += 1
    print(f"{len(seeds) - len(failed):,} of {len(seeds):,} stories of durable delivery are as they should be")
    if failed:
        sys.exit(f"play them again: {', '.join(f'--seed {seed}' for seed in failed[:10])}")


if __name__ == "__main__":
    main()
