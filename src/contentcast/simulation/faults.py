"""Fault stories played to routers, and what must hold: nobody misses, nobody gets twice, nobody gets what he did not ask for.

While the story lasts brokers are down and disagree, so events may be missed; but never may a broker's one life hand the same
event to the same client twice, nor an event that matches none of the subscriptions he ever had there. When the story is over
and all is quiet, every broker publishes probes, and each client must get exactly those that match by the oracle, each once.

    python -m contentcast.simulation.faults --protocol link-matching --seeds 1000
    python -m contentcast.simulation.faults --protocol link-matching --seed 17 --replay

Rule: the judge is `matching.Scan`, which knows no brokers.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rich.console import Console
from rich.progress import track

from contentcast import catalog
from contentcast.hosting.costs import PAPER_FAST, Costs
from contentcast.matching.scan import Scan
from contentcast.model.errors import ContentcastError
from contentcast.progress_lines import lines_without_terminal
from contentcast.routing.contract import Router
from contentcast.routing.setup import Setup
from contentcast.simulation.story import SPACES, Story, Wish, predicate_of, published, put_on
from contentcast.simulation.trace import Trace
from contentcast.simulation.world import World

MakeProtocol: TypeAlias = Callable[[str, Setup], Router]
Got: TypeAlias = "Counter[tuple[str, str, int]]"
"""How often (subscriber, broker) got an event."""

MOST_STEPS: Final = 300_000
"""No story of this size is still busy after so many; a router that is talks without end."""
SHOWN: Final = 5


@dataclass(frozen=True)
class Outcome:
    """`problems` is empty if all held. `again`: deliveries that repeat one from before the crash of the client's broker."""

    story: Story
    problems: tuple[str, ...]
    digest: str
    deliveries: int
    expected: int
    again: int

    @property
    def passed(self) -> bool:
        return not self.problems


def play(
    story: Story, protocol: str | MakeProtocol, *, codec: bool = False, costs: Costs = PAPER_FAST, trace: Trace | None = None
) -> Outcome:
    """`protocol` is a name of the catalog, or makes a router of a broker's name and a `Setup`."""
    trace = trace or Trace()
    world = World(
        story.topology,
        catalog.make_router(
            protocol, Setup(topology=story.topology if story.configured else None), reliable=not story.quality.is_perfect
        ),
        seed=story.seed,
        costs=costs,
        links=story.quality,
        codec=codec,
        trace=trace,
        announce=not story.configured,
    )
    try:
        put_on(world, story)
        world.run(most_steps=MOST_STEPS)
        for broker, probes in story.probes.items():
            for number, space, event in probes:
                world.put(broker, published(space, ((number, event),)), at=world.now + 1.0)
        world.run(most_steps=MOST_STEPS)
    except Exception as error:
        notes = "".join(f"\n    {note}" for note in getattr(error, "__notes__", ()))
        return Outcome(story, (f"{type(error).__name__}: {error}{notes}",), trace.digest(), 0, 0, 0)
    table = world.deliveries()
    rows = list(zip(*(table[name].to_pylist() for name in ("subscriber", "broker", "event", "incarnation")), strict=True))
    events = dict(_events(story))
    probes_only = {number for each in story.probes.values() for number, _, _ in each}
    expected = _expected(story, probes_only, events)
    got: Got = Counter((subscriber, broker, event) for subscriber, broker, event, _ in rows)
    problems = [*_wrong_probes(expected, got, probes_only, events), *_repeated(rows), *_unasked(story, got, events)]
    again = sum(times - 1 for each, times in got.items() if times > 1)
    return Outcome(story, tuple(problems), trace.digest(), len(rows), len(expected), again)


# --- what must hold


def _events(story: Story) -> Iterator[tuple[int, tuple[str, dict[str, Any]]]]:
    for _, verb, told in story.acts:
        if verb == "publish":
            yield from ((number, (told[1], event)) for number, event in told[2])
    for probes in story.probes.values():
        yield from ((number, (space, event)) for number, space, event in probes)


def _expected(story: Story, probes: set[int], events: dict[int, tuple[str, dict[str, Any]]]) -> set[tuple[str, str, int]]:
    """(subscriber, broker, event) for every probe that somebody wants at the end."""
    found = set()
    for broker, wishes in story.wanted.items():
        scans = _scans(wishes.values())
        for number in probes:
            space, event = events[number]
            found |= {(wishes[each].subscriber, broker, number) for each in scans[space].match(event)}
    return found


def _scans(wishes: Any) -> dict[str, Scan]:
    scans = {name: Scan(space) for name, space in SPACES.items()}
    for wish in wishes:
        scans[wish.space].add(wish.id, predicate_of(wish.space, wish.predicate))
    return scans


