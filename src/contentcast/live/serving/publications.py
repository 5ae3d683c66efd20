"""What clients publish: posts become `Published`, and the answer says up to which number all is accepted.

    in memory      Post, Post, Post of one wake-up    one Published for each space     Done at once: all up to a number
    with a disk    Post                               a Published for each Post        Done when it is on disk (`Accepted`)

A post that was sent again is not published again. In memory the last number of each publisher is known here; with a disk the
router knows it, over all lives of the broker.
Rule: one answer for each publisher and wake-up, up to its last number; what was there already is answered apart.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from contentcast.live.looking.witness import Witness
from contentcast.live.serving.failing import failure
from contentcast.live.serving.numbering import high_bits, owned
from contentcast.live.serving.sessions import Session
from contentcast.live.settings.access import Access, AccessError, check_publication
from contentcast.model import ContentcastError, EventBatch, Space
from contentcast.model.events.event_batch import concat
from contentcast.routing.contract import Accepted, Input, Published
from contentcast.wire.client import PASSING, Done, Post

KEPT_PUBLISHERS: Final = 100_000
"""Publishers whose last number is remembered in memory, so that what they send again is not published again."""
EVENT_BITS: Final = 43
"""Of an event's id: the events of one life of a broker. The bits above are of the broker's name and life."""


class Host(Protocol):
    name: str
    incarnation: int
    is_durable: bool

    def handle(self, input: Input) -> None: ...


class Unanswered(NamedTuple):
    """A post on its way to the disk."""

    session: Session
    since: float
    space: str
    events: int
    nbytes: int


class Publications:
    def __init__(self, host: Host, access: Callable[[], Access], witness: Witness) -> None:
        self._host = host
        self._witness = witness
        self._access = access
        self.published = 0
        """Events that were accepted; none counts twice."""
        self._posts: dict[Space, list[tuple[Session, Post]]] = {}
        self._since: dict[Space, float] = {}
        """When the first of the posts came."""
        self._durable_posts: list[tuple[Session, Post, str, float]] = []
        self.ahead: set[Session] = set()
        """Who has published far more than their window before the disk had it."""
        self._unanswered: dict[tuple[str, int], Unanswered] = {}
        self._last: OrderedDict[str, int] = OrderedDict()
        self._next_event = high_bits(host.name, host.incarnation, 63 - EVENT_BITS) << EVENT_BITS
        self._waiting: dict[str, tuple[Session, str]] = {}
        """A publisher's name at the router -> who is to be answered, and its name at the client."""
        self._answers: dict[str, Accepted] = {}

    def post(self, session: Session, post: Post) -> None:
        publisher = _at_router(session, post) if post.publisher else ""
        try:
            access = self._access()
            if post.keep_ids and not access.of(session.identity).gateway:
                raise AccessError(f"{session.identity or 'who shows no identity'} may not keep ids; it needs the right gateway")
            if access.is_closed:
                check_publication(access.of(session.identity), session.identity, post.events)
        except ContentcastError as reason:
            self._refuse(session, post, reason)
            return
        session.posted += len(post.events)
        if publisher and self._host.is_durable:
            self._waiting[publisher] = (session, post.publisher)
            self._durable_posts.append((session, post, publisher, self._witness.since))
            return
        if publisher:
            if post.number <= self._last.get(publisher, 0):
                self.publish()  # an answer is for all up to its number
                session.connection.send(Done(post.number, {"duplicate": True, "publisher": post.publisher}, post=True))
                return
            self._last[publisher] = post.number
            self._last.move_to_end(publisher)
            if len(self._last) > KEPT_PUBLISHERS:
                self._last.popitem(last=False)
        self._posts.setdefault(post.events.space, []).append((session, post))
        self._since.setdefault(post.events.space, self._witness.since)

    def _refuse(self, session: Session, post: Post, reason: ContentcastError) -> None:
        session.connection.send(replace(failure(post.number, reason), post=True, text=post.publisher))

    def lost(self, session: Session) -> None:
        """Nobody waits for its answers; what it posted is published all the same."""
        self.ahead.discard(session)
        for publisher in [each for each, (waits, _) in self._waiting.items() if waits is session]:
            del self._waiting[publisher]

    @property
    def has_posts(self) -> bool:
        return bool(self._posts or self._durable_posts)

    def publish(self) -> None:
        """Everything that was posted since the last time: as one batch for each space, or post by post where it is kept."""
        if self._durable_posts:
            self._publish_durably()
        if not self._posts:
            return
        posts, self._posts = self._posts, {}
        since, self._since = self._since, {}
        came = self._witness.since
        for space, posted in posts.items():
            self._witness.turns_to(since[space])
            events = concat([post.events for _, post in posted]) if len(posted) > 1 else posted[0][1].events
            batch = EventBatch(space, events.records, self._ids([post for _, post in posted]))
            try:
                self._host.handle(Published(batch))
                self._witness.published(batch, tuple((session.name, len(post.events)) for session, post in posted))
                self._witness.accepted(space.name, len(batch), since[space])
            except ContentcastError as reason:
                for session, post in posted:
                    self._refuse(session, post, reason)
                posted.clear()
            self.published += len(events) if posted else 0
        self._witness.turns_to(came)
        self._answer_at_once(posts)

    def _publish_durably(self) -> None:
        posts, self._durable_posts = self._durable_posts, []
        for session, post, publisher, since in posts:
            events = EventBatch(post.events.space, post.events.records, self._ids([post]))
            if (publisher, post.number) not in self._unanswered:
                self._wait_for(
                    publisher,
                    post.number,
                    Unanswered(session, since, events.space.name, len(events), int(events.records.nbytes)),
                )
            try:
                self._host.handle(Published(events, publisher, post.number))
                self._witness.published(events, ((session.name, len(events)),))
            except ContentcastError as reason:
                self._answered(publisher, post.number)
                self._refuse(session, post, reason)

    def _ids(self, posts: list[Post]) -> pa.Array:
        """The broker gives ids to events; those that come through a gateway keep theirs."""
        count = sum(len(post.events) for post in posts)
        fresh = np.arange(self._next_event, self._next_event + count)
        self._next_event += count
        at = 0
        for post in posts:
            if post.keep_ids:
                fresh[at : at + len(post.events)] = post.events.ids.to_numpy()
            at += len(post.events)
        return pa.array(fresh)

    def _answer_at_once(self, posts: dict[Space, list[tuple[Session, Post]]]) -> None:
        highest: dict[tuple[Session, str], int] = {}
        for posted in posts.values():
            for session, post in posted:
                key = (session, post.publisher)
                highest[key] = max(highest.get(key, 0), post.number)
        for (session, publisher), number in highest.items():
            session.connection.send(Done(number, {"publisher": publisher}, post=True))

    # --- with a disk

    def _wait_for(self, publisher: str, number: int, waits: Unanswered) -> None:
        self._unanswered[publisher, number] = waits
        waits.session.unanswered_events += waits.events
        waits.session.unanswered_bytes += waits.nbytes
        if waits.session.is_ahead:
            self.ahead.add(waits.session)

    def _answered(self, publisher: str, number: int) -> Unanswered | None:
        found = self._unanswered.pop((publisher, number), None)
        if found is not None:
            found.session.unanswered_events -= found.events
            found.session.unanswered_bytes -= found.nbytes
            if not found.session.is_ahead:
                self.ahead.discard(found.session)
        return found

    def accepted(self, effect: Accepted) -> None:
        """It stands before what the router does with the events once they are on disk."""
        came = self._answered(effect.publisher, effect.number)
        if came is not None:
            self._witness.turns_to(came.since)
            self._witness.accepted(came.space, came.events, came.since)
            self.published += 0 if effect.duplicate else came.events
        before = self._answers.get(effect.publisher)
        if before is not None and before.duplicate != effect.duplicate:
            self._answer(before)
        self._answers[effect.publisher] = effect

    def answer(self) -> None:
        """Called at the end of a turn."""
        answers, self._answers = self._answers, {}
        for effect in answers.values():
            self._answer(effect)

    def _answer(self, effect: Accepted) -> None:
        waits = self._waiting.get(effect.publisher)
        if waits is not None:
            session, publisher = waits
            told = {"publisher": publisher, "position": effect.position, "duplicate": effect.duplicate}
            session.connection.send(Done(effect.number, told, post=True))


def _at_router(session: Session, post: Post) -> str:
    """A publisher's name belongs to the identity that uses it."""
    if post.publisher.startswith(PASSING):
        return PASSING + owned(session.identity, post.publisher.removeprefix(PASSING))
    return owned(session.identity, post.publisher)
