"""Events handed to any broker, neighbour or not: numbered, acknowledged, and sent again until they are.

    a: hand(d, events)            SendTo(d, Handed(1, events)), timer
    d: Received Handed            SendTo(a, Arrived(1))
    a: timer, and no Arrived      the same once more, twice as patient from now on

`Reliable` protects what goes over links, and what goes to any broker may be lost; so this part does for `SendTo` what
`Reliable` does for `Send`, without the order, which events do not need.
Rule: it is sent again as long as the broker can be reached. What was for a broker that is gone comes back by `stranded`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from contentcast.routing.contract import Effect, Input, Received, SendTo, SetTimer, Timer, TimerFired
from contentcast.wire import Publish
from contentcast.wire.summaries import Arrived, Handed

HAND_AGAIN: Final = "hand again"
SLACK_S: Final = 0.5
"""It is sent again after the way there and back and this much for queues."""
MOST_PATIENCE: Final = 8
"""How many times longer the last of several resendings waits than the first."""
MOST_TRIES: Final = 64
LIVES: Final = 1 << 32
"""Numbers of a later life are always larger, so that an `Arrived` for an earlier one fits nothing."""


@dataclass(slots=True)
class Unacknowledged:
    publish: Publish
    due: float
    tries: int = 1


class Handing:
    """`delay_s(broker)`: seconds one way."""

    def __init__(self, incarnation: int, delay_s: Callable[[str], float]) -> None:
        self._number = incarnation * LIVES
        self._delay_s = delay_s
        self._waiting: dict[str, dict[int, Unacknowledged]] = {}

    def hand(self, broker: str, publish: Publish, now: float) -> list[Effect]:
        self._number += 1
        waiting = self._waiting.setdefault(broker, {})
        due = now + self._round_trip_s(broker)
        waiting[self._number] = Unacknowledged(publish, due)
        alarm = [SetTimer(Timer(HAND_AGAIN, broker), due)] if len(waiting) == 1 else []
        return [SendTo(broker, Handed(self._number, publish)), *alarm]

    def _round_trip_s(self, broker: str) -> float:
        return 2 * self._delay_s(broker) + SLACK_S

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Received(sender, Arrived(number)):
                self._waiting.get(sender, {}).pop(number, None)
            case TimerFired(Timer(part, broker)) if part == HAND_AGAIN:
                return self._again(broker, now)
        return []

    def _again(self, broker: str, now: float) -> list[Effect]:
        waiting = self._waiting.get(broker, {})
        effects: list[Effect] = []
        for number, each in list(waiting.items()):
            if each.due > now:
                continue
            if each.tries == MOST_TRIES:
                del waiting[number]
                continue
            patience = min(1 << each.tries, MOST_PATIENCE)
            each.tries += 1
            each.due = now + patience * self._round_trip_s(broker)
            effects.append(SendTo(broker, Handed(number, each.publish)))
        if waiting:
            effects.append(SetTimer(Timer(HAND_AGAIN, broker), min(each.due for each in waiting.values())))
        return effects

    def stranded(self, reachable: Collection[str]) -> list[Publish]:
        """What was for brokers that can no longer be reached; it is not sent again from here."""
        found: list[Publish] = []
        for broker in [each for each in self._waiting if each not in reachable]:
            found += [each.publish for each in self._waiting.pop(broker).values()]
        return found

    def sizes(self) -> dict[str, int]:
        return {}

    def state(self) -> dict[str, Any]:
        return {"unacknowledged": {broker: len(each) for broker, each in sorted(self._waiting.items()) if each}}
