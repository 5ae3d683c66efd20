"""A cache that is bounded by what it holds, not by how many things: strangers choose how long their patterns are.

    @weighed(most=1_000_000, weigh=len)
    def tokens(text): ...

Rule: once the weights together exceed `most`, everything is forgotten; what weighs more than a tenth of it is never kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


class Weighed(Generic[Key, Answer]):
    """A function of one argument that remembers its answers."""

    def __init__(self, function: Callable[[Key], Answer], most: int, weigh: Callable[[Key], int]) -> None:
        self._function, self._most, self._weigh = function, most, weigh
        self._known: dict[Key, Answer] = {}
        self.weight = 0

    def __call__(self, key: Key) -> Answer:
        found = self._known.get(key)
        if found is None:  # no function here answers None
            found = self._function(key)
            weight = self._weigh(key)
            if 10 * weight <= self._most:
                if self.weight + weight > self._most:
                    self.forget()
                self._known[key] = found
                self.weight += weight
        return found

    def __len__(self) -> int:
        return len(self._known)

    def forget(self) -> None:
        self._known = {}
        self.weight = 0


def weighed(most: int, weigh: Callable[[Key], int]) -> Callable[[Callable[[Key], Answer]], Weighed[Key, Answer]]:
    return lambda function: Weighed(function, most, weigh)
