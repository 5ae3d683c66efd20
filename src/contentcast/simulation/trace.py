"""What happened, one line for each input that a broker handled and for each fault: same seed, same lines, byte for byte.

    1.0 a.1 Published[1] -> Account[1: 3]; Send b Publish a.1/1[1]
    1.01007 b.1 Received a Publish a.1/1[1] -> Deliver[1: desk-7]
    2.0 cut a-b

Times are written as `repr` does, which is exact. Rule: a line says only what the inputs and effects say, never where an object
lies or in which order a set happens to be.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, TextIO

from contentcast.model import EventBatch, SubscriptionBatch
from contentcast.routing.contract import (
    LINK,
    Accepted,
    Account,
    Acknowledged,
    Advertised,
    Append,
    Declared,
    Deliver,
    DeliverDurably,
    DurablySubscribed,
    DurablyUnsubscribed,
    Effect,
    Holds,
    Input,
    Join,
    Leave,
    LinkLost,
    LinkUp,
    Published,
    Received,
    Resumed,
    Send,
    SendGroup,
    SendTo,
    SetTimer,
    Started,
    Subscribed,
    Suspended,
    Synced,
    TimerFired,
    Trim,
    Unadvertised,
    Unsubscribed,
)
from contentcast.wire import describe


class Trace:
    """Keeps its lines, or writes them to a file and keeps none; `digest` stands for all of them."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.lines: list[str] = []
        self.count = 0
        self._file = file
        self._hash = blake2b(digest_size=16)

    def write(self, now: float, what: str) -> None:
        line = f"{now!r} {what}"
        self.count += 1
        self._hash.update(line.encode() + b"\n")
        if self._file is None:
            self.lines.append(line)
        else:
            self._file.write(line + "\n")

    def handled(self, now: float, broker: str, incarnation: int, input: Input, effects: Iterable[Effect]) -> None:
        done = "; ".join(map(describe_effect, effects))
        self.write(now, f"{broker}.{incarnation} {describe_input(input)}" + (f" -> {done}" if done else ""))

    def digest(self) -> str:
        return self._hash.hexdigest()


def describe_input(input: Input) -> str:
    match input:
        case Published(events, publisher, number):
            return f"Published{_ids(events)}" + (f" {publisher}/{number}" if publisher else "")
        case Received(sender, message, via):
            way = "" if via is LINK else f" by group {via.group}" if via.group else " directly"
            return f"Received {sender}{way} {describe(message)}"
        case Subscribed(subscriptions) | DurablySubscribed(subscriptions):
            return f"{type(input).__name__}{_ids(subscriptions)}"
        case Resumed(subscription, upto) | Acknowledged(subscription, upto):
            return f"{type(input).__name__} {subscription}: {upto}"
        case Suspended(subscription):
            return f"Suspended {subscription}"
        case Unsubscribed(ids) | Unadvertised(ids) | DurablyUnsubscribed(ids):
            return f"{type(input).__name__}{list(ids)}"
        case Advertised(advertisements):
            return f"Advertised{[each.id for each in advertisements]}"
        case Declared(space):
            return f"Declared {space.name} {list(space.names)}"
        case TimerFired(timer):
            return f"TimerFired {timer}"
        case Started(restored):
            return f"Started {len(restored)}"
        case Synced(upto):
            return f"Synced {upto}"
        case LinkUp(link) | LinkLost(link):
            return f"{type(input).__name__} {link}"
        case _:
            return type(input).__name__


def describe_effect(effect: Effect) -> str:
    match effect:
        case Send(to, message) | SendTo(to, message) | SendGroup(to, message):
            return f"{type(effect).__name__} {to} {describe(message)}"
        case Deliver(events, rows, who, subscribers):
            numbers = events.ids.to_pylist()
            pairs = ", ".join(
                f"{numbers[row]}: {subscribers[each]}" for row, each in zip(rows.tolist(), who.tolist(), strict=True)
            )
            return f"Deliver[{pairs}]"
        case Accepted(publisher, number, position, duplicate):
            return f"Accepted {publisher}/{number} at {position}{' duplicate' if duplicate else ''}"
        case DeliverDurably(subscription, subscriber, first, events, missed):
            return f"DeliverDurably {subscription} {subscriber} {first}{_ids(events)}{f' missed {missed}' if missed else ''}"
        case Holds(subscriptions, brokers, lacking):
            return f"Holds{list(subscriptions)} at {list(brokers)} lacking {list(lacking)}"
        case Trim(before):
            return f"Trim {before}"
        case SetTimer(timer, at, background):
            return f"SetTimer {timer} {at!r}{' background' if background else ''}"
        case Account(events, steps):
            pairs = ", ".join(f"{each}: {step}" for each, step in zip(events.ids.to_pylist(), steps.tolist(), strict=True))
            return f"Account[{pairs}]"
        case Append(record):
            return f"Append {len(record)} bytes {blake2b(record, digest_size=4).hexdigest()}"
        case Join(group) | Leave(group):
            return f"{type(effect).__name__} {group}"
    return type(effect).__name__


def _ids(batch: EventBatch | SubscriptionBatch) -> str:
    numbers: Any = batch.ids
    return str(numbers.tolist())
