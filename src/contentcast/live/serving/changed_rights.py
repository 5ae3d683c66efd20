"""Rights that have changed: what stands is narrowed to them or ends, and its client is told (`rights`).

    [access] is read again     a client that shows no identity, and there is no "*"     its connection ends
                               a subscription, an advertisement                         narrowed, or it ends
                               a durable subscription, its client there or not          narrowed, perhaps to nothing

A durable subscription keeps its place: what was accepted for it while the right held still waits for it, and a mistake in a
file loses nothing.
Rule: nothing is widened here. Whoever may see more than before subscribes again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from contentcast.language import parse_predicate, print_predicate
from contentcast.live.serving.deliveries import Deliveries
from contentcast.live.serving.durables import Durables
from contentcast.live.serving.numbering import owner
from contentcast.live.serving.sessions import Session, Standing, router_name
from contentcast.live.serving.spaces import LiveSpaces
from contentcast.live.settings.access import Access, AccessError, advertisable, narrowed
from contentcast.model import Predicate, Space, Subscription, SubscriptionBatch
from contentcast.routing.contract import DurablySubscribed, Input, Subscribed, Unadvertised, Unsubscribed
from contentcast.routing.durable import Durable
from contentcast.wire.client import Failed

CODE: Final = "rights"
"""What a client is told of what it has no longer a right to."""


class Host(Protocol):
    def handle(self, input: Input) -> None: ...

    @property
    def durable(self) -> Durable | None: ...


class Advertise(Protocol):
    def __call__(self, session: Session, number: int, space: Space, predicate: Predicate) -> None: ...


class ChangedRights:
    """`before`: None at the start of a broker, which may have stood still while its file was changed."""

    def __init__(self, host: Host, spaces: LiveSpaces, before: Access | None, now: Access) -> None:
        self._host = host
        self._spaces = spaces
        self._before, self._now = before, now

    def concern(self, identity: str) -> bool:
        return self._before is None or self._before.of(identity) != self._now.of(identity)

    # --- clients that are connected

    def review(self, sessions: Iterable[Session], deliveries: Deliveries, durables: Durables, advertise: Advertise) -> None:
        for session in list(sessions):
            if self._now.is_closed and not session.identity and "*" not in self._now.rights:
                session.connection.send(Failed(0, "access", "this broker now serves those who show a certificate or a token"))
                session.connection.close()
            elif self.concern(session.identity):
                told = [*self._subscriptions(session, deliveries), *self._advertisements(session, advertise)]
                if told:
                    more = f"; and {len(told) - 1} more" if len(told) > 1 else ""
                    session.connection.send(Failed(0, CODE, f"{session.name}: the rights have changed: {told[0]}{more}"))
        self.review_durables(durables)

    def _subscriptions(self, session: Session, deliveries: Deliveries) -> list[str]:
        told: list[str] = []
        ended: list[Standing] = []
        fewer: dict[Space, list[Subscription]] = {}
        rights = self._now.of(session.identity)
        for each in [each for each in session.subscriptions.values() if not each.durable]:
            space = self._spaces.of(each.space.name)
            try:
                predicate, is_less = narrowed(rights, session.identity, space, parse_predicate(space, each.text))
            except AccessError as reason:
                ended.append(each)
                told.append(f"a subscription ends: {reason}")
                continue
            if is_less:
                name = router_name(session, each.id)
                fewer.setdefault(space, []).append(Subscription(each.id, predicate, name))
                text = print_predicate(predicate)
                made = Standing(session, each.number, each.id, space, text, True, "", each.at)
                session.subscriptions[each.number] = made
                deliveries.take({name: made})
                told.append(f"a subscription is narrowed to {text}")
        for each in ended:
            del session.subscriptions[each.number]
            deliveries.drop(router_name(session, each.id))
        if ended:
            self._host.handle(Unsubscribed(tuple(each.id for each in ended)))
        for wanted in fewer.values():
            self._host.handle(Subscribed(SubscriptionBatch.of(wanted)))
        return told

    def _advertisements(self, session: Session, advertise: Advertise) -> list[str]:
        told: list[str] = []
        rights = self._now.of(session.identity)
        for number, claim in list(session.advertisements.items()):
            space = self._spaces.of(claim.space)
            try:
                predicate, is_less = advertisable(rights, session.identity, space, parse_predicate(space, claim.text))
            except AccessError as reason:
                del session.advertisements[number]
                self._host.handle(Unadvertised(claim.ids))
                told.append(f"an advertisement ends: {reason}")
                continue
            if is_less:
                advertise(session, number, space, predicate)
                told.append(f"an advertisement is narrowed to {print_predicate(predicate)}")
        return told

    # --- durable subscriptions

    def review_durables(self, durables: Durables) -> None:
        if self._host.durable is None or not self._now.is_closed:
            return
        home = self._host.durable.home
        fewer: dict[Space, list[Subscription]] = {}
        for id in home.ids():
            known = home.subscription(id)
            assert known is not None
            identity = owner(known.subscriber)
            space = self._spaces.present.get(known.space.name)
            if space is None or not self.concern(identity):
                continue
            wanted = Predicate.of(space, known.predicate.conjunctions)
            if wanted.is_nothing:
                continue
            try:
                predicate, is_less = narrowed(self._now.of(identity), identity, space, wanted)
            except AccessError as reason:
                fewer.setdefault(space, []).append(Subscription(id, Predicate.of(space, ()), known.subscriber))
                durables.end_presence(id, CODE, str(reason))
                continue
            if is_less:
                fewer.setdefault(space, []).append(Subscription(id, predicate, known.subscriber))
                durables.narrow(id, CODE, print_predicate(predicate))
        for changed in fewer.values():
            self._host.handle(DurablySubscribed(SubscriptionBatch.of(changed)))
