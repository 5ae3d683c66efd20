"""Content-based publish/subscribe on a ring of nodes that needs no configuration: a broker and its places on the ring.

Source: Baldoni et al. 2005; section 4.2 (discussion) names virtual nodes as a remedy against hotspots and leaves the how open.

    points=1    n1 stands on the ring once
    points=3    n1, n1#1 and n1#2 stand on it: three short arcs in place of one, so that the greatest share of keys comes nearer
                to the mean. Each place is a whole node of the ring (`place`), with its own arc, store and neighbours.

What one place sends to another goes in a `Between` to the broker where that one is, or straight there if it is of this broker.
Rule: clients are at the first place, which has the broker's name. Copies of an arc are kept at other brokers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import Any, ClassVar, Final, Self

from contentcast.model import ContentcastError
from contentcast.model.errors import nearest
from contentcast.network.topology import Topology
from contentcast.routing.chord.keys import BITS
from contentcast.routing.chord.node import SUCCESSORS, SUSPECT_AFTER_S
from contentcast.routing.contract import Effect, Input, Received, SendTo, SetTimer, Sizes, Started, Stopping, Timer, TimerFired
from contentcast.routing.overlay.copying import BEHIND_NAME, host_of
from contentcast.routing.overlay.notices import BUFFER_S, WAYS
from contentcast.routing.overlay.place import LIVES_FOR, Place
from contentcast.routing.setup import Setup
from contentcast.wire.overlay import LONGEST_LIFE_S, Between

STABILISE_EVERY_S: Final = 0.5
RENEW_EVERY_S: Final = 10.0
LEAST_SUCCESSORS: Final = 2
"""With one, the ring is torn by the first crash."""


class Overlay:
    """`mapping`: attribute-split, key-space-split or selective-attribute. `notify`: at-once, buffered or collected.

    `points`: places on the ring; `bits` of the keys that SK and EK give (nodes stand at 64); `cells` of discretization (0:
    none); `successors`: length of the successor list; `copies`: successors that hold copies; `renew_s`: how often
    subscriptions are renewed; `learn_s`: how often the node that covers key 0 looks whether the values it has seen call for
    another mapping (0: never).
    """

    needs_links: ClassVar = False
    """It joins through any node (`Setup.contacts`)."""

    def __init__(
        self,
        broker: str,
        setup: Setup,
        *,
        points: int = 1,
        mapping: str = "selective-attribute",
        bits: int = BITS,
        cells: int = 0,
        notify: str = "at-once",
        buffer_s: float = BUFFER_S,
        successors: int = SUCCESSORS,
        copies: int = 2,
        renew_s: float = RENEW_EVERY_S,
        stabilise_s: float = STABILISE_EVERY_S,
        suspect_after_s: float = SUSPECT_AFTER_S,
        learn_s: float = 0.0,
    ) -> None:
        if not 1 <= bits <= BITS:
            raise ContentcastError(f"keys have 1 to {BITS} bits, got {bits}")
        if successors < LEAST_SUCCESSORS:
            raise ContentcastError(f"a node of the ring knows at least {LEAST_SUCCESSORS} successors, got {successors}")
        if not 1 <= copies <= successors:
            raise ContentcastError(
                f"overlay keeps 1 to {successors} copies, since it has {successors} successors, got {copies}"
            )
        if cells < 0:
            raise ContentcastError(f"overlay: cells is 0 or more, got {cells}")
        for name, period_s in (("stabilise_s", stabilise_s), ("renew_s", renew_s), ("suspect_after_s", suspect_after_s)):
            if not 0 < period_s < inf:
                raise ContentcastError(f"overlay: {name} is more than 0, got {period_s:g}")
        if LIVES_FOR * renew_s > LONGEST_LIFE_S:
            raise ContentcastError(
                f"overlay: renew_s is at most {int(LONGEST_LIFE_S / LIVES_FOR):,}, since no subscription is kept for more than "
                f"{LONGEST_LIFE_S:,.0f} s, got {renew_s:g}"
            )
        for name, period_s in (("buffer_s", buffer_s), ("learn_s", learn_s)):
            if not 0 <= period_s < inf:
                raise ContentcastError(f"overlay: {name} is 0 or more, got {period_s:g}")
        if points < 1:
            raise ContentcastError(f"a broker has at least one place on the ring, got {points}")
        if points > 1 and BEHIND_NAME in broker:
            raise ContentcastError(f"{BEHIND_NAME} divides a broker's name from the number of its place; rename {broker!r}")
        if notify not in WAYS:
            raise ContentcastError(f"overlay notifies {', '.join(WAYS)}, got {notify!r}{nearest(notify, WAYS)}")
        self.broker = broker
        names = places_of(broker, points)
        self.places = {
            name: Place(
                name,
                _setup_of(setup, broker, name, points),
                mapping=mapping,
                bits=bits,
                cells=cells,
                notify=notify,
                buffer_s=buffer_s,
                # The next brokers, not the next places, must be in the list: some of those may be places of the same broker.
                successors=successors if points == 1 else 2 * successors,
                copies=copies,
                renew_s=renew_s,
                stabilise_s=stabilise_s,
                suspect_after_s=suspect_after_s,
                learn_s=learn_s,
            )
            for name in names
        }
        self._first = self.places[broker]

    def handle(self, input: Input, now: float) -> list[Effect]:
        if len(self.places) == 1:
            return self._first.handle(input, now)
        match input:
            case Received(_, Between(sender, place, message)) if message is not None:
                return self._handle([(place, Received(sender, message, input.via))], now)
            case TimerFired(Timer(part, about)):
                place, _, rest = about.rpartition(" ")
                return self._handle([(place or self.broker, TimerFired(Timer(part, rest)))], now)
            case Started() | Stopping():
                return self._handle([(each, input) for each in self.places], now)
            case _:
                return self._handle([(self.broker, input)], now)

    def rehearsal(self) -> Self:
        """Says of events what this router would do with them, and remembers nothing of it; it takes nothing but events."""
        made = copy(self)
        made.places = {name: place.rehearsal() for name, place in self.places.items()}
        made._first = made.places[self.broker]
        return made

    def _handle(self, inputs: Iterable[tuple[str, Input]], now: float) -> list[Effect]:
        """What places of this broker send to each other is there at once."""
        effects: list[Effect] = []
        waiting = deque(inputs)
        while waiting:
            name, input = waiting.popleft()
            if (place := self.places.get(name)) is None:
                continue  # it has fewer places than the sender knew in an earlier life
            for effect in place.handle(input, now):
                match effect:
                    case SendTo(other, message) if host_of(other) == self.broker:
                        waiting.append((other, Received(name, message)))
                    case SendTo(other, message) if name != self.broker or other != host_of(other):
                        effects.append(SendTo(host_of(other), Between(name, other, message)))
                    case SetTimer(Timer(part, about), at, background) if name != self.broker:
                        effects.append(SetTimer(Timer(part, f"{name} {about}"), at, background))
                    case _:
                        effects.append(effect)
        return effects

    # --- looking inside

    def sizes(self) -> Sizes:
        first = self._first.sizes()
        held = {key for place in self.places.values() for key in place.store.living()}
        return {**first, "subscriptions": len(held)}

    def state(self) -> dict[str, Any]:
        found = self._first.state()
        if len(self.places) == 1:
            return found
        states = {name: place.state() for name, place in self.places.items()}
        held = sorted({each for state in states.values() for each in state["held"]})
        return {**found, "held": held, "places": {name: state["ring"] for name, state in states.items()}}


def places_of(broker: str, points: int) -> list[str]:
    return [broker, *(f"{broker}{BEHIND_NAME}{number}" for number in range(1, points))]


@lru_cache(maxsize=8)
def _with_places(topology: Topology, points: int) -> Topology:
    return Topology.of([name for broker in topology.brokers for name in places_of(broker, points)], [])


def _setup_of(setup: Setup, broker: str, place: str, points: int) -> Setup:
    if points == 1:
        return setup
    topology = None if setup.topology is None else _with_places(setup.topology, points)
    contacts = setup.contacts if place == broker else (*setup.contacts, broker)
    return replace(setup, topology=topology, contacts=contacts)
