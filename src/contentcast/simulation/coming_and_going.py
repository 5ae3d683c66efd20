"""Stories of a network without configuration: nodes join, leave and crash while others publish, and no event is lost.

Fault stories (`faults`) ask what holds when all is quiet again. These ask more: some nodes stay, and every event that is
published at one of them, whatever happens meanwhile, reaches every subscriber at one of them exactly once.

    python -m contentcast.simulation.coming_and_going --protocol overlay --seeds 1000
    python -m contentcast.simulation.coming_and_going --protocol overlay --seed 17 --replay

    10.214 crash t3
    10.391 publish s1 [(17, 'shapes', {'size': 3})]
    12.020 join t4

Rule: no more nodes crash within REPAIR_S than the others hold copies for. Every third story loses messages on their way.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

from contentcast import catalog
from contentcast.matching.scan import Scan
from contentcast.model import EventBatch, Subscription, SubscriptionBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import Published, Subscribed
from contentcast.routing.setup import Setup
from contentcast.simulation.story import COLOURS, SHAPES, predicate_of
from contentcast.simulation.trace import Trace
from contentcast.simulation.ways.links import LinkQuality
from contentcast.simulation.world import World

REPAIR_S: Final = 14.0
"""A dead node is noticed after about 5 s, and what it held is then copied in a few rounds."""
COPIES: Final = 2
BEGINS_S: Final = 10.0
"""By then all subscriptions of those that stay are known."""
LASTS_S: Final = 40.0
LEAVES_WITHIN_S: Final = 0.05
ENDS_S: Final = 40.0
"""Until the last event has found its way, after everything has happened."""
ROUGH: Final = LinkQuality(loss=0.05, duplicate=0.02, jitter_s=0.02)
MOST_STEPS: Final = 3_000_000
SHOWN: Final = 5


class Act(NamedTuple):
    at: float
    verb: str
    node: str
    told: Any = None

    def __str__(self) -> str:
        return f"{self.at:9.3f} {self.verb} {self.node}{'' if self.told is None else f' {self.told}'}"


@dataclass(frozen=True)
class ChurnStory:
    """`staying` and `passing` nodes; those of `first` are there at the start. `wishes`: node, id, predicate."""

    seed: int
    staying: tuple[str, ...]
    passing: tuple[str, ...]
    first: tuple[str, ...]
    quality: LinkQuality
    wishes: tuple[tuple[str, int, str], ...]
    acts: tuple[Act, ...]

    def __str__(self) -> str:
        told = [f"{0.0:9.3f} subscribe {node} {number}: {text}" for node, number, text in self.wishes]
        return "\n".join([f"story {self.seed}: {', '.join(self.first)}; {self.quality}", *told, *map(str, self.acts)])


def tell(seed: int) -> ChurnStory:
    dice = Random(f"coming and going {seed}")
    staying = tuple(f"s{number}" for number in range(dice.randint(2, 5)))
    passing = tuple(f"t{number}" for number in range(dice.randint(2, 6)))
    here = {each for each in passing if dice.random() < 0.6}
    first = (*staying, *sorted(here))
    wishes = tuple((dice.choice(staying), number, _predicate(dice)) for number in range(dice.randint(4, 12)))
    acts: list[Act] = []
    crashes: list[float] = []
    down: set[str] = set()
    now, number = BEGINS_S, 0
    while now < BEGINS_S + LASTS_S:
        now = round(now + dice.expovariate(1.5), 3)
        throw, node = dice.random(), dice.choice(passing)
        if throw < 0.6:
            events = []
            for _ in range(dice.choice([1, 1, 3])):
                events.append((number, _event(dice)))
                number += 1
            acts.append(Act(now, "publish", dice.choice(staying), tuple(events)))
        elif node in down:
            acts.append(Act(now, "restart", node))
            down.discard(node)
            here.add(node)
        elif node not in here:
            acts.append(Act(now, "join", node))
            here.add(node)
        elif throw < 0.8 and sum(now - each < REPAIR_S for each in crashes) < COPIES:
            acts.append(Act(now, "crash", node))
            crashes.append(now)
            here.discard(node)
            down.add(node)
        elif throw >= 0.8:
            acts.append(Act(now, "leave", node))
            here.discard(node)
    quality = ROUGH if seed % 3 == 2 else LinkQuality()
    return ChurnStory(seed, staying, passing, first, quality, wishes, tuple(acts))


def _predicate(dice: Random) -> str:
    low, colour = dice.randint(0, 9), dice.choice(COLOURS)
    tests = (
        f"colour = '{colour}'",
        f"colour <> '{colour}'",
        f"size BETWEEN {low} AND {low + 3}",
        f"size > {low}",
        "weight IS NULL",
    )
    return " AND ".join(dice.sample(tests, dice.choice([1, 1, 2])))


def _event(dice: Random) -> dict[str, Any]:
    event = {"colour": dice.choice(COLOURS), "size": dice.randint(0, 9), "weight": round(dice.random(), 1)}
    return {name: value for name, value in event.items() if dice.random() < 0.9}


@dataclass(frozen=True)
class Outcome:
    story: ChurnStory
    problems: tuple[str, ...]
    expected: int
    digest: str


def play(story: ChurnStory, protocol: str, *, codec: bool = False, trace: Trace | None = None) -> Outcome:
    trace = trace or Trace()
    topology = Topology.of(story.first, [])
    make = catalog.make_router(protocol, Setup(topology=topology, contacts=story.staying))
    world = World(topology, make, seed=story.seed, links=story.quality, codec=codec, trace=trace, announce=False, direct_s=0.02)
    for node, number, text in story.wishes:
        wish = Subscription(number, predicate_of("shapes", text), f"{node}/client-{number}")
        world.put(node, Subscribed(SubscriptionBatch.of([wish])))
    for at, verb, node, told in story.acts:
        if verb == "publish":
            ids, events = [each for each, _ in told], [each for _, each in told]
            world.put(node, Published(EventBatch.from_dicts(SHAPES, events, ids=ids)), at)
        else:
            world.agenda.put(at, _do, (world, verb, node))
    world.run(until=BEGINS_S + LASTS_S + ENDS_S, most_steps=MOST_STEPS)
    scan = Scan(SHAPES)
    clients = {}
    for node, number, text in story.wishes:
        scan.add(number, predicate_of("shapes", text))
        clients[number] = f"{node}/client-{number}"
    told_of = {number: event for act in story.acts if act.verb == "publish" for number, event in act.told}
    wanted = {(clients[each], number) for number, event in told_of.items() for each in scan.match(event)}
    got = Counter(world.delivered)
    lost = [f"{who} did not get event {event} {told_of[event]}" for who, event in sorted(wanted) if not got[who, event]]
    more = [f"{who} got event {event} {times} times" for (who, event), times in sorted(got.items()) if times > 1]
    wrong = [f"{who} got event {event}, which he does not want" for who, event in sorted(got) if (who, event) not in wanted]
    return Outcome(story, (*lost, *more, *wrong), len(wanted), trace.digest())


def _do(told: tuple[World, str, str]) -> None:
    world, verb, node = told
    if verb == "join" and node in world.topology:
        world.agenda.put(world.now + LEAVES_WITHIN_S, _do, told)  # it is still busy with leaving
        return
    getattr(world, verb)(node)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play many seeds, or one; 0 if all passed."""
    parser = argparse.ArgumentParser(
        prog="python -m contentcast.simulation.coming_and_going",
        description="Nodes join, leave and crash while others publish: every event must reach everybody who stays.",
    )
    parser.add_argument("--protocol", default="overlay", help="overlay, also with options: overlay,points=4")
    parser.add_argument("--seeds", type=int, default=100, help="so many stories (100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seed", type=int, help="this one story only")
    parser.add_argument("--codec", action="store_true", help="every message goes through the wire's encoding")
    parser.add_argument("--replay", action="store_true", help="print the story and what every node did")
    chosen = parser.parse_args(arguments)
    seeds = range(chosen.first, chosen.first + chosen.seeds) if chosen.seed is None else [chosen.seed]
    failed = expected = 0
    for seed in seeds:
        trace = Trace()
        outcome = play(tell(seed), chosen.protocol, codec=chosen.codec, trace=trace)
        expected += outcome.expected
        if chosen.replay:
            print(outcome.story, *trace.lines, sep="\n")
        if outcome.problems:
            failed += 1
            print(f"seed {seed}, {chosen.protocol}: {len(outcome.problems)} problems", *outcome.problems[:SHOWN], sep="\n  ")
    print(f"{chosen.protocol}: {len(seeds) - failed} of {len(seeds)} stories passed; {expected:,} deliveries, each once")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
