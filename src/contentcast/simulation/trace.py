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
    Account,
    Deliver,
    Effect,
    Input,
    Published,
    Received,
    Send,
    SetTimer,
    Subscribed,
    TimerFired,
    Unsubscribed,
)
from contentcast.wire import Frame, Interest, Known, Message, Neighbours, Publish


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
        case Published(events):
            return f"Published{_ids(events)}"
        case Received(link, message):
            return f"Received {link} {describe_message(message)}"
        case Subscribed(subscriptions):
            return f"Subscribed{_ids(subscriptions)}"
        case Unsubscribed(ids):
            return f"Unsubscribed{list(ids)}"
        case TimerFired(name):
            return f"TimerFired {name}"
        case _:
            return f"{type(input).__name__} {input.link}"


def describe_effect(effect: Effect) -> str:
    match effect:
        case Send(link, message):
            return f"Send {link} {describe_message(message)}"
        case Deliver(events, rows, who, subscribers):
            numbers = events.ids.to_pylist()
            pairs = ", ".join(
                f"{numbers[row]}: {subscribers[each]}" for row, each in zip(rows.tolist(), who.tolist(), strict=True)
            )
            return f"Deliver[{pairs}]"
        case SetTimer(name, at):
            return f"SetTimer {name} {at!r}"
        case Account(events, steps):
            pairs = ", ".join(f"{each}: {step}" for each, step in zip(events.ids.to_pylist(), steps.tolist(), strict=True))
            return f"Account[{pairs}]"
    return repr(effect)


def describe_message(message: Message) -> str:
    match message:
        case Publish(origin, incarnation, serial, events, destinations):
            to = "" if destinations is None else f" to {destinations.to_pylist()}"
            return f"Publish {origin}.{incarnation}/{serial}{_ids(events)}{to}"
        case Interest(origin, incarnation, since, version, added, removed):
            more = " ".join(f"{batch.space.name}{_ids(batch)}" for batch in added)
            return f"Interest {origin}.{incarnation} {since}>{version} +({more}) -{list(removed)}"
        case Neighbours(origin, incarnation, version, links):
            return f"Neighbours {origin}.{incarnation}/{version} {list(links)}"
        case Known(marks):
            return f"Known {{{', '.join(f'{origin}: {tuple(mark)}' for origin, mark in sorted(marks.items()))}}}"
        case Frame(session, number, of, acknowledged, inner):
            carried = "" if inner is None else f" {describe_message(inner)}"
            return f"Frame {session}/{number} ack {of}/{acknowledged}{carried}"
    return type(message).__name__


def _ids(batch: EventBatch | SubscriptionBatch) -> str:
    numbers: Any = batch.ids
    return str(numbers.tolist())
