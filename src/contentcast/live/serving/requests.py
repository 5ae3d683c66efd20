"""The clients of a broker: what they ask for becomes inputs of the router, and answers go back.

    Subscribe, Withdraw      Subscribed, Unsubscribed      Done, or Failed with the place in the predicate
    Advertise                Advertised                    Done
    Spaces                   Declared                      Done
    Post                     see `publications`            Done: all up to a number
    Acknowledge              see `durables`
    Ask                                                    Done with what was asked for

Rule: what a client does wrong is answered to that client with a name for it, and nobody else notices.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from contentcast.language import parse_many, parse_predicate, print_predicate
from contentcast.live.links.connection import Connection
from contentcast.live.looking.witness import Witness
from contentcast.live.serving import durables, publications
from contentcast.live.serving.changed_rights import ChangedRights
from contentcast.live.serving.deliveries import Deliveries
from contentcast.live.serving.durables import Durables
from contentcast.live.serving.failing import failure
from contentcast.live.serving.numbering import high_bits
from contentcast.live.serving.publications import Publications
from contentcast.live.serving.sessions import Claim, Session, Standing, router_name
from contentcast.live.serving.spaces import LiveSpaces
from contentcast.live.settings.access import Access, AccessError, advertisable, narrowed
from contentcast.live.settings.identity import check_name
from contentcast.live.settings.limits import ON_SLOW, LimitError, Limits, OnSlow
from contentcast.live.settings.tls import proven_name
from contentcast.model import (
    Advertisement,
    Constraint,
    ContentcastError,
    Predicate,
    Space,
    Subscription,
    SubscriptionBatch,
)
from contentcast.routing.contract import (
    Advertised,
    Declared,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from contentcast.wire import Message, WireError
from contentcast.wire.client import (
    TOKEN_EXPIRED,
    Acknowledge,
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

SUBSCRIPTION_BITS: Final = 32


class Host(durables.Host, publications.Host, Protocol):
    """What the broker does for its clients."""

    def note(self, what: str, **facts: Any) -> None: ...

    def answer(self, session: Session, ask: Ask) -> dict[str, Any]: ...

    @property
    def witness(self) -> Witness: ...

    @property
    def spoken_protocol(self) -> str: ...


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
        self._missed_by_gone = 0
        self.publications = Publications(host, lambda: self.access, host.witness)
        self.durables = Durables(host, limits, host.witness)
        self._next_subscription = high_bits(host.name, host.incarnation, 63 - SUBSCRIPTION_BITS) << SUBSCRIPTION_BITS
        self._handlers: Mapping[type[Message], Callable[[Session, Any], None]] = {
            Subscribe: self._subscribe,
            Withdraw: self._withdraw,
            Advertise: self._advertise,
            Spaces: self._declare,
            Ask: self._ask,
        }

    @property
    def published(self) -> int:
        return self.publications.published

    @property
    def missed(self) -> int:
        """Events that were left out because clients were slow, those that have left included."""
        return self._missed_by_gone + sum(each.missed for each in self.sessions.values())

    def reload(self, limits: Limits, access: Access, on_slow: OnSlow) -> None:
        """From now on these hold, for those who are connected too, and for what they have subscribed to and advertised."""
        before = self.access
        self.limits, self.access, self.on_slow = limits, access, on_slow
        self.durables.limits = limits
        for session in self.sessions.values():
            session.limits = limits
            session.connection.most_bytes = limits.client_message_bytes
        if access != before:
            changed = ChangedRights(self._host, self._spaces, before, access)
            changed.review(self.sessions.values(), self._deliveries, self.durables, self._set_advertisement)

    def begin(self) -> None:
        """The rights may be other ones than in an earlier life of the broker."""
        ChangedRights(self._host, self._spaces, None, self.access).review_durables(self.durables)

    # --- coming and going

    def greeted(self, connection: Connection, hello: Hello) -> Failed | None:
        """A client says who it is; what it is told if it cannot be served."""
        try:
            identity, until = self.access.who(proven_name(connection.certificate(), "client"), hello.token)
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
        session = Session(hello.name, hello.key, connection, self.limits, identity, until, self.on_slow)
        connection.holder = session
        connection.most_bytes = self.limits.client_message_bytes
        self.sessions[hello.name] = session
        connection.send(
            Welcome(
                self._host.name,
                incarnation=self._host.incarnation,
                protocol=self._host.spoken_protocol,
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
            self._missed_by_gone += session.missed
        if session.cut:
            self._host.note("slow client cut off", client=session.name, reason=session.cut)
        self.durables.lost(session)
        self.publications.lost(session)
        ids = tuple(each.id for each in session.subscriptions.values())
        for each in session.subscriptions.values():
            self._deliveries.drop(router_name(session, each.id))
        session.subscriptions.clear()
        if ids:
            self._host.handle(Unsubscribed(ids))
        withdrawn = tuple(each for claim in session.advertisements.values() for each in claim.ids)
        session.advertisements.clear()
        if withdrawn:
            self._host.handle(Unadvertised(withdrawn))

    # --- what clients say

    def heard(self, session: Session, message: Message) -> None:
        if isinstance(message, Post):
            self.publications.post(session, message)
            return
        if isinstance(message, Beat):
            if message.sent:
                session.connection.send(Beat(heard=message.sent))
            return
        self.publications.publish()  # what came before counts before
        if isinstance(message, Acknowledge):
            self.durables.acknowledge(session, message.numbers, message.upto)
            return
        handler = self._handlers.get(type(message))
        if handler is None:
            raise WireError(
                f"a client says Subscribe, Withdraw, Advertise, Spaces, Post, Acknowledge or Ask, not {type(message).__name__}"
            )
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
        self._check_length(message.predicates)
        if message.on_slow:
            if message.on_slow not in ON_SLOW:
                raise ContentcastError(f"on_slow is one of {', '.join(ON_SLOW)}, got {message.on_slow!r}")
            session.on_slow = message.on_slow
        if message.durable:
            self._subscribe_durably(session, space, message)
            return
        batch, told = self._read_predicates(session, space, message)
        self._host.handle(Subscribed(batch))
        ids = told["ids"]
        now = self._host.witness.clock()
        shown = told["narrowed"]
        standings = [
            Standing(session, number, at, space, shown.get(number, text), number in shown, "", now)
            for number, text, at in zip(message.numbers, message.predicates, ids, strict=True)
        ]
        session.subscriptions.update(zip(message.numbers, standings, strict=True))
        self._deliveries.take(dict(zip(told["names"], standings, strict=True)))
        session.connection.send(Done(message.request, {"ids": ids, "narrowed": told["narrowed"]}))

    def _check_length(self, predicates: Sequence[str]) -> None:
        longest = max(map(len, predicates))
        if longest > self.limits.predicate_bytes:
            raise LimitError("predicate_bytes", f"a predicate of {longest:,} characters")

    def _subscribe_durably(self, session: Session, space: Space, message: Subscribe) -> None:
        if len(message.numbers) != 1:
            raise WireError(
                f"a durable subscription is one alone; {len(message.numbers)} were asked for as {message.durable!r}"
            )
        check_name(message.durable, "the name of a durable subscription")
        (number,) = message.numbers
        id, name = self.durables.identify(session, message.durable)
        rights = self.access.of(session.identity)
        predicate, is_less = narrowed(rights, session.identity, space, parse_predicate(space, message.predicates[0]))
        shown = {number: print_predicate(predicate)} if is_less else {}
        wanted = Subscription(id, predicate, name)
        self.durables.subscribe(session, message.request, number, message.durable, message.after, wanted, shown)

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
        names = [router_name(session, each) for each in ids]
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
        return SubscriptionBatch.columns(ids, table, names), {"ids": ids, "narrowed": shown, "names": names}

    def _withdraw(self, session: Session, message: Withdraw) -> None:
        if message.what == "presence":
            count = self.durables.leave(session, message.numbers)
        elif message.what == "subscriptions":
            durable = [
                each.id
                for number in message.numbers
                if (each := session.subscriptions.get(number)) is not None and each.durable
            ]
            if self.durables.end(session, message.request, durable, message.names):
                return
            gone = [session.subscriptions.pop(each) for each in dict.fromkeys(message.numbers) if each in session.subscriptions]
            for each in gone:
                self._deliveries.drop(router_name(session, each.id))
            if gone:
                self._host.handle(Unsubscribed(tuple(each.id for each in gone)))
            count = len(gone)
        elif message.what == "advertisements":
            known = [session.advertisements.pop(each) for each in message.numbers if each in session.advertisements]
            if known:
                self._host.handle(Unadvertised(tuple(each for claim in known for each in claim.ids)))
            count = len(known)
        else:
            raise WireError(f"subscriptions or advertisements can be withdrawn, not {message.what!r}")
        session.connection.send(Done(message.request, {"withdrawn": count}))

    def _advertise(self, session: Session, message: Advertise) -> None:
        """A predicate allows what it names within its constraints, and all other attributes as they are."""
        self._check_length([message.predicate])
        space = self._spaces.of(message.space)
        wanted = parse_predicate(space, message.predicate)
        predicate, is_less = advertisable(self.access.of(session.identity), session.identity, space, wanted)
        standing = sum(len(each.ids) for number, each in session.advertisements.items() if number != message.number)
        if standing + len(predicate.conjunctions) > self.limits.advertisements_per_client:
            raise LimitError("advertisements_per_client", f"{session.name} advertises too much; each OR counts as one more")
        self._set_advertisement(session, message.number, space, predicate)
        session.connection.send(Done(message.request, {"narrowed": print_predicate(predicate)} if is_less else {}))

    def _set_advertisement(self, session: Session, number: int, space: Space, predicate: Predicate) -> None:
        """In place of the one that had this number."""
        before = session.advertisements.get(number)
        made: list[Advertisement] = []
        for conjunction in predicate.conjunctions:
            allowed = {name: (conjunction.get(name) or Constraint.present(kind),) for name, kind in space.kinds.items()}
            made.append(Advertisement(self._next_subscription, space, allowed, session.name))
            self._next_subscription += 1
        if before:
            self._host.handle(Unadvertised(before.ids))
        self._host.handle(Advertised(tuple(made)))
        session.advertisements[number] = Claim(tuple(each.id for each in made), space.name, print_predicate(predicate))

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
        if message.what == "durable":
            name, upto = str(message.document.get("name", "")), message.document.get("acknowledge", 0)
            if not isinstance(upto, int) or isinstance(upto, bool):
                raise WireError(f"acknowledge is a number, got {upto!r}")
            session.connection.send(Done(message.request, self.durables.place(session, name, upto)))
            return
        session.connection.send(Done(message.request, self._host.answer(session, message)))

    # --- watching over them

    def check(self, now: float) -> None:
        """Clients that were silent for too long are gone, and those whose token has expired.

        Who was slow and has read all is told what it has missed.
        """
        today = time.time()
        for session in list(self.sessions.values()):
            if session.until is not None and session.until <= today:
                self._expire(session)
                continue
            session.tell_missed()
            if now - session.connection.heard_at > self.limits.client_dead_after_s:
                self._host.note("client silent", client=session.name)
                session.connection.abort()

    def _expire(self, session: Session) -> None:
        """Its client may come back with another token; until then what it wanted ends, and what is durable waits."""
        self._host.note("token expired", client=session.name, identity=session.identity)
        session.connection.send(
            Failed(0, TOKEN_EXPIRED, f"the token of {session.identity} has expired; connect with a new one")
        )
        session.connection.close()
        session.until = None
