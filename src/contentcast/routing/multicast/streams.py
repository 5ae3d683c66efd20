"""Quality of service `reliable`: everybody for whom an event was sent gets it once, in the order of its publisher's group.

Source: announced in Eide et al. 2003, section 7; done as NORM (RFC 5740) and Aeron do it. Messages of a sender to a group are
numbered. A receiver that misses numbers waits a random moment and asks on the control group; others that miss the same hear
it and hold back. The sender repeats to the group, each number at most once within LINGER_S. A sender with nothing to say
repeats its last number, so that the loss of the last message is noticed.

    a -> group   Sequenced(1, x)    lost for b
    a -> group   Sequenced(2, y)                 b keeps y
    b -> all     Repair(a, 1 to 1)               c misses it too, hears the question and waits
    a -> group   Sequenced(1, x)                 b and c hand over x, then y

The sender notes for whom it sent each message. Somebody who joins late asks for all numbers before the first that it hears,
and is told to pass over what was not for it, or is no longer kept.
What is older than KEPT_MESSAGES, or of a sender that is gone, cannot be had any more. It is not fetched over TCP: who is so far
behind is too slow for the stream, and a second copy of the history at every sender is what `durable` has a broker for. It
becomes a `Gap`, which the host tells to the subscribers.
Rule: numbers are handed over in order, each once; a number is skipped only when its sender says so or is gone; then it is told.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from contentcast.routing.contract import Effect, SendGroup, SetTimer, Timer
from contentcast.routing.dice import Dice
from contentcast.wire import Message, Publish
from contentcast.wire.multicast import Last, Pass, Repair, Sequenced, Spans

IDLE, REPAIR = "idle", "repair"
"""Timers: about a group, and about a group and a sender."""

KEPT_MESSAGES: Final = 4096
REPAIR_WITHIN_S: Final = 0.0005
ASK_AGAIN_S: Final = 0.005
MOST_PATIENCE: Final = 64
LINGER_S: Final = 0.002
IDLE_FIRST_S: Final = 0.005
IDLE_MOST_S: Final = 1.0
SENDER_IDLE_S: Final = 30.0
"""A sender that has been idle for so long forgets what it kept."""
MOST_REPEATED: Final = 256
REPEATED_BYTES: Final = 512 * 1024
"""Messages, and bytes of events, that are repeated for one question. The rest is asked for again: who has lost a burst would
lose most of a second one like it."""
MOST_ASKED: Final = 30
"""Questions about a gap to a sender that does not answer, before its numbers are given up."""

Life = tuple[str, int]


class Gap(NamedTuple):
    """Messages that `sender` sent to `group` for this server, and that can no longer be had.

    How many events were in them nobody knows any more: one or as many as fit into a portion (`portions`).
    """

    sender: str
    group: str
    messages: int


@dataclass(slots=True)
class Kept:
    message: Sequenced
    owed: frozenset[Life]
    repeated_at: float = float("-inf")


@dataclass(slots=True)
class Outgoing:
    """This server's stream to one group."""

    number: int = 0
    kept: OrderedDict[int, Kept] = field(default_factory=OrderedDict)
    first_owed: dict[Life, int] = field(default_factory=dict)
    sent_at: float = 0.0
    idle_s: float = IDLE_FIRST_S


@dataclass(slots=True)
class Incoming:
    """Another server's stream to one group, in one of its lives."""

    stream: int
    arrived: int = 0
    early: dict[int, Message] = field(default_factory=dict)
    passed: list[tuple[int, int]] = field(default_factory=list)
    last: int = 0
    asked: int = 0
    waiting: bool = False

    def missing(self) -> Spans:
        spans: list[tuple[int, int]] = []
        at = self.arrived + 1
        taken = sorted([*((each, each) for each in self.early), *self.passed])
        for first, last in taken:
            if first > at:
                spans.append((at, first - 1))
            at = max(at, last + 1)
        if at <= self.last:
            spans.append((at, self.last))
        return tuple(spans)

    def drain(self) -> list[Message]:
        """What can be handed over now."""
        found: list[Message] = []
        while True:
            following = self.arrived + 1
            message = self.early.pop(following, None)
            if message is not None:
                self.arrived = following
                found.append(message)
                continue
            ends = [last for first, last in self.passed if first <= following <= last]
            if not ends:
                self.passed = [each for each in self.passed if each[1] > self.arrived]
                return found
            self.arrived = max(ends)


