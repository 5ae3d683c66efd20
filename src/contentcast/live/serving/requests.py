"""The clients of a broker: what they ask for becomes inputs of the router, and answers go back.

    Subscribe, Withdraw      Subscribed, Unsubscribed      Done, or Failed with the place in the predicate
    Advertise                Advertised                    Done
    Spaces                   Declared                      Done
    Post, Post, Post ...     one Published for each space  Done: all up to a number
    Ask                                                    Done with what was asked for

Rule: what a client does wrong is answered to that client with a name for it, and nobody else notices.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from contentcast.language import PredicateError, parse_many, parse_predicate, print_predicate
from contentcast.live.links.connection import Connection
from contentcast.live.serving.deliveries import Deliveries
from contentcast.live.serving.sessions import Session, Standing
from contentcast.live.serving.spaces import LiveSpaces
from contentcast.live.settings.access import Access, AccessError, check_publication, narrowed
from contentcast.live.settings.limits import ON_SLOW, LimitError, Limits, OnSlow
from contentcast.live.settings.tls import proven_name
from contentcast.model import (
    Advertisement,
    Constraint,
    ContentcastError,
    EventBatch,
    EventError,
    Space,
    SpaceError,
    SubscriptionBatch,
)
from contentcast.model.events.event_batch import concat
from contentcast.routing.contract import (
    Advertised,
    Declared,
    Input,
    Published,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from contentcast.wire import Message, WireError
from contentcast.wire.client import (
    Advertise,
    Ask,
    Beat,
    Done,
    Failed,
    Hello,
    Post,
    Spaces,
    Subscribe,
    Welcome,
    Withdraw,
)

KEPT_PUBLISHERS: Final = 100_000
"""Publishers whose last number is remembered, so that what they send again is not published again."""
EVENT_BITS: Final = 43
"""Of an event's id: the events of one life of a broker. The bits above are of the broker's name and life."""
SUBSCRIPTION_BITS: Final = 32


class Host(Protocol):
    name: str
    incarnation: int

    def handle(self, input: Input) -> None: ...

    def note(self, what: str, **facts: Any) -> None: ...

    def answer(self, session: Session, ask: Ask) -> dict[str, Any]: ...


class Serving:
    def __init__(
        self, host: Host, spaces: LiveSpaces, deliveries: Deliveries, limits: Limits, access: Access, on_slow: OnSlow
    ) -> None:
        self._host = host
        self._spaces = spaces
        self._deliveries = deliveries
        self.limits = limits
        self.access = access
        self.on_slow: OnSlow = on_slow
        self.sessions: dict[str, Session] = {}
        self.published = 0
        self._posts: dict[Space, list[tuple[Session, Post]]] = {}
        self._last: OrderedDict[str, int] = OrderedDict()
        self._next_event = _high_bits(host.name, host.incarnation, 63 - EVENT_BITS) << EVENT_BITS
        self._next_subscription = _high_bits(host.name, host.incarnation, 63 - SUBSCRIPTION_BITS) << SUBSCRIPTION_BITS
        self._handlers: Mapping[type[Message], Callable[[Session, Any], None]] = {
            Subscribe: self._subscribe,
            Withdraw: self._withdraw,
            Advertise: self._advertise,
            Spaces: self._declare,
            Ask: self._ask,
        }

    def reload(self, limits: Limits, access: Access, on_slow: OnSlow) -> None:
        """From now on these hold, for those who are connected too."""
        self.limits, self.access, self.on_slow = limits, access, on_slow
        for session in self.sessions.values():
            session.limits = limits

    # --- coming and going

    def greeted(self, connection: Connection, hello: Hello) -> Failed | None:
        """A client says who it is; what it is told if it cannot be served."""
        try:
            identity = self.access.who(proven_name(connection.certificate(), "client"), hello.token)
        except AccessError as reason:
            return Failed(0, "access", str(reason))
        if self.access.is_closed and not identity and "*" not in self.access.rights:
            return Failed(0, "access", "this broker serves those who show a certificate or a token")
        there = self.sessions.get(hello.name)
        if there is not None:
            if there.identity != identity or not hello.key or there.key != hello.key:
                return Failed(0, "name-taken", f"another client is connected as {hello.name!r}; take another name")
            there.connection.abort()
            self.lost(there)
        session = Session(hello.name, hello.key, connection, self.limits, identity, self.on_slow)
        connection.holder = session
        connection.most_bytes = self.limits.client_message_bytes
        self.sessions[hello.name] = session
        connection.send(
            Welcome(
                self._host.name,
                incarnation=self._host.incarnation,
                client=hello.name,
                window_events=self.limits.window_events,
                window_bytes=self.limits.window_bytes,
                most_bytes=self.limits.client_message_bytes,
            )
        )
        return None

    def lost(self, session: Session) -> None:
        """The client is gone; what it wanted ends. It says everything again when it comes back."""
        if self.sessions.get(session.name) is session:
            del self.sessions[session.name]
        if session.cut:
            self._host.note("slow client cut off", client=session.name, reason=session.cut)
        ids = tuple(each.id for each in session.subscriptions.values())
        for each in session.subscriptions.values():
            self._deliveries.drop(_router_name(session, each.id))
        session.subscriptions.clear()
        if ids:
            self._host.handle(Unsubscribed(ids))
        withdrawn = tuple(each for ids in session.advertisements.values() for each in ids)
        session.advertisements.clear()
        if withdrawn:
            self._host.handle(Unadvertised(withdrawn))

    # --- what clients say

    def heard(self, session: Session, message: Message) -> None:
        if isinstance(message, Post):
            self._post(session, message)
            return
        if isinstance(message, Beat):
            if message.sent:
                session.connection.send(Beat(heard=message.sent))
            return
        self.publish()  # what came before counts before
        handler = self._handlers.get(type(message))
        if handler is None:
            raise WireError(f"a client says Subscribe, Withdraw, Advertise, Spaces, Post or Ask, not {type(message).__name__}")
        request = getattr(message, "request", 0)
        try:
            session.allow_request(asyncio.get_running_loop().time())
            handler(session, message)
        except ContentcastError as reason:
            session.connection.send(failure(request, reason))

    def _subscribe(self, session: Session, message: Subscribe) -> None:
        count = len(message.numbers)
        if not count or count != len(message.predicates) or len(set(message.numbers)) != count:
            raise WireError(f"{len(message.predicates)} predicates for {count} numbers; each subscription has one of each")
        space = self._spaces.of(message.space)
        fresh = sum(number not in session.subscriptions for number in message.numbers)
        if len(session.subscriptions) + fresh > self.limits.subscriptions_per_client:
            raise LimitError("subscriptions_per_client", f"{session.name} would have more subscriptions than it may")
        if len(self._deliveries) + fresh > self.limits.subscriptions:
            raise LimitError("subscriptions", f"broker {self._host.name} would have more subscriptions than it may")
        longest = max(map(len, message.predicates))
        if longest > self.limits.predicate_bytes:
            raise LimitError("predicate_bytes", f"a predicate of {longest:,} characters")
        if message.on_slow:
            if message.on_slow not in ON_SLOW:
                raise ContentcastError(f"on_slow is one of {', '.join(ON_SLOW)}, got {message.on_slow!r}")
            session.on_slow = message.on_slow
        if message.durable:
            raise ContentcastError(f"broker {self._host.name} keeps nothing for the durable subscription {message.durable!r}")
        batch, told = self._read_predicates(session, space, message)
        self._host.handle(Subscribed(batch))
        ids = told["ids"]
        for number, text, at in zip(message.numbers, message.predicates, ids, strict=True):
            shown = told["narrowed"].get(number, text)
            standing = Standing(session, number, at, space, shown, number in told["narrowed"])
            session.subscriptions[number] = standing
            self._deliveries.take(_router_name(session, at), standing)
        session.connection.send(Done(message.request, {"ids": ids, "narrowed": told["narrowed"]}))

    def _read_predicates(self, session: Session, space: Space, message: Subscribe) -> tuple[SubscriptionBatch, dict[str, Any]]:
        ids: list[int] = []
        for number in message.numbers:
            before = session.subscriptions.get(number)
            if before is None:
                ids.append(self._next_subscription)
                self._next_subscription += 1
            else:
                ids.append(before.id)
        rights = self.access.of(session.identity)
        names = [_router_name(session, each) for each in ids]
        shown: dict[int, str] = {}
        if len(ids) == 1 or self.access.is_closed:
            from contentcast.model.predicates.table import PredicateTable

            predicates = []
            for number, text in zip(message.numbers, message.predicates, strict=True):
                wanted, is_less = narrowed(rights, session.identity, space, parse_predicate(space, text))
                predicates.append(wanted)
                if is_less:
                    shown[number] = print_predicate(wanted)
            table = PredicateTable.of(space, predicates)
        else:
            table = parse_many(space, list(message.predicates))
            if table.refused:
                raise next(iter(table.refused.values()))
        return SubscriptionBatch.columns(ids, table, names), {"ids": ids, "narrowed": shown}

    def _withdraw(self, session: Session, message: Withdraw) -> None:
        if message.what == "subscriptions":
            gone = [session.subscriptions.pop(each) for each in dict.fromkeys(message.numbers) if each in session.subscriptions]
            for each in gone:
                self._deliveries.drop(_router_name(session, each.id))
            if gone:
                self._host.handle(Unsubscribed(tuple(each.id for each in gone)))
            count = len(gone)
        elif message.what == "advertisements":
            known = [session.advertisements.pop(each) for each in message.numbers if each in session.advertisements]
            if known:
                self._host.handle(Unadvertised(tuple(each for ids in known for each in ids)))
            count = len(known)
        else:
            raise WireError(f"subscriptions or advertisements can be withdrawn, not {message.what!r}")
        session.connection.send(Done(message.request, {"withdrawn": count}))

    def _advertise(self, session: Session, message: Advertise) -> None:
        """A predicate allows what it names within its constraints, and all other attributes as they are."""
        if len(session.advertisements) >= self.limits.advertisements_per_client:
            raise LimitError("advertisements_per_client", f"{session.name} advertises too much")
        space = self._spaces.of(message.space)
        predicate = parse_predicate(space, message.predicate)
        made: list[Advertisement] = []
        for conjunction in predicate.conjunctions:
            allowed = {name: (conjunction.get(name) or Constraint.present(kind),) for name, kind in space.kinds.items()}
            made.append(Advertisement(self._next_subscription, space, allowed, session.name))
            self._next_subscription += 1
        before = session.advertisements.get(message.number, ())
        if before:
            self._host.handle(Unadvertised(before))
        self._host.handle(Advertised(tuple(made)))
        session.advertisements[message.number] = tuple(each.id for each in made)
        session.connection.send(Done(message.request))

    def _declare(self, session: Session, message: Spaces) -> None:
        declared = message.read()
        if not message.request:
            self._spaces.named(declared)
            return
        present: list[Space] = []
        for space in declared:
            known = self._spaces.present.get(space.name)
            if known is None or not known.extends(space):
                if not self.access.of(session.identity).declare:
                    raise AccessError(
                        f"{session.identity or 'who shows no identity'} may not declare spaces; see the right declare"
                    )
                self._spaces.check(space)
            self._spaces.named([space])
            self._host.handle(Declared(space))
            present.append(self._spaces.declared(space))
        self.tell_spaces(session, present, message.request)

    def tell_spaces(self, session: Session, spaces: list[Space], request: int) -> None:
        session.connection.send(Done(request, {"spaces": [each.to_dict() for each in spaces]}))

    def _ask(self, session: Session, message: Ask) -> None:
        if message.what == "spaces":
            names = message.document.get("names") or sorted(self._spaces.present)
            self.tell_spaces(session, [self._spaces.of(str(name)) for name in names], message.request)
            return
        session.connection.send(Done(message.request, self._host.answer(session, message)))

    # --- events

    def _post(self, session: Session, post: Post) -> None:
        publisher = self._publisher(session, post) if post.publisher else ""
        if publisher and post.number <= self._last.get(publisher, 0):
            self.publish()  # an answer is for all up to its number
            session.connection.send(Done(post.number, {"duplicate": True}, post=True))
            return
        try:
            if post.keep_ids and not self.access.of(session.identity).gateway:
                raise AccessError(f"{session.identity or 'who shows no identity'} may not keep ids; it needs the right gateway")
            if self.access.is_closed:
                check_publication(self.access.of(session.identity), session.identity, post.events)
        except ContentcastError as reason:
            session.connection.send(replace(failure(post.number, reason), post=True))
            return
        if publisher:
            self._last[publisher] = post.number
            self._last.move_to_end(publisher)
            if len(self._last) > KEPT_PUBLISHERS:
                self._last.popitem(last=False)
        self._posts.setdefault(post.events.space, []).append((session, post))

    def _publisher(self, session: Session, post: Post) -> str:
        """A publisher's name belongs to the identity that uses it."""
        return f"{session.identity}/{post.publisher}"

    @property
    def has_posts(self) -> bool:
        return bool(self._posts)

    def publish(self) -> None:
        """Everything that was posted since the last time, as one batch for each space."""
        if not self._posts:
            return
        posts, self._posts = self._posts, {}
        for space, posted in posts.items():
            events = concat([post.events for _, post in posted]) if len(posted) > 1 else posted[0][1].events
            count = len(events)
            numbers = self._ids(posted)
            try:
                self._host.handle(Published(EventBatch(space, events.records, numbers)))
            except ContentcastError as reason:
                for session, post in posted:
                    session.connection.send(replace(failure(post.number, reason), post=True))
                posted.clear()
            self.published += count if posted else 0
        self._accept(posts)

    def _ids(self, posted: list[tuple[Session, Post]]) -> pa.Array:
        """The broker gives ids to events; those that come through a gateway keep theirs."""
        count = sum(len(post.events) for _, post in posted)
        fresh = np.arange(self._next_event, self._next_event + count)
        self._next_event += count
        at = 0
        for _, post in posted:
            if post.keep_ids:
                fresh[at : at + len(post.events)] = post.events.ids.to_numpy()
            at += len(post.events)
        return pa.array(fresh)

    def _accept(self, posts: dict[Space, list[tuple[Session, Post]]]) -> None:
        """One answer for each session, up to the last number."""
        highest: dict[Session, int] = {}
        for posted in posts.values():
            for session, post in posted:
                session.posted += len(post.events)
                highest[session] = max(highest.get(session, 0), post.number)
        for session, number in highest.items():
            session.connection.send(Done(number, post=True))

    # --- watching over them

    def check(self, now: float) -> None:
        """Clients that were silent for too long are gone."""
        for session in list(self.sessions.values()):
            if now - session.connection.heard_at > self.limits.client_dead_after_s:
                self._host.note("client silent", client=session.name)
                session.connection.abort()


def failure(request: int, reason: ContentcastError) -> Failed:
    match reason:
        case PredicateError():
            return Failed(request, "predicate", reason.reason, reason.text, reason.offset)
        case LimitError():
            return Failed(request, f"limit {reason.limit}", str(reason))
        case AccessError():
            return Failed(request, "access", str(reason))
        case SpaceError():
            return Failed(request, "space", str(reason))
        case EventError():
            return Failed(request, "event", str(reason))
        case WireError():
            return Failed(request, "message", str(reason))
    return Failed(request, "request", str(reason))


def _router_name(session: Session, id: int) -> str:
    return f"{session.name}#{id}"


def _high_bits(name: str, incarnation: int, bits: int) -> int:
    digest = blake2b(f"{name} {incarnation}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> (64 - bits)
