"""Any router on links that lose, repeat and reorder: messages are numbered, acknowledged, and sent again until they are.

A router around a router, with nothing to know about its protocol. Each direction of a link is a session: messages 1, 2, 3, ...
of which the other side acknowledges all up to some number, with its own messages or, when it has none, by itself after a while.

    a -> b   Frame(1, "x")   lost              b has seen nothing
    a -> b   Frame(2, "y")                     b keeps y until x is there
    a        TimerFired(resend b)              Frame(1, "x") again, twice as patient from now on
    b        x and y, in order                 Frame(0, acknowledged 2)

When the link goes down and comes back, what was not acknowledged is sent again. When the *other broker* has started again, it
has forgotten what it acknowledged: what was for its earlier life is dropped, and the router is told LinkUp once more, upon
which both tell each other what they know.
Rule: the router inside sees every message of a session once and in order.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

from contentcast.routing.contract import (
    Effect,
    Input,
    LinkLost,
    LinkUp,
    Received,
    Router,
    Send,
    SetTimer,
    Sizes,
    Timer,
    TimerFired,
)
from contentcast.wire import Frame, Message

RESEND, ACKNOWLEDGE = "resend", "acknowledge"
"""The timers of this part; what they are about is the link."""
ACKNOWLEDGE_AFTER_S: Final = 0.02
RESEND_SLACK_S: Final = 0.1
"""A message is sent again after the way there and back, the wait for an acknowledgement, and this much for queues."""
MOST_PATIENCE: Final = 64
"""How many times longer the last of several resendings waits than the first."""
LIVES: Final = 1 << 32
"""Sessions are numbered within an incarnation: the session of a later life is always larger."""


@dataclass(slots=True)
class Session:
    """One link: what was sent and not acknowledged, and what has come."""

    number: int
    delay_s: float = 0.0
    up: bool = False
    sent: int = 0
    waiting: OrderedDict[int, Message] = field(default_factory=OrderedDict)
    patience: int = 1
    theirs: int = 0
    arrived: int = 0
    early: dict[int, Message] = field(default_factory=dict)
    owes: bool = False


class Reliable:
    def __init__(self, router: Router, incarnation: int = 1) -> None:
        self.broker = router.broker
        self.router = router
        self._incarnation = incarnation
        self._sessions: dict[str, Session] = {}

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Received(link, Frame() as frame):
                return self._receive(link, self._session(link), frame, now)
            case LinkUp(link, delay_s):
                session = self._session(link)
                session.up, session.delay_s, session.patience = True, delay_s, 1
                return [*self._resend(link, session, now), *self._inside(input, now)]
            case LinkLost(link):
                self._session(link).up = False
                return self._inside(input, now)
            case TimerFired(Timer(part, link)) if part == RESEND:
                session = self._session(link)
                session.patience = min(2 * session.patience, MOST_PATIENCE)
                return self._resend(link, session, now)
            case TimerFired(Timer(part, link)) if part == ACKNOWLEDGE:
                return self._acknowledge(link, self._session(link))
            case _:
                return self._inside(input, now)

    def _session(self, link: str) -> Session:
        found = self._sessions.get(link)
        if found is None:
            found = self._sessions[link] = Session(self._incarnation * LIVES)
        return found

    # --- out

    def _inside(self, input: Input, now: float) -> list[Effect]:
        """What the router wants done, with its messages in frames."""
        effects: list[Effect] = []
        for effect in self.router.handle(input, now):
            if not isinstance(effect, Send):
                effects.append(effect)
                continue
            session = self._session(effect.link)
            idle = not session.waiting
            session.sent += 1
            session.waiting[session.sent] = effect.message
            if session.up:
                effects.append(Send(effect.link, self._frame(session, session.sent, effect.message)))
                if idle:
                    effects.append(self._alarm(effect.link, session, now))
        return effects

    def _frame(self, session: Session, number: int, message: Message | None) -> Frame:
        session.owes = False
        return Frame(session.number, number, session.theirs, session.arrived, message)

    def _alarm(self, link: str, session: Session, now: float) -> SetTimer:
        round_trip = 2 * session.delay_s + ACKNOWLEDGE_AFTER_S + RESEND_SLACK_S
        return SetTimer(Timer(RESEND, link), now + session.patience * round_trip)

    def _resend(self, link: str, session: Session, now: float) -> list[Effect]:
        if not session.up or not session.waiting:
            return []
        again = [Send(link, self._frame(session, number, message)) for number, message in session.waiting.items()]
        return [*again, self._alarm(link, session, now)]

    def _acknowledge(self, link: str, session: Session) -> list[Effect]:
        return [Send(link, self._frame(session, 0, None))] if session.owes and session.up else []

    # --- in

    def _receive(self, link: str, session: Session, frame: Frame, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if frame.session < session.theirs:
            return effects  # of an earlier life
        if frame.session > session.theirs:
            started_again = session.theirs != 0 and frame.session // LIVES != session.theirs // LIVES
            session.theirs, session.arrived = frame.session, 0
            session.early.clear()
            if started_again:
                session.number += 1
                session.sent = 0
                session.waiting.clear()
                effects += self._inside(LinkUp(link, session.delay_s), now)
        if frame.of == session.number:
            for number in [each for each in session.waiting if each <= frame.acknowledged]:
                del session.waiting[number]
                session.patience = 1
        if frame.message is None:
            return effects
        if frame.number > session.arrived:
            session.early[frame.number] = frame.message
        if not session.owes:
            session.owes = True
            effects.append(SetTimer(Timer(ACKNOWLEDGE, link), now + ACKNOWLEDGE_AFTER_S))
        while (message := session.early.pop(session.arrived + 1, None)) is not None:
            session.arrived += 1
            effects += self._inside(Received(link, message), now)
        return effects

    # --- looking inside

    def sizes(self) -> Sizes:
        return self.router.sizes()

    def state(self) -> dict[str, Any]:
        sessions = {
            link: {"up": session.up, "unacknowledged": len(session.waiting), "early": len(session.early)}
            for link, session in sorted(self._sessions.items())
        }
        return {**self.router.state(), "sessions": sessions}