class Streams:
    def __init__(self, broker: str, incarnation: int, control: str, dice: Dice) -> None:
        self.lost = 0
        """Messages that were for this server and could no longer be had."""
        self._gaps: list[Gap] = []
        self.repeated = self.asked = 0
        self.busy_at = float("-inf")
        """When this server last sent something that it owes to somebody, for the first time or again."""
        self._broker = broker
        self._stream = incarnation
        self._control = control
        self._dice = dice
        self._outgoing: dict[str, Outgoing] = {}
        self._incoming: dict[tuple[str, str], Incoming] = {}

    @property
    def hears(self) -> bool:
        """Does anybody send reliably to a group that was joined here?"""
        return bool(self._incoming)

    # --- out

    def send(self, group: str, message: Message, owed: Iterable[Life], now: float) -> list[Effect]:
        out = self._outgoing.setdefault(group, Outgoing())
        out.number += 1
        sequenced = Sequenced(self._stream, out.number, message)
        lives = frozenset(owed)
        if lives:
            self.busy_at = now
        for life in lives:
            out.first_owed.setdefault(life, out.number)
        out.kept[out.number] = Kept(sequenced, lives)
        if len(out.kept) > KEPT_MESSAGES:
            out.kept.popitem(last=False)
        out.sent_at, out.idle_s = now, IDLE_FIRST_S
        return [SendGroup(group, sequenced), SetTimer(Timer(IDLE, group), now + out.idle_s, background=True)]

    def idle(self, group: str, now: float) -> list[Effect]:
        out = self._outgoing[group]
        if now - out.sent_at >= SENDER_IDLE_S:
            out.kept.clear()
            return []
        out.idle_s = min(2 * out.idle_s, IDLE_MOST_S)
        again = SetTimer(Timer(IDLE, group), now + out.idle_s, background=True)
        return [SendGroup(group, Last(self._stream, out.number)), again]

    def repair(self, asker: Life, repair: Repair, now: float) -> list[Effect]:
        """Somebody misses numbers. Of others' streams: who misses the same holds back."""
        if repair.of != self._broker:
            return self._hold_back(repair, now)
        out = self._outgoing.get(repair.group)
        if repair.stream != self._stream or out is None:
            return []
        effects: list[Effect] = []
        passing: list[tuple[int, int]] = []
        gone = 0
        room = REPEATED_BYTES
        for first, last in repair.spans:
            at = first
            last = min(last, out.number)
            for number in [each for each in out.kept if first <= each <= last]:
                kept = out.kept[number]
                if asker not in kept.owed:
                    continue
                if at < number:
                    passing.append((at, number - 1))
                at = number + 1
                self.busy_at = now
                if now - kept.repeated_at >= LINGER_S and len(effects) < MOST_REPEATED and room > 0:
                    kept.repeated_at = now
                    room -= _bytes(kept.message)
                    effects.append(SendGroup(repair.group, kept.message))
            if at <= last:
                passing.append((at, last))
            oldest = next(iter(out.kept), out.number + 1)
            gone += max(0, min(last, oldest - 1) - max(first, out.first_owed.get(asker, oldest)) + 1)
        self.repeated += len(effects)
        if passing:
            effects.append(SendGroup(self._control, Pass(self._stream, asker[0], repair.group, tuple(passing), gone)))
        return effects

    # --- in

    def hear(self, sender: str, group: str, heard: Sequenced | Last, now: float) -> tuple[list[Message], list[Effect]]:
        """What can be handed over now, in order; and what to do about gaps."""
        incoming = self._incoming.get((sender, group))
        before: list[Message] = []
        if incoming is None or heard.stream > incoming.stream:
            before = [] if incoming is None else self._give_up(sender, group, incoming)
            incoming = self._incoming[sender, group] = Incoming(heard.stream)
        if heard.stream < incoming.stream:
            return [], []
        incoming.last = max(incoming.last, heard.number)
        if isinstance(heard, Sequenced) and heard.number > incoming.arrived and heard.message is not None:
            incoming.early.setdefault(heard.number, heard.message)
        ready = [*before, *incoming.drain()]
        if ready:
            incoming.asked = 0
        return ready, self._watch(sender, group, incoming, now)

    def _watch(self, sender: str, group: str, incoming: Incoming, now: float) -> list[Effect]:
        if incoming.waiting or incoming.arrived >= incoming.last:
            return []
        incoming.waiting = True
        return [SetTimer(_about(sender, group), now + REPAIR_WITHIN_S * self._dice.random())]

    def ask(self, about: str, now: float) -> tuple[list[Message], list[Effect]]:
        """The wait is over: ask for what is still missing, or give it up."""
        group, _, sender = about.partition(" ")
        incoming = self._incoming.get((sender, group))
        if incoming is None:
            return [], []
        incoming.waiting = False
        spans = incoming.missing()
        if not spans:
            return [], []
        if incoming.asked >= MOST_ASKED:
            return self._give_up(sender, group, incoming), []
        incoming.waiting = True
        incoming.asked += 1
        self.asked += 1
        patience = min(1 << incoming.asked, MOST_PATIENCE)
        again = SetTimer(_about(sender, group), now + ASK_AGAIN_S * patience * (0.5 + self._dice.random()))
        return [], [SendGroup(self._control, Repair(incoming.stream, sender, group, spans)), again]

    def _hold_back(self, repair: Repair, now: float) -> list[Effect]:
        """Another one asked for what is missing here too: the answer will bring it."""
        incoming = self._incoming.get((repair.of, repair.group))
        if incoming is None or not incoming.waiting or incoming.asked:
            return []
        mine = incoming.missing()
        if all(any(first <= low and high <= last for first, last in repair.spans) for low, high in mine):
            return [SetTimer(_about(repair.of, repair.group), now + ASK_AGAIN_S * (1 + self._dice.random()))]
        return []

    def passed(self, sender: str, told: Pass, now: float) -> tuple[list[Message], list[Effect]]:
        incoming = self._incoming.get((sender, told.group))
        if told.to != self._broker or incoming is None or incoming.stream != told.stream:
            return [], []
        self._lose(sender, told.group, told.gone)
        incoming.passed += told.spans
        ready = incoming.drain()
        return ready, self._watch(sender, told.group, incoming, now)

    def forget(self, sender: str) -> list[Message]:
        """The sender is gone: what is here is handed over, what is missing is lost."""
        found: list[Message] = []
        for key in [each for each in self._incoming if each[0] == sender]:
            found += self._give_up(*key, self._incoming.pop(key))
        return found

    def _give_up(self, sender: str, group: str, incoming: Incoming) -> list[Message]:
        self._lose(sender, group, sum(last - first + 1 for first, last in incoming.missing()))
        found = [incoming.early[number] for number in sorted(incoming.early)]
        incoming.early.clear()
        incoming.passed.clear()
        incoming.arrived = incoming.last
        incoming.asked = 0
        return found

    def _lose(self, sender: str, group: str, messages: int) -> None:
        if messages:
            self.lost += messages
            self._gaps.append(Gap(sender, group, messages))

    def take_gaps(self) -> list[Gap]:
        """What was lost since this was asked last."""
        gaps, self._gaps = self._gaps, []
        return gaps

    def state(self) -> dict[str, Any]:
        if not self._outgoing and not self._incoming:
            return {}
        return {
            "streams": {
                "sent": {group: each.number for group, each in sorted(self._outgoing.items())},
                "arrived": {f"{sender} {group}": each.arrived for (sender, group), each in sorted(self._incoming.items())},
                "missing": sum(bool(each.missing()) for each in self._incoming.values()),
                "asked": self.asked,
                "repeated": self.repeated,
                "lost": self.lost,
            }
        }


def _bytes(message: Sequenced) -> int:
    """About: what its events take in memory, which is at hand."""
    return int(message.message.events.records.nbytes) if isinstance(message.message, Publish) else 0


def _about(sender: str, group: str) -> Timer:
    return Timer(REPAIR, f"{group} {sender}")
