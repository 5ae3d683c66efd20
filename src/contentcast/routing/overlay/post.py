"""Messages to any node that must not be lost: numbered, acknowledged, sent again, and handed back when nobody answers.

    a -> b   Posted 1 (Cast ...)      lost
    a        after RETRY_S            Posted 1 again
    b -> a   Acknowledged 1           b has it, and passes it on by itself
    a        after GIVEN_UP_AFTER     the message comes back to the router, which finds another way

Rule: a node hands every posted message of another node's life to its router once, as long as it lives itself.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from contentcast.routing.contract import Effect, SendTo, SetTimer, Timer
from contentcast.wire import Message
from contentcast.wire.overlay import Posted

RETRY_S: Final = 0.4
GIVEN_UP_AFTER: Final = 12
"""Tries. Over links that lose a tenth of all messages each, four in a row, one in a million is given up wrongly."""
KEPT: Final = 4096
"""Numbers remembered of each sender."""
LIVES: Final = 1 << 32
POST: Final = Timer("post")
POST_BACKGROUND: Final = Timer("post", "background")


@dataclass(slots=True)
class Letter:
    peer: str
    message: Posted
    background: bool
    due: float
    tries: int = 1


class Post:
    def __init__(self, incarnation: int) -> None:
        self._next = incarnation * LIVES
        self._waiting: OrderedDict[int, Letter] = OrderedDict()
        self._seen: dict[str, OrderedDict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def send(self, peer: str, message: Message, now: float, background: bool = False) -> list[Effect]:
        """`background`: what it brings should be there already; the network may be called quiet before it is acknowledged."""
        self._next += 1
        posted = Posted(self._next, message)
        self._waiting[self._next] = Letter(peer, posted, background, now + RETRY_S)
        return [SendTo(peer, posted), self._alarm(background, now)]

    @staticmethod
    def _alarm(background: bool, now: float) -> SetTimer:
        return SetTimer(POST_BACKGROUND if background else POST, now + RETRY_S, background)

    def acknowledged(self, number: int) -> None:
        self._waiting.pop(number, None)

    def is_new(self, sender: str, number: int) -> bool:
        seen = self._seen.setdefault(sender, OrderedDict())
        if number in seen:
            return False
        seen[number] = None
        if len(seen) > KEPT:
            seen.popitem(last=False)
        return True

    def woken(self, background: bool, now: float) -> tuple[list[Effect], list[tuple[str, Message]]]:
        """What is sent again, and what is given up: (to whom, the message)."""
        effects: list[Effect] = []
        back: list[tuple[str, Message]] = []
        for number, letter in list(self._waiting.items()):
            if letter.background != background or letter.due > now:
                continue
            if letter.tries >= GIVEN_UP_AFTER:
                del self._waiting[number]
                assert letter.message.message is not None
                back.append((letter.peer, letter.message.message))
                continue
            letter.tries += 1
            letter.due = now + RETRY_S
            effects.append(SendTo(letter.peer, letter.message))
        if any(letter.background == background for letter in self._waiting.values()):
            effects.append(self._alarm(background, now))
        return effects, back
