"""The dice of a router: chance that a host hands in, the same on every machine for the same seed.

Source: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). A text as seed goes through BLAKE2b, so that neighbouring texts give
streams that have nothing in common.
Rule: a router never makes dice; it is given them with its set-up (`Setup.dice`). A simulation seeds them with a text that names
the broker and its life, a live broker with chance from the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, TypeVar

T = TypeVar("T")

_MASK: Final = 2**64 - 1


class Dice:
    __slots__ = ("_state",)

    def __init__(self, seed: str | int) -> None:
        digest = blake2b(str(seed).encode(), digest_size=8).digest()
        self._state = int.from_bytes(digest, "little")

    def word(self) -> int:
        """64 bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def random(self) -> float:
        """From 0 up to but not including 1."""
        return (self.word() >> 11) / 2**53

    def below(self, end: int) -> int:
        """From 0 to `end` - 1. The bias is below `end` / 2^64."""
        return self.word() % end

    def choice(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]
