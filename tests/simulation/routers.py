"""Routers made of one function, for stories about what a host does for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contentcast.model import EventBatch
from contentcast.routing.contract import Effect, Input, Sizes
from contentcast.routing.setup import Life, MakeRouter
from contentcast.wire import Publish
from tests.simulation.small import TRADES

Answer = Callable[["Plain", Input, float], list[Effect]]


class Plain:
    """Keeps what it is told, and answers by a function."""

    def __init__(self, broker: str, life: Life, answer: Answer, told: list[tuple[float, str, Input]]) -> None:
        self.broker = broker
        self.life = life
        self.told = told
        self._answer = answer

    def handle(self, input: Input, now: float) -> list[Effect]:
        self.told.append((now, self.broker, input))
        return self._answer(self, input, now)

    def sizes(self) -> Sizes:
        return {}

    def state(self) -> dict[str, Any]:
        return {}


def answering(answer: Answer) -> tuple[MakeRouter, list[tuple[float, str, Input]]]:
    """The function that makes such routers, and what all of them are told: (time, broker, input)."""
    told: list[tuple[float, str, Input]] = []
    return (lambda broker, life: Plain(broker, life, answer, told)), told


def letter(number: int = 1) -> Publish:
    """A small message."""
    return Publish("a", 1, number, EventBatch.from_dicts(TRADES, [{"price": 1.0}], ids=[number]))
