"""One place on the ring: subscriptions and events that come to its keys, and what clients of its broker want.

Source: Baldoni et al. 2005, section 4. A subscription goes to the nodes that cover SK(subscription), an event to those that
cover EK(event); where they meet, at a *rendezvous* node, the event is matched and goes on to the subscriber's node.

    c: Subscribed(price < 5)       Cast(SK, Stored)      -> n7, n9 hold it, and their successors hold copies
    a: Published(price 3)          Cast(EK, Publish)     -> n9: who wants it? c           -> c: Publish, Deliver

Departs from the paper in two points. The subscriber's node matches what comes once more against what its clients want now, so
that a subscription which has ended, moved or been copied twice never makes a wrong or a second delivery. And clients of the
node where an event is published get it there at once. How messages find their keys is in `casting`, what happens where an event
meets subscriptions in `rendezvous`.
Rule: every subscription is renewed before it expires, so that whatever was lost is there again after one period.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from functools import partial
from typing import Any, Final, Self

import numpy as np

from contentcast.routing.chord.mcast import Targets
from contentcast.routing.chord.node import ChordNode
from contentcast.routing.contract import (
    Changed,
    Declared,
    Effect,
    Input,
    LinkLost,
    LinkUp,
    Published,
    Received,
    SendTo,
    SetTimer,
    Sizes,
    Started,
    Stopping,
    Subscribed,
    Timer,
    TimerFired,
    Unsubscribed,
)
from contentcast.routing.overlay.casting import Casting
from contentcast.routing.overlay.copying import Copying
from contentcast.routing.overlay.mappings import KeyMapping
from contentcast.routing.overlay.notices import Buffer, Notice
from contentcast.routing.overlay.post import POST_BACKGROUND, Cause, Letter, Post
from contentcast.routing.overlay.remapping import Remapping
from contentcast.routing.overlay.rendezvous import Rendezvous
from contentcast.routing.overlay.store import Store
from contentcast.routing.overlay.wishes import Wishes
from contentcast.routing.parts.local import Local
from contentcast.routing.parts.publishing import Publishing
from contentcast.routing.parts.seen import Seen
from contentcast.routing.parts.spaces import SpaceRegister
from contentcast.routing.parts.versions import Versions
from contentcast.routing.setup import Setup
from contentcast.wire import Known, Message, Publish, Told
from contentcast.wire.chord import Answer, Ask, Leaving, Locate
from contentcast.wire.overlay import Acknowledged, ArcDigest, Cast, Held, Mapping, Notices, Posted, Stored

LIVES_FOR: Final = 3.5
"""Renewal periods that a subscription outlives without being renewed."""
PREPARES_FOR: Final = 20.0
"""Renewal periods after which a mapping that has not come round is given up."""
ROUND: Final = Timer("round")
RENEW: Final = Timer("renew")
FLUSH: Final = Timer("flush")
LEARN: Final = Timer("learn")
COMMIT: Final = Timer("commit")
FORGET: Final = Timer("forget")


class Place:
    """See `router.Overlay` for the options. A broker with several places has its clients at the first."""

    def __init__(
        self,
        broker: str,
        setup: Setup,
        *,
        mapping: str,
        bits: int,
        cells: int,
        notify: str,
        buffer_s: float,
        successors: int,
        copies: int,
        renew_s: float,
        stabilise_s: float,
        suspect_after_s: float,
        learn_s: float,
    ) -> None:
        self.broker = broker
        self.setup = setup
        self.versions = Versions(broker, setup.incarnation)
        self.spaces = SpaceRegister(broker, self.versions)
        self.local = Local(broker, self.spaces, setup)
        self.publishing = Publishing(broker, setup)
        self.chord = ChordNode(broker, length=successors, suspect_after_s=suspect_after_s)
        self.remapping = Remapping(KeyMapping(mapping, bits, cells), given=setup.cuts)
        self.ranges = self.remapping.ranges()
        self.store = Store(self.spaces, count_steps=setup.count_steps)
        self.copying = Copying(self.chord, self.store, copies)
        self.post = Post(setup.incarnation)
        self.casting = Casting(self.chord, self.copying, self.post)
        self.rendezvous = Rendezvous(self.spaces, self.store, self.chord)
        self._notify = notify
        self._buffer = Buffer(notify == "collected")
        self._buffer_s = buffer_s
        self._renew_s = renew_s
        self._stabilise_s = stabilise_s
        self._learn_s = learn_s or (renew_s if setup.cuts else 0.0)
        self._delivered = Seen()
        self.wishes = Wishes(broker, setup.incarnation, self.local, self.spaces, LIVES_FOR * renew_s)

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Received(sender, message):
                return self._receive(sender, message, now)
            case Published(events):
                return [
                    effect
                    for publish in self.publishing.publish(self.spaces.fit(events))
                    for effect in self._publish(publish, now)
                ]
            case TimerFired(timer):
                return self._woken(timer, now)
            case Subscribed() | Unsubscribed():
                return self._change(input, now)
            case Started():
                return self._start(now)
            case Stopping():
                return self._stop(now)
            case LinkUp(link):
                self.chord.learn(link)
                return self.versions.handle(input, now)
            case LinkLost():
                return self.versions.handle(input, now)
            case Declared():
                return self.spaces.handle(input, now)
            case _:
                return self.local.handle(input, now)

    def rehearsal(self) -> Self:
        """Says of events what this place would do with them, and remembers nothing of it; it takes nothing but events.

        Notices that would be gathered for a while are told at once.
        """
        made = copy(self)
        made.publishing = Publishing(self.broker, self.setup)
        made.post = Post(self.setup.incarnation)
        made.casting = Casting(self.chord, self.copying, made.post)
        made._delivered = Seen()
        made._notify, made._learn_s = "at-once", 0.0
        return made

    # --- life and time

    def _start(self, now: float) -> list[Effect]:
        topology = self.setup.topology
        if topology is not None and self.broker in topology:
            self.chord.start(topology.brokers)
        self.chord.meet(self.setup.contacts)
        share = self.setup.dice.random()
        learning = [SetTimer(LEARN, now + self._learn_s, background=True)] if self._learn_s else []
        return [
            *learning,
            SetTimer(ROUND, now + share * self._stabilise_s, background=True),
            SetTimer(RENEW, now + (0.5 + share / 2) * self._renew_s, background=True),
        ]

    def _stop(self, now: float) -> list[Effect]:
        """What its clients want ends; what it holds for others goes to its successor."""
        effects = self._change(Unsubscribed(self.wishes.ids()), now)
        for node, message, _ in self._buffer.flush(self.chord.member):
            effects.append(SendTo(node, message))
        return [*effects, *self.copying.hand_over(now), *self.chord.leaving()]

    def _woken(self, timer: Timer, now: float) -> list[Effect]:
        if timer == ROUND:
            self.store.expire(now, LIVES_FOR * self._renew_s)
            effects = [*self.chord.tick(now), *self.copying.compare(now)]
            return [*effects, SetTimer(ROUND, now + self._stabilise_s, background=True)]
        if timer == RENEW:
            return [*self._renew(now), SetTimer(RENEW, now + self._renew_s, background=True)]
        if timer == FLUSH:
            return self._flush(now)
        if timer in (LEARN, COMMIT, FORGET):
            return self._remap(timer, now)
        effects, back = self.post.woken(timer == POST_BACKGROUND, now)
        for letter in back:
            self.chord.suspect(letter.peer, now)
            effects += self._came_back(letter, now)
        return effects

    def _flush(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for node, message, causes in self._buffer.flush(self.chord.member):
            effects += self._on_behalf(causes, partial(self._hand, node, message, now))
            effects += self.post.release(causes)
        return effects

    def _came_back(self, letter: Letter, now: float) -> list[Effect]:
        """A node did not acknowledge, or has left: what was for keys finds another way."""
        effects: list[Effect] = [Changed()] if self.chord.bury(now) else []
        cast = letter.message.message
        if isinstance(cast, Cast) and cast.message is not None:
            effects += self._on_behalf(letter.causes, partial(self._again, cast, now))
        return [*effects, *self.post.release(letter.causes)]

    def _again(self, cast: Cast, now: float) -> list[Effect]:
        assert cast.message is not None
        targets = Targets(cast.lows, cast.highs, cast.rows)
        if cast.direct:
            return self._arrive(cast.message, targets, now, cast.hops)
        return self._cast(cast.message, targets, now, cast.hops + 1, cast.background)

    def _on_behalf(self, causes: tuple[Cause, ...], do: Callable[[], list[Effect]]) -> list[Effect]:
        """What is sent meanwhile must arrive before these are done."""
        before, self.post.causes = self.post.causes, causes
        try:
            return do()
        finally:
            self.post.causes = before

    # --- messages

    def _receive(self, sender: str, message: Message, now: float) -> list[Effect]:
        match message:
            case Told() | Known():
                return self.versions.handle(Received(sender, message), now)
            case Posted(number, inner):
                self.chord.heard(sender, now)
                if isinstance(inner, Cast) and not self.chord.member.successors:
                    # Somebody takes it for a node of the ring, as it was in an earlier life. It holds nothing yet and knows
                    # nobody to pass it on to: the sender will try again.
                    return []
                cause = self.post.took(sender, number)
                effects: list[Effect] = []
                if inner is not None and cause is not None:
                    effects = self._on_behalf((cause,), partial(self._receive, sender, inner, now))
                return [self.post.answer(sender, number), *effects]
            case Acknowledged(number, done):
                self.chord.heard(sender, now)
                return self.post.acknowledged(number, done, now)
            case Ask() | Answer() | Locate() | Leaving():
                effects = self.chord.receive(sender, message, now)
                if isinstance(message, Leaving):
                    return [*effects, *(each for back in self.post.returned(sender) for each in self._came_back(back, now))]
                older = isinstance(message, Ask | Answer) and message.mapping < self.remapping.version
                return [*effects, SendTo(sender, self.remapping.committed())] if older else effects
            case Mapping():
                return self._mapped(message, now)
            case Cast(message=inner) if inner is not None:
                return self._passed(sender, message, inner, now)
            case Stored():
                return [Changed()] if self.store.adopt(message, self.ranges, now) else []
            case ArcDigest() | Held():
                self.chord.heard(sender, now)
                return self.copying.receive(sender, message, now)
            case Publish():
                return self._serve(message)
            case Notices(brokers, middles, publishes):
                return [
                    effect
                    for broker, middle, publish in zip(brokers, middles.tolist(), publishes, strict=True)
                    for effect in (self._serve(publish) if broker == self.broker else self._note(broker, middle, publish, now))
                ]
        return []

    # --- to keys

    def _passed(self, sender: str, cast: Cast, inner: Message, now: float) -> list[Effect]:
        here, hops, effects = self.casting.passed(sender, cast, now)
        return [*self._arrive(inner, here, now, hops), *effects]

    def _cast(self, message: Message, targets: Targets, now: float, hops: int = 0, background: bool = False) -> list[Effect]:
        here, effects = self.casting.cast(message, targets, now, hops, background)
        return [*self._arrive(message, here, now), *effects]

    def _arrive(self, message: Message, targets: Targets, now: float, passed: int = 0) -> list[Effect]:
        """This node covers these keys, or stands in for one that does; `passed`: it is that many nodes behind it."""
        if not len(targets):
            return []
        if isinstance(message, Publish):
            effects = self.casting.unsure(message, targets, now, passed)
            return [*effects, *self._match(message.take(np.unique(targets.rows)), now)]
        if isinstance(message, Stored):
            taken = message.take(np.unique(targets.rows))
            return [Changed()] if self.store.adopt(taken, self.ranges, now) else []
        return []

    # --- events

    def _publish(self, publish: Publish, now: float) -> list[Effect]:
        events = publish.events
        self._delivered.fresh(publish)
        if self._learn_s:
            self.remapping.observe(events)
        effects: list[Effect] = list(self.local.serve(events))
        return [*effects, *self._cast(publish, self.ranges.of_events(events), now)]

    def _match(self, publish: Publish, now: float) -> list[Effect]:
        effects, wanted = self.rendezvous.match(publish)
        for broker, number, part in wanted:
            if broker == publish.origin:
                continue  # its clients have got it where it was published
            middle = self.rendezvous.middle(broker, number) if self._notify == "collected" else 0
            effects += self._serve(part) if broker == self.broker else self._note(broker, middle, part, now)
        return effects

    def _note(self, broker: str, middle: int, publish: Publish, now: float) -> list[Effect]:
        if self._notify == "at-once":
            return self._hand(broker, publish, now)
        idle = not len(self._buffer)
        self.post.hold(self.post.causes)
        self._buffer.put(Notice(broker, middle, publish, self.post.causes))
        return [SetTimer(FLUSH, now + self._buffer_s)] if idle else []

    def _hand(self, node: str, message: Message, now: float) -> list[Effect]:
        return self._receive(self.broker, message, now) if node == self.broker else self.post.send(node, message, now)

    def _serve(self, publish: Publish) -> list[Effect]:
        fresh = self._delivered.fresh(publish)
        return [] if fresh is None else self.local.serve(self.spaces.fit(fresh.events))

    # --- what clients of this node want

    def _change(self, input: Subscribed | Unsubscribed, now: float) -> list[Effect]:
        return self._tell_all(self.wishes.change(input, self.ranges), now)

    def _renew(self, now: float) -> list[Effect]:
        return self._tell_all(self.wishes.all(self.ranges, renewal=True), now)

    def _tell_all(self, told: Iterable[tuple[Stored, Targets]], now: float) -> list[Effect]:
        return [effect for stored, targets in told for effect in self._cast(stored, targets, now, background=stored.renewal)]

    # --- another mapping

    def _remap(self, timer: Timer, now: float) -> list[Effect]:
        if timer == FORGET:
            self.remapping.before = None
            return self._changed_mapping(now, tell=False)
        if timer == COMMIT:
            ready = self.remapping.to_commit()
            return [] if ready is None else self._mapped(ready, now, begun=True)
        again: list[Effect] = [SetTimer(LEARN, now + self._learn_s, background=True)]
        if not self.chord.member.covers(0) or self.remapping.is_preparing(now) or self.remapping.before is not None:
            return again
        proposal = self.remapping.proposal(self.broker)
        return again if proposal is None else [*again, *self._mapped(proposal, now, begun=True)]

    def _mapped(self, told: Mapping, now: float, begun: bool = False) -> list[Effect]:
        """A version comes by on its way round the ring, or comes back to the node that proposed it."""
        if told.proposer == self.broker and not begun and not told.asked:
            return self._come_round(told, now)
        given_up_at = now + PREPARES_FOR * self._renew_s
        is_new = self.remapping.commit(told) if told.commit else self.remapping.prepare(told, now, given_up_at)
        if not is_new:
            return []
        effects = self._changed_mapping(now, tell=not told.commit)
        if told.commit:
            self.chord.mapping = self.remapping.version
            effects.append(SetTimer(FORGET, now + LIVES_FOR * self._renew_s))
        if told.asked:
            return effects
        if not self.chord.member.successors:
            return [*effects, *self._come_round(told, now)]
        return [*effects, *self.post.send(self.chord.member.successor.name, told, now)]

    def _come_round(self, told: Mapping, now: float) -> list[Effect]:
        if told.commit or not self.remapping.comes_round(told):
            return []
        return [SetTimer(COMMIT, now + self._renew_s)]

    def _changed_mapping(self, now: float, tell: bool) -> list[Effect]:
        self.ranges = self.remapping.ranges()
        self.store.remap(self.ranges)
        told = self._tell_all(self.wishes.all(self.ranges), now) if tell else []
        return [Changed(), *told]

    # --- looking inside

    def sizes(self) -> Sizes:
        return {**self.store.sizes(), "links": len(self.versions.links), "subscriptions": len(self.store)}

    def state(self) -> dict[str, Any]:
        return {
            **self.local.state(),
            **self.spaces.state(),
            "ring": self.chord.state(),
            "ready": self.copying.ready,
            "mapping": self.remapping.version,
            "held": sorted(f"{key.broker}/{key.id}" for key in self.store.held((self.chord.me.key, self.chord.me.key))),
        }
