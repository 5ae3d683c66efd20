"""Any router on links that lose, repeat and reorder."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from contentcast.routing.contract import Effect, Input, LinkLost, LinkUp, Received, Send, SetTimer, Sizes, Timer, TimerFired
from contentcast.routing.reliable import Reliable
from contentcast.wire import Frame, Known, Mark, Message


class Notes:
    """A router that writes down what it hears and sends what it is asked to (by timers with the name of a message)."""

    def __init__(self, broker: str, other: str) -> None:
        self.broker, self.other = broker, other
        self.heard: list[str] = []
        self.ups = 0

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case TimerFired(Timer(name)):
                return [Send(self.other, Known({name: Mark(1, {})}))]
            case Received(_, Known(marks)):
                self.heard += marks
            case LinkUp():
                self.ups += 1
        return []

    def sizes(self) -> Sizes:
        return {}

    def state(self) -> dict[str, Any]:
        return {"heard": self.heard}


def frames(effects: list[Effect]) -> list[Frame]:
    return [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, Frame)]


def test_what_is_lost_is_sent_again_and_what_comes_twice_is_heard_once() -> None:
    a, notes = Reliable(Notes("a", "b")), Notes("b", "a")
    b = Reliable(notes)
    a.handle(LinkUp("b"), 0.0), b.handle(LinkUp("a"), 0.0)
    (lost,) = frames(a.handle(TimerFired(Timer("x")), 0.0))
    (second,) = frames(a.handle(TimerFired(Timer("y")), 0.0))
    b.handle(Received("a", second), 0.1)
    assert notes.heard == [], "y waits for x"
    again = frames(a.handle(TimerFired(Timer("resend", "b")), 1.0))
    assert [each.number for each in again] == [lost.number, second.number]
    for frame in [*again, *again]:
        b.handle(Received("a", frame), 1.1)
    assert notes.heard == ["x", "y"]
    (receipt,) = frames(b.handle(TimerFired(Timer("acknowledge", "a")), 1.2))
    assert (receipt.message, receipt.acknowledged) == (None, 2)
    a.handle(Received("b", receipt), 1.3)
    assert a.state()["sessions"]["b"]["unacknowledged"] == 0
    assert a.handle(TimerFired(Timer("resend", "b")), 2.0) == []


def test_resending_becomes_patient() -> None:
    a = Reliable(Notes("a", "b"))
    a.handle(LinkUp("b", 0.01), 0.0)
    alarms = [each.at for each in a.handle(TimerFired(Timer("x")), 0.0) if isinstance(each, SetTimer)]
    waits = list(alarms)
    for _ in range(10):
        now = alarms[-1]
        alarms += [each.at for each in a.handle(TimerFired(Timer("resend", "b")), now) if isinstance(each, SetTimer)]
        waits.append(alarms[-1] - now)
    assert waits[1] == pytest.approx(2 * waits[0])
    assert waits[-1] == pytest.approx(64 * waits[0])


def test_a_broker_that_started_again_begins_anew() -> None:
    before, after = Notes("b", "a"), Notes("b", "a")
    inside = Notes("a", "b")
    a = Reliable(inside)
    b = Reliable(before, incarnation=1)
    a.handle(LinkUp("b"), 0.0), b.handle(LinkUp("a"), 0.0)
    for frame in frames(b.handle(TimerFired(Timer("hello")), 0.0)):
        a.handle(Received("b", frame), 0.0)
    a.handle(TimerFired(Timer("for the first life")), 0.0)
    a.handle(LinkLost("b"), 1.0)
    b = Reliable(after, incarnation=2)
    b.handle(LinkUp("a"), 2.0)
    for frame in frames(a.handle(LinkUp("b"), 2.0)):
        b.handle(Received("a", frame), 2.0)
    ups = inside.ups
    for frame in frames(b.handle(TimerFired(Timer("I am new")), 2.0)):
        a.handle(Received("b", frame), 2.0)
    assert inside.heard == ["hello", "I am new"]
    assert inside.ups == ups + 1, "the router is told to begin anew"
    for frame in frames(a.handle(TimerFired(Timer("for the second life")), 3.0)):
        b.handle(Received("a", frame), 3.0)
    assert after.heard[-1] == "for the second life"


@pytest.mark.parametrize("seed", range(20))
def test_any_mixture_of_losses_repeats_and_detours(seed: int) -> None:
    """Messages both ways, each lost with 30 %, repeated with 20 %, and taken from the wire in any order."""
    random = Random(seed)
    notes = {"a": Notes("a", "b"), "b": Notes("b", "a")}
    routers = {name: Reliable(each) for name, each in notes.items()}
    other = {"a": "b", "b": "a"}
    wire: list[tuple[str, Message]] = []
    timers: dict[tuple[str, str], float] = {}
    now = 0.0

    def tell(broker: str, input: Input) -> None:
        for effect in routers[broker].handle(input, now):
            if isinstance(effect, Send):
                wire.extend([(other[broker], effect.message)] * (random.random() > 0.3) * (1 + (random.random() < 0.2)))
            elif isinstance(effect, SetTimer):
                timers[broker, effect.timer] = effect.at

    sent: dict[str, list[str]] = {"a": [], "b": []}
    for broker in "ab":
        tell(broker, LinkUp(other[broker]))
    for number in range(60):
        broker = random.choice("ab")
        sent[broker].append(str(number))
        tell(broker, TimerFired(Timer(str(number))))
        while wire and random.random() < 0.7:
            to, message = wire.pop(random.randrange(len(wire)))
            tell(to, Received(other[to], message))
    while wire or timers:
        while wire:
            to, message = wire.pop(random.randrange(len(wire)))
            tell(to, Received(other[to], message))
        if timers:
            (broker, name), now = min(timers.items(), key=lambda item: (item[1], item[0]))
            del timers[broker, name]
            tell(broker, TimerFired(name))
    assert notes["a"].heard == sent["b"], f"seed {seed}"
    assert notes["b"].heard == sent["a"], f"seed {seed}"
