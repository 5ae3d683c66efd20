"""A story of faults: what clients do while brokers crash, links break and everything is slow; made of a seed, told as text.

     0.812 subscribe b2 [(3, 'shapes', "size < 4", 'client-1')]
     1.377 crash b1
     2.004 publish b3 shapes [(17, {'size': 3})]
     2.950 restart b1

While it is made, what is up and what is cut is kept track of, so that every line makes sense; the last lines mend everything.
Rule: the story depends on its seed and the arguments alone, never on what the routers make of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any, Final, NamedTuple

from contentcast.language import parse_predicate
from contentcast.model import Attribute, EventBatch, Predicate, Space, Subscription, SubscriptionBatch
from contentcast.network.named import random_network
from contentcast.network.topology import Topology
from contentcast.routing.contract import Published, Subscribed, Unsubscribed
from contentcast.simulation.ways.links import LinkQuality
from contentcast.simulation.world import World

COLOURS: Final = ("red", "green", "blue", "black")
SHAPES: Final = Space("shapes", colour="string", size=Attribute("int", low=0, high=9), weight="float")
WORDS: Final = Space("words", text="string", loud="bool", at="int")
SPACES: Final[Mapping[str, Space]] = {space.name: space for space in (SHAPES, WORDS)}
ROUGH: Final = LinkQuality(loss=0.1, duplicate=0.1, jitter_s=0.03)


class Act(NamedTuple):
    at: float
    verb: str
    told: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.at:9.3f} {self.verb} " + " ".join(str(each) for each in self.told)


class Wish(NamedTuple):
    """A subscription as the story tells it."""

    id: int
    space: str
    predicate: str
    subscriber: str


@dataclass(frozen=True)
class Story:
    """`configured`: the routers are told the network at the start. `quality`: of all links."""

    seed: int
    topology: Topology
    configured: bool
    quality: LinkQuality
    acts: tuple[Act, ...]
    wanted: Mapping[str, Mapping[int, Wish]] = field(default_factory=dict)
    """Broker -> id -> what its clients want at the end."""
    probes: Mapping[str, tuple[tuple[int, str, dict[str, Any]], ...]] = field(default_factory=dict)
    """Broker -> (id, space, event) published there when all is quiet."""

    @classmethod
    def random(
        cls,
        seed: int,
        topology: Topology | None = None,
        *,
        lasts_s: float = 8.0,
        faults: int = 8,
        churn: int = 16,
        publications: int = 16,
        rough: bool | None = None,
    ) -> Story:
        """`rough`: links lose, repeat and reorder; None: every fourth story. Without a topology, one of 2 to 7 brokers."""
        return _Teller(Random(f"story {seed}"), seed, topology).tell(lasts_s, faults, churn, publications, rough)

    def __str__(self) -> str:
        links = ", ".join(f"{link.one}-{link.other} {link.delay_s * 1000:g} ms" for link in self.topology.links)
        how = f"configured: {self.configured}; {self.quality}"
        return "\n".join([f"story {self.seed}: {links or self.topology.brokers[0]}; {how}", *map(str, self.acts)])


class _Teller:
    """Makes a story line by line in the order of time."""

    def __init__(self, dice: Random, seed: int, topology: Topology | None) -> None:
        self.dice = dice
        self.seed = seed
        if topology is None:
            brokers = dice.randint(2, 7)
            most = min(brokers * (brokers - 1) // 2, brokers + 3)
            topology = random_network(brokers, dice.randint(brokers - 1, most), seed=seed)
        self.topology = topology
        self.up = dict.fromkeys(topology.brokers, True)
        self.whole = {(link.one, link.other): True for link in topology.links}
        self.home: dict[str, str] = {}
        """Where the clients are that have moved."""
        self.wanted: dict[str, dict[int, Wish]] = {broker: {} for broker in topology.brokers}
        self.acts: list[Act] = []
        self.ids = 0
        self.now = 0.0

    def tell(self, lasts_s: float, faults: int, churn: int, publications: int, rough: bool | None) -> Story:
        dice = self.dice
        kinds = [self.fault] * faults + [self.change] * churn + [self.publish] * publications
        dice.shuffle(kinds)
        # Some at the very start, before anybody has heard of anybody.
        times = sorted(lasts_s * dice.random() if dice.random() < 0.9 else 0.0 for _ in kinds)
        for time, kind in zip(times, kinds, strict=True):
            self.now = max(self.now, round(time, 3))
            kind()
        self.now = round(lasts_s + dice.random(), 3)
        for broker, is_up in self.up.items():
            if not is_up:
                self.say("restart", broker)
        self.say("heal")
        for link in self.topology.links:
            self.say("delay", link.one, link.other, link.delay_s)
        configured = dice.random() < 0.5
        is_rough = dice.random() < 0.25 if rough is None else rough
        probes = {broker: tuple(self.event() for _ in range(dice.randint(2, 4))) for broker in self.topology.brokers}
        return Story(
            self.seed,
            self.topology,
            configured and not is_rough,  # sessions over rough links begin with LinkUp
            ROUGH if is_rough else LinkQuality(),
            tuple(sorted(self.acts, key=lambda act: act.at)),
            self.wanted,
            probes,
        )

    def say(self, verb: str, *told: Any) -> None:
        self.acts.append(Act(self.now, verb, told))

    def number(self) -> int:
        self.ids += 1
        return self.ids

    def broker(self) -> str:
        return self.dice.choice(self.topology.brokers)

    # --- faults

    def fault(self) -> None:
        dice = self.dice
        choices: list[Callable[[], None]] = [self.crash_or_restart] * 3 + [self.stall]
        if self.whole:
            choices += [self.cut_or_mend] * 3 + [self.slow]
        if len(self.topology) > 2:
            choices += [self.part_or_heal]
        dice.choice(choices)()
        for _ in range(dice.randint(0, 4)):  # while the brokers disagree about what has happened
            self.publish(round(self.now + 0.4 * dice.random(), 3))

    def crash_or_restart(self) -> None:
        broker = self.broker()
        self.say("crash" if self.up[broker] else "restart", broker)
        self.up[broker] = not self.up[broker]
        if not self.up[broker] and self.dice.random() < 0.3:  # back before anybody has noticed
            self.now = round(self.now + 0.05 * self.dice.random(), 3)
            self.say("restart", broker)
            self.up[broker] = True

    def cut_or_mend(self) -> None:
        link = self.dice.choice(list(self.whole))
        self.say("cut" if self.whole[link] else "mend", *link)
        self.whole[link] = not self.whole[link]

    def part_or_heal(self) -> None:
        if all(self.whole.values()):
            group = tuple(each for each in self.topology.brokers if self.dice.random() < 0.5)
            self.say("partition", (group,))
            self.whole = {(one, other): (one in group) == (other in group) for one, other in self.whole}
        else:
            self.say("heal")
            self.whole = dict.fromkeys(self.whole, True)

    def slow(self) -> None:
        one, other = self.dice.choice(list(self.whole))
        self.say("delay", one, other, round(0.5 * self.dice.random(), 3))

    def stall(self) -> None:
        self.say("stall", self.broker(), round(0.5 * self.dice.random(), 3))

    # --- clients

    def change(self) -> None:
        broker = self.broker()
        mine = self.wanted[broker]
        throw = self.dice.random()
        if mine and throw < 0.3:
            gone = tuple(each for each in mine if self.dice.random() < 0.5) or (next(iter(mine)),)
            for each in gone:
                del mine[each]
            self.say("unsubscribe", broker, gone)
        elif mine and throw < 0.4:
            self.move(self.dice.choice(list(mine.values())).subscriber, broker, self.broker())
        else:
            space = self.dice.choice(list(SPACES))
            again = [each for each, wish in mine.items() if wish.space == space and self.dice.random() < 0.1]
            numbers = [*again, *(self.number() for _ in range(self.dice.randint(1, 4)))]
            wishes = tuple(Wish(each, space, self.predicate(space), self.client(mine.get(each), broker)) for each in numbers)
            mine.update({wish.id: wish for wish in wishes})
            self.say("subscribe", broker, wishes)

    def move(self, subscriber: str, here: str, there: str) -> None:
        """A client goes to another broker with all its subscriptions, under their old ids. It is at one broker at a time."""
        moving = [wish for wish in self.wanted[here].values() if wish.subscriber == subscriber]
        for wish in moving:
            del self.wanted[here][wish.id]
            self.wanted[there][wish.id] = wish
        self.home[subscriber] = there
        self.say("unsubscribe", here, tuple(wish.id for wish in moving))
        for space in SPACES:
            if mine := tuple(wish for wish in moving if wish.space == space):
                self.say("subscribe", there, mine)

    def client(self, before: Wish | None, broker: str) -> str:
        """An id stays its client's; else one of the three that began here, unless it has moved, or one that has moved here."""
        if before is not None:
            return before.subscriber
        here = [name for name in (f"{broker}/client-{at}" for at in (1, 2, 3)) if self.home.get(name, broker) == broker]
        here += [name for name, home in self.home.items() if home == broker and name not in here]
        return self.dice.choice(here or [f"{broker}/client-{self.number()}"])

    def predicate(self, space: str) -> str:
        tests = [self.test(space) for _ in range(self.dice.randint(1, 3))]
        text = tests[0]
        for test in tests[1:]:
            text = f"{text} AND {test}" if self.dice.random() < 0.7 else f"({text} OR {test})"
        return text

    def test(self, space: str) -> str:
        dice = self.dice
        if space == "words":
            letter = dice.choice("abc")
            return dice.choice(
                [
                    f"text LIKE '{letter}%'",
                    f"text = '{letter}a'",
                    "loud",
                    "NOT loud",
                    f"at < {dice.randint(0, 20)}",
                    "at IS NULL",
                ]
            )
        low, colour = dice.randint(0, 9), dice.choice(COLOURS)
        return dice.choice(
            [
                f"colour = '{colour}'",
                f"colour <> '{colour}'",
                f"colour IN ('{colour}', 'red')",
                f"size = {low}",
                f"size BETWEEN {low} AND {low + 3}",
                f"size > {low}",
                f"weight < {low / 10}",
                "weight IS NULL",
            ]
        )

    def event(self, space: str | None = None) -> tuple[int, str, dict[str, Any]]:
        dice = self.dice
        chosen = space or dice.choice(list(SPACES))
        if chosen == "words":
            event = {"text": dice.choice("abc") + dice.choice("abc"), "loud": dice.random() < 0.5, "at": dice.randint(0, 20)}
        else:
            event = {"colour": dice.choice(COLOURS), "size": dice.randint(0, 9), "weight": round(dice.random(), 1)}
        return self.number(), chosen, {name: value for name, value in event.items() if dice.random() < 0.9}

    def publish(self, at: float | None = None) -> None:
        space = self.dice.choice(list(SPACES))
        events = tuple(self.event(space) for _ in range(self.dice.choice([1, 1, 1, 2, 5])))
        told = (self.broker(), space, tuple((number, event) for number, _, event in events))
        self.acts.append(Act(self.now if at is None else at, "publish", told))


# --- onto the agenda


@lru_cache(maxsize=4096)
def predicate_of(space: str, text: str) -> Predicate:
    return parse_predicate(SPACES[space], text)


def published(space: str, events: tuple[tuple[int, dict[str, Any]], ...]) -> Published:
    return Published(EventBatch.from_dicts(SPACES[space], [event for _, event in events], ids=[number for number, _ in events]))


def put_on(world: World, story: Story) -> None:
    """Every act of the story at its time."""
    for at, verb, told in story.acts:
        match verb, told:
            case "subscribe", (broker, wishes):
                asked = [Subscription(each.id, predicate_of(each.space, each.predicate), each.subscriber) for each in wishes]
                world.put(broker, Subscribed(SubscriptionBatch.of(asked)), at)
            case "unsubscribe", (broker, ids):
                world.put(broker, Unsubscribed(ids), at)
            case "publish", (broker, space, events):
                world.put(broker, published(space, events), at)
            case _:
                getattr(world, verb)(*told, at=at)
