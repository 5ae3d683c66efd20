"""Messages to any node that must not be lost: numbered, acknowledged, kept until all they caused has arrived, else sent again.

    a -> b   Posted 1 (Cast ...)      lost
    a        after RETRY_S            Posted 1 again
    b -> c   Posted 7                 b passes it on, on behalf of a's 1
    b -> a   Acknowledged 1           b has it: a need not hurry, but keeps it
    c -> b   Acknowledged 7 done      c had to pass nothing on
    b -> a   Acknowledged 1 done      all that a's 1 has caused is where it should be: a forgets it

If b crashes between the two answers, a's next Posted 1 finds nobody, or a new life of b that does not know it. After
GIVEN_UP_AFTER tries the message comes back to the router, which finds another way. Then something may arrive twice, and never
not at all, as long as the node lives where it entered; whoever delivers events remembers which it has delivered.
Rule: a node hands every posted message of another node's life to its router once, as long as it lives itself. Messages in the
background (renewals, which come again) are done as soon as they are there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from contentcast.routing.contract import Effect, SendTo, SetTimer, Timer
from contentcast.wire import Message
from contentcast.wire.overlay import Acknowledged, Posted

RETRY_S: Final = 0.4
ASK_AGAIN_S: Final = 2.0
"""A node that has acknowledged and is not done is asked again after so long: it may have crashed."""
GIVEN_UP_AFTER: Final = 12
"""Tries. Over links that lose a tenth of all messages each, four in a row, one in a million is given up wrongly."""
KEPT: Final = 4096
"""Numbers remembered of each sender."""
LIVES: Final = 1 << 32
POST: Final = Timer("post")
POST_BACKGROUND: Final = Timer("post", "background")


@dataclass(slots=True)
class Cause:
    """A posted message of another node, and how many messages that it caused are still to arrive."""

    sender: str
    number: int
    open: int = 0


@dataclass(slots=True)
class Letter:
    peer: str
    message: Posted
    background: bool
    due: float
    causes: tuple[Cause, ...]
    tries: int = 1


class Post:
    def __init__(self, incarnation: int) -> None:
        self._next = incarnation * LIVES
        self._waiting: OrderedDict[int, Letter] = OrderedDict()
        self._seen: dict[str, OrderedDict[int, Cause]] = {}
        self._wakes: dict[bool, float] = {}
        """When the timer of the background, and the other one, will fire."""
        self.causes: tuple[Cause, ...] = ()
        """On whose behalf messages are sent just now."""

    def __len__(self) -> int:
        return len(self._waiting)

    # --- away from here

    def send(self, peer: str, message: Message, now: float, background: bool = False) -> list[Effect]:
        """`background`: what it brings should be there already; the network may be called quiet before it is acknowledged."""
        self._next += 1
        posted = Posted(self._next, message)
        causes = () if background else self.causes
        self.hold(causes)
        self._waiting[self._next] = Letter(peer, posted, background, now + RETRY_S, causes)
        return [SendTo(peer, posted), *self._alarm(background, now + RETRY_S)]

    def _alarm(self, background: bool, at: float) -> list[Effect]:
        """Never later than it was: whoever sends all the time must be woken too."""
        if self._wakes.get(background, at) < at:
            return []
        self._wakes[background] = at
        return [SetTimer(POST_BACKGROUND if background else POST, at, background)]

    def acknowledged(self, number: int, done: bool, now: float) -> list[Effect]:
        letter = self._waiting.get(number)
        if letter is None:
            return []
        if not done and not letter.background:
            letter.tries, letter.due = 0, now + ASK_AGAIN_S
            return []
        del self._waiting[number]
        return self.release(letter.causes)

    def woken(self, background: bool, now: float) -> tuple[list[Effect], list[Letter]]:
        """What is sent again, and what is given up; whoever takes that on releases its causes afterwards."""
        effects: list[Effect] = []
        back: list[Letter] = []
        self._wakes.pop(background, None)
        for number, letter in list(self._waiting.items()):
            if letter.background != background or letter.due > now:
                continue
            if letter.tries >= GIVEN_UP_AFTER:
                del self._waiting[number]
                back.append(letter)
                continue
            letter.tries += 1
            letter.due = now + RETRY_S
            effects.append(SendTo(letter.peer, letter.message))
        dues = [letter.due for letter in self._waiting.values() if letter.background == background]
        if dues:
            effects += self._alarm(background, min(dues))
        return effects, back

    def returned(self, peer: str) -> list[Letter]:
        """A node says that it leaves: whatever it was to pass on comes back at once."""
        back = [(number, letter) for number, letter in self._waiting.items() if letter.peer == peer]
        for number, _ in back:
            del self._waiting[number]
        return [letter for _, letter in back]

    # --- come here

    def took(self, sender: str, number: int) -> Cause | None:
        """None: it was here before, see `answer`."""
        seen = self._seen.setdefault(sender, OrderedDict())
        if number in seen:
            return None
        cause = seen[number] = Cause(sender, number)
        if len(seen) > KEPT:
            seen.popitem(last=False)
        return cause

    def answer(self, sender: str, number: int) -> Effect:
        cause = self._seen[sender].get(number)
        return SendTo(sender, Acknowledged(number, cause is None or not cause.open))

    @staticmethod
    def hold(causes: Iterable[Cause]) -> None:
        for each in causes:
            each.open += 1

    @staticmethod
    def release(causes: Iterable[Cause]) -> list[Effect]:
        effects: list[Effect] = []
        for each in causes:
            each.open -= 1
            if not each.open:
                effects.append(SendTo(each.sender, Acknowledged(each.number, True)))
        return effects