def _wrong_probes(
    expected: set[tuple[str, str, int]], got: Got, probes: set[int], events: dict[int, tuple[str, dict[str, Any]]]
) -> Iterator[str]:
    for each in sorted(expected):
        if got[each] != 1:
            yield f"{each[0]} at {each[1]} got probe {each[2]} {events[each[2]]} {got[each]} times, not once"
    for each in sorted(got):
        if each[2] in probes and each not in expected:
            yield f"{each[0]} at {each[1]} got probe {each[2]} {events[each[2]]}, which nothing he wants now matches"


def _repeated(rows: Sequence[tuple[str, str, int, int]]) -> Iterator[str]:
    for (subscriber, broker, event, incarnation), times in sorted(Counter(rows).items()):
        if times > 1:
            yield f"{subscriber} at {broker}.{incarnation} got event {event} {times} times"


def _unasked(story: Story, got: Got, events: dict[int, tuple[str, dict[str, Any]]]) -> Iterator[str]:
    ever: dict[tuple[str, str], list[Wish]] = {}
    for _, verb, told in story.acts:
        if verb == "subscribe":
            for wish in told[1]:
                ever.setdefault((wish.subscriber, told[0]), []).append(wish)
    # The same id may have asked for one thing and then for another: here each wish counts by itself.
    scans = {who: _scans(wish._replace(id=at) for at, wish in enumerate(wishes)) for who, wishes in ever.items()}
    for subscriber, broker, event in sorted(got):
        space, values = events[event]
        who = (subscriber, broker)
        if who not in scans or not scans[who][space].match(values):
            yield f"{subscriber} at {broker} got event {event} {values} of {space}, which he never asked for"


# --- from the command line


def replay_command(seed: int, protocol: str, codec: bool = False) -> str:
    return f"python -m contentcast.simulation.faults --protocol {protocol} --seed {seed}{' --codec' if codec else ''} --replay"


def main(arguments: Sequence[str] | None = None) -> int:
    """Play many seeds, or one; 0 if all passed."""
    parser = argparse.ArgumentParser(
        prog="python -m contentcast.simulation.faults",
        description="Play seeded fault stories to the routers of a protocol and check who got what.",
    )
    parser.add_argument("--protocol", default="all", help=f"all, or one of: {', '.join(catalog.PROTOCOLS)}")
    parser.add_argument("--seeds", type=int, default=100, help="so many stories (100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seed", type=int, help="this one story only")
    parser.add_argument("--codec", action="store_true", help="every message goes through the wire's encoding")
    parser.add_argument("--replay", action="store_true", help="print the story and what every broker did")
    chosen = parser.parse_args(arguments)
    console = Console(stderr=True)
    try:
        protocols = list(catalog.PROTOCOLS) if chosen.protocol == "all" else [chosen.protocol]
        for name in protocols:
            catalog.protocol(name)
    except ContentcastError as error:
        console.print(str(error), markup=False, soft_wrap=True)
        return 2
    seeds = range(chosen.first, chosen.first + chosen.seeds) if chosen.seed is None else [chosen.seed]
    failed = 0
    for protocol in protocols:
        failed += _play_all(protocol, seeds, chosen, console)
    return 1 if failed else 0


def _play_all(protocol: str, seeds: Sequence[int], chosen: argparse.Namespace, console: Console) -> int:
    """How many stories failed; a bar on a terminal, else a line now and then."""
    done, bad, delivered, again = 0, 0, 0, 0
    with lines_without_terminal(lambda: f"{protocol}: {done:,} of {len(seeds):,} stories"):
        for seed in track(seeds, f"{protocol:20}", console=console, disable=len(seeds) == 1 or not sys.stderr.isatty()):
            trace = Trace()
            outcome = play(Story.random(seed), protocol, codec=chosen.codec, trace=trace)
            done += 1
            delivered += outcome.deliveries
            again += outcome.again
            if chosen.replay:
                print(outcome.story, *trace.lines, sep="\n")
            if not outcome.passed:
                bad += 1
                more = len(outcome.problems) - SHOWN
                print(f"seed {seed}, {protocol}: replay with {replay_command(seed, protocol, chosen.codec)}")
                print(
                    *(f"  {each}" for each in outcome.problems[:SHOWN]), *([f"  and {more} more"] if more > 0 else []), sep="\n"
                )
    passed = f"{len(seeds) - bad} of {len(seeds)} stories passed"
    print(f"{protocol}: {passed}; {delivered} deliveries, {again} again after a crash", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
