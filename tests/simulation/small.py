"""Small things that the stories of the simulation are told with: a space, subscriptions, events, and two tiny routers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from contentcast.language import subscription
from contentcast.model import EventBatch, Space, SubscriptionBatch
from contentcast.routing.contract import (
    Account,
    Deliver,
    Effect,
    Input,
    Published,
    Received,
    Send,
    Sizes,
    Started,
    Subscribed,
)
from contentcast.routing.flooding import Flooding
from contentcast.routing.setup import Life, Setup
from contentcast.wire import Publish

TRADES = Space("trades", issue="string", price="float")


def wish(number: int, predicate: str, subscriber: str = "desk-7") -> Subscribed:
    return Subscribed(SubscriptionBatch.of(subscription(TRADES, number, predicate, subscriber=subscriber)))


def trade(number: int, price: float = 100.0, issue: str = "IBM") -> Published:
    return Published(EventBatch.from_dicts(TRADES, [{"issue": issue, "price": price}], ids=[number]))


def flooding(broker: str, life: Life) -> Flooding:
    return Flooding(broker, Setup().living(life))


class Recorder:
    """Answers nothing, and keeps what it was told and when, but for the start. All lives of all brokers write into one list."""

    def __init__(self, broker: str, incarnation: int, told: list[tuple[float, str, int, Input]]) -> None:
        self.broker = broker
        self.incarnation = incarnation
        self.told = told

    def handle(self, input: Input, now: float) -> list[Effect]:
        if not isinstance(input, Started):
            self.told.append((now, self.broker, self.incarnation, input))
        return self.answer(input, now)

    def answer(self, input: Input, now: float) -> list[Effect]:
        return []

    def sizes(self) -> Sizes:
        return {}

    def state(self) -> dict[str, Any]:
        return {}


class Pipe(Recorder):
    """Hands every event to one client of its own, at a cost of `steps`, and passes it on to `onward`; asks nobody anything."""

    def __init__(self, broker: str, onward: Sequence[str] = (), steps: int = 0) -> None:
        super().__init__(broker, 1, [])
        self.onward = onward
        self.steps = steps

    def answer(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Published(events):
                message = Publish(self.broker, 1, 1, events)
            case Received(_, Publish(events=events) as publish):
                message = publish
            case _:
                return []
        every = np.arange(len(events))
        return [
            Account(events, np.full(len(events), self.steps)),
            Deliver(events, every, np.zeros_like(every), (f"client of {self.broker}",)),
            *(Send(link, message) for link in self.onward),
        ]
