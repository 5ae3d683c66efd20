"""The server of a LAN: one in every process that has clients, and nothing between them but multicast groups.

Source: Eide et al. 2003, section 5.5, line by line:

    periodically                    tell the most general subscriptions, forget who was silent, leave groups not used any more
    a client subscribes             unless covered by earlier subscriptions: tell the other servers at once; join groups
    another server tells            keep it, and when it was heard
    a client publishes              unless no other server wants it: to the group of the first row that covers it;
                                    and to the clients of this server, by a call
    an event comes over a group     to the clients of this server that want it

Departs from it as `members` (numbered changes), `agreement` (changing the mapping) and `streams` (reliable) say.
Rule: an event that only clients of this server want becomes no message; an event is sent to one group, once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from contentcast.model import ContentcastError, EventBatch, Space
from contentcast.model.events.event_batch import concat
from contentcast.routing.audience import Change
from contentcast.routing.contract import (
    Advertised,
    Changed,
    Declared,
    Effect,
    Input,
    Join,
    Leave,
    Published,
    Received,
    SendGroup,
    SetTimer,
    Sizes,
    Started,
    Stopping,
    Subscribed,
    Timer,
    TimerFired,
    Unsubscribed,
)
from contentcast.routing.multicast import streams as reliable
from contentcast.routing.multicast.aggregate import Aggregate, Told, Wish, batches
from contentcast.routing.multicast.agreement import Agreement
from contentcast.routing.multicast.held_back import HeldBack
from contentcast.routing.multicast.mapping import BEST_EFFORT, RELIABLE, MappingSpecification, Quality, Way, everywhere
from contentcast.routing.multicast.members import ASK, REFRESH_EVERY_S, Members
from contentcast.routing.multicast.portions import portions
from contentcast.routing.multicast.promised import Promised
from contentcast.routing.multicast.streams import Streams
from contentcast.routing.multicast.traffic import Traffic
from contentcast.routing.parts.local import Local
from contentcast.routing.parts.publishing import Publishing
from contentcast.routing.parts.spaces import SpaceRegister
from contentcast.routing.parts.versions import Versions
from contentcast.routing.setup import Setup
from contentcast.wire import DeclaredSpaces, Message, Publish
from contentcast.wire.multicast import Ask, Last, Pass, Proposal, Repair, Sequenced, Wants

Ints = npt.NDArray[np.int64]

REFRESH: Final = Timer("refresh")
ANSWER: Final = Timer("answer")
"""Somebody asked for what is wanted here; all who ask within a moment get one answer."""
ANSWER_WITHIN_S: Final = 0.02
LEAVE_AFTER_S: Final = 5.0
"""A group that no subscription needs any more is left after this long, for clients that come back."""
SERVE: Final = Timer("serve")
"""Everything that came at this moment is matched together: one by one, matching cost more than all the rest."""
JOIN_S: Final = 0.05
"""How long joining a group takes until it brings something, at most: a switch must hear of it first."""


class Multicast:
    """`quality`: what the clients of this server ask for. `hold_back`: refresh by number alone, and do not tell what enough
    others tell (see `held_back`).
    """

    def __init__(
        self,
        broker: str,
        setup: Setup,
        *,
        mapping: MappingSpecification | None = None,
        quality: Quality = BEST_EFFORT,
        hold_back: bool = False,
        join_s: float = JOIN_S,
        refresh_every_s: float = REFRESH_EVERY_S,
    ) -> None:
        if quality not in (BEST_EFFORT, RELIABLE):
            raise ContentcastError(f"the quality of service is {BEST_EFFORT!r} or {RELIABLE!r}, got {quality!r}")
        chosen = mapping or MappingSpecification()
        self.broker = broker
        self.setup = setup
        self.control = chosen.control
        self.versions = Versions(broker, setup.incarnation)
        self.spaces = SpaceRegister(broker, self.versions)
        self.local = Local(broker, self.spaces, setup)
        self.publishing = Publishing(broker, setup)
        self.members = Members(self.control, setup.dice, self.spaces, count_steps=setup.count_steps)
        self.agreement = Agreement(broker, chosen, self.members, join_s)
        self.streams = Streams(broker, setup.incarnation, self.control, setup.dice)
        self.held = HeldBack(broker, hold_back, self.members, self.agreement, self.streams)
        self.traffic = Traffic()
        self.qualities: dict[int, Quality] = {}
        """What single subscriptions ask for, by their ids, where it differs; a host notes it before it tells of them."""
        self.promised = Promised()
        """What clients here advertise reliably; a host notes it before it tells of the advertisement."""
        self._quality: Quality = quality
        self._refresh_every_s = refresh_every_s
        self._wanted = Aggregate()
        self._version = 1
        self._joined: dict[str, float | None] = {}
        """Groups that were joined, and since when no subscription needs them."""
        self._arrived: dict[tuple[Space, str], list[EventBatch]] = {}
        """Events of this moment for the clients here, by space and group."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Published(events):
                published = self.publishing.publish(self.spaces.fit(events))
                return [effect for each in published for effect in self._publish(each, now)]
            case Received(sender, message, via):
                return self._receive(sender, message, via.group, now)
            case Subscribed() | Unsubscribed():
                return self._subscribe(self.local.change(input), now)
            case Started():
                return self._start(now)
            case Stopping():
                return self._stop()
            case TimerFired(timer):
                return self._wake(timer, now)
            case Declared():
                self.spaces.handle(input, now)
                return [Changed(), self._tell_spaces()]
            case Advertised():
                promise = [self._tell(self._version)] if self.promised else []
                return [*promise, *self.local.handle(input, now)]
            case _:
                return self.local.handle(input, now)

    # --- life

    def _start(self, now: float) -> list[Effect]:
        return [
            Join(self.control),
            self._tell(0),
            SendGroup(self.control, Ask()),
            SetTimer(REFRESH, now + self._refresh_every_s * self.setup.dice.random(), background=True),
        ]

    def _stop(self) -> list[Effect]:
        served = self._serve_arrived()
        leaving = Wants(self.setup.incarnation, self._version, self._version, leaving=True)
        return [*served, SendGroup(self.control, leaving), *map(Leave, [self.control, *sorted(self._joined)])]

    def _wake(self, timer: Timer, now: float) -> list[Effect]:
        match timer:
            case Timer("serve"):
                return self._serve_arrived()
            case Timer("refresh"):
                return self._refresh(now)
            case Timer("expire"):
                return self._expire(now)
            case Timer("answer"):
                return self._tell_all()
            case Timer("joined"):
                return [Changed(), self._tell(self._version), *self._settle(now)] if self.agreement.joined() else []
            case Timer("retire"):
                return [Changed(), self._tell(self._version), *self._join(now)] if self.agreement.retire() else []
            case Timer("lacking"):
                return self.agreement.ask()
            case Timer(part, about) if part == ASK:
                return self.members.ask(about, now)
            case Timer(part, about) if part == reliable.IDLE:
                return self.streams.idle(about, now)
            case Timer(part, about) if part == reliable.REPAIR:
                return self._hand_over(*self.streams.ask(about, now), about.partition(" ")[0], now)
        return []

    def _refresh(self, now: float) -> list[Effect]:
        jitter = 0.9 + 0.2 * self.setup.dice.random()  # servers that started together drift apart
        again = SetTimer(REFRESH, now + jitter * self._refresh_every_s, background=True)
        revealed = self._reveal(now)
        withdrawn = self._tell_change(self.held.withdraw(self._wanted.general(), now))
        told = [self._tell(self._version)] if self.held.is_on else self._tell_all()
        return [*revealed, *withdrawn, *told, *self._leave(now), *self.agreement.ask(), again]

    def _expire(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for name in self.members.expired(now):
            effects += [*self.members.forget(name), *self._forget(name, now)]
        follows = [*self._settle(now), *self._reveal(now)] if effects else []
        return [*effects, *follows, *self.members.next_alarm()]

    # --- clients

    def _subscribe(self, change: Change | None, now: float) -> list[Effect]:
        if change is None:
            return []
        added = () if change.added is None else change.added
        wishes = [(each.id, Wish(each.predicate, self.qualities.get(each.id, self._quality))) for each in added]
        told = self._wanted.change(change.removed or (), wishes)
        joined = self._join(now)
        return [*joined, *self._tell_change(self.held.take(told, now))]

    def _reveal(self, now: float) -> list[Effect]:
        return self._tell_change(self.held.reveal(self._wanted.general(), now))

    def _tell_change(self, told: Told) -> list[Effect]:
        if not told:
            return []
        self._version += 1
        return [self._tell(self._version - 1, told)]

    def _tell(self, since: int, told: Told | None = None) -> SendGroup:
        """What this server wants: the whole (`since` 0), what changed, or (`since` the present version) that nothing did."""
        everything = (each for each in self._wanted.general() if each[0] not in self.held.numbers)
        wishes = everything if since == 0 else () if told is None else told.added.items()
        removed = () if told is None else tuple(told.removed)
        uses, hears = self.agreement.status()
        wants = Wants(
            self.setup.incarnation, since, self._version, batches(wishes), removed, uses, hears, promises=bool(self.promised)
        )
        return SendGroup(self.control, wants)

    def _tell_all(self) -> list[Effect]:
        spaces = [self._tell_spaces()] if self.versions.version(self.broker, self.spaces.topic) else []
        return [*spaces, self._tell(0)]

    def _tell_spaces(self) -> SendGroup:
        return SendGroup(self.control, self.spaces.tell(self.broker, self.versions.mark(self.broker), 0))

    # --- groups

    def _join(self, now: float) -> list[Effect]:
        """Joins what subscriptions need; notes what they no longer need."""
        needed = everywhere(self.agreement.honoured(), (wish.predicate for _, wish in self._wanted.general()))
        effects: list[Effect] = [Join(group) for group in sorted(needed - self._joined.keys())]
        for group in needed:
            self._joined[group] = None
        for group in self._joined.keys() - needed:
            if self._joined[group] is None:
                self._joined[group] = now
        return effects

    def _leave(self, now: float) -> list[Effect]:
        idle = sorted(group for group, since in self._joined.items() if since is not None and now - since >= LEAVE_AFTER_S)
        for group in idle:
            del self._joined[group]
        return [Leave(group) for group in idle]

    # --- events

    def _publish(self, publish: Publish, now: float) -> list[Effect]:
        served = self.local.serve(publish.events)
        audience = self.members.audience(publish.events.space)
        if not len(audience):
            self.traffic.kept_back += len(publish.events)
            return served
        found = audience.match_living(publish.events)
        asked = np.bincount(found.events, minlength=len(publish.events))
        rows = np.flatnonzero(asked)
        self.traffic.kept_back += len(publish.events) - len(rows)
        if not len(rows):
            return served
        wanted = publish if len(rows) == len(publish.events) else publish.take(rows)
        owner = np.repeat(np.arange(len(rows)), asked[rows])
        is_asked_reliable = RELIABLE in audience.subscribers[0]
        mapping = self.agreement.sending()
        ways = mapping.ways(wanted.events) if mapping else [Way(np.arange(len(rows)), self.control, False)]
        for way in ways:
            mine = found.rows[np.isin(owner, way.rows)] if len(ways) > 1 else found.rows
            part = wanted if len(way.rows) == len(rows) else wanted.take(way.rows)
            self.traffic.sent(way.group, len(part.events))
            asked_reliable = is_asked_reliable and RELIABLE in audience.names[mine]
            if way.reliable or asked_reliable or self.promised.any_of(part.events):
                owed = [self.members.life(audience.origins[at]) for at in np.unique(audience.origin[mine]).tolist()]
                for each in portions(part):  # each has a number, so that only what was lost is repeated
                    served += self.streams.send(way.group, each, owed, now)
            else:
                served.append(SendGroup(way.group, part))
        return served

    def _serve(self, publish: Publish, group: str, now: float) -> list[Effect]:
        fresh = self.publishing.fresh(publish)
        if fresh is None:
            return []
        is_first = not self._arrived
        self._arrived.setdefault((fresh.events.space, group), []).append(fresh.events)
        return [SetTimer(SERVE, now)] if is_first else []

    def _serve_arrived(self) -> list[Effect]:
        arrived, self._arrived = self._arrived, {}
        effects: list[Effect] = []
        for (_, group), came in arrived.items():
            events = self.spaces.fit(came[0] if len(came) == 1 else concat(came))
            served = self.local.serve(events)
            self.traffic.received(group, len(events), served)
            effects += served
        return effects

    def _hand_over(self, ready: list[Message], effects: list[Effect], group: str, now: float) -> list[Effect]:
        """Messages of reliable streams, in their order."""
        served = [effect for each in ready if isinstance(each, Publish) for effect in self._serve(each, group, now)]
        return [*served, *effects]

    # --- the other servers

    def _receive(self, sender: str, message: Message, group: str, now: float) -> list[Effect]:
        match message:
            case Publish():
                return self._serve(message, group, now)
            case Sequenced() | Last():
                came = self._hand_over(*self.streams.hear(sender, group, message, now), group, now)
                return [*came, *self._reveal(now)]
            case Wants():
                return self._hear(sender, message, now)
            case Ask(of, mapping) if of in ("", self.broker):
                if mapping is not None:
                    return self.agreement.answer(mapping)
                return [SetTimer(ANSWER, now + ANSWER_WITHIN_S * self.setup.dice.random())]
            case Repair():
                return self.streams.repair(self.members.life(sender), message, now)
            case Pass():
                return self._hand_over(*self.streams.passed(sender, message, now), message.group, now)
            case Proposal():
                return [*self.agreement.propose(message, now), *self._join(now), *self._reveal(now)]
            case DeclaredSpaces():
                return self._hear_spaces(message)
        return []

    def _hear(self, sender: str, wants: Wants, now: float) -> list[Effect]:
        before = self.members.life(sender)
        effects = self.members.hear(sender, wants, now)
        if before[1] and self.members.life(sender) != before:
            effects += self._forget(sender, now)
        return [*effects, *self._settle(now), *self._reveal(now)] if effects else []

    def _hear_spaces(self, told: DeclaredSpaces) -> list[Effect]:
        before = self.spaces.named()
        self.spaces.hear(told)
        return [Changed()] if self.spaces.named() != before else []

    def _forget(self, name: str, now: float) -> list[Effect]:
        """A server, or one of its lives, is gone: what its streams still held back is handed over."""
        return self._hand_over(self.streams.forget(name), [], "", now)

    def _settle(self, now: float) -> list[Effect]:
        news, effects = self.agreement.settle(now)
        return [*effects, self._tell(self._version)] if news else effects

    # --- looking inside

    @property
    def groups(self) -> Iterable[str]:
        """Those that were joined, besides the control group."""
        return self._joined.keys()

    def sizes(self) -> Sizes:
        mine, theirs = self.local.sizes(), self.members.sizes()
        return {name: mine.get(name, 0) + theirs.get(name, 0) for name in {**mine, **theirs}} | {"groups": len(self._joined)}

    def state(self) -> dict[str, Any]:
        return {
            **self.local.state(),
            "told": {number: cast(str, wish.quality) for number, wish in self._wanted.general()},
            **({"held back": sorted(self.held.numbers)} if self.held.numbers else {}),
            "groups": sorted(self._joined),
            **self.members.state(),
            **self.agreement.state(),
            **self.streams.state(),
            **self.traffic.state(),
            "spaces": sorted(self.spaces.named()),
        }
