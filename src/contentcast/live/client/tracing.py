"""Following an event through a network: from broker to broker, each asked what it would do with it, or what it did.

    a    onward b           c is no link that it would take
    b    onward c           desk-7 would get it here
    c    desk-9 would get it here

`follow` publishes nothing. `past` finds an event that was published, by its content or its id, and gathers what every broker
that can be reached remembers of it.
Rule: each broker is asked once, and speaks only for itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from contentcast.live.client.client import Client
from contentcast.live.client.connecting import connect
from contentcast.live.settings.address import Address, believed, read_addresses
from contentcast.model import ContentcastError

MOST_MESSAGES: Final = 10_000
"""Messages of one event that are followed; a protocol that needs more is not followed to the end."""


@dataclass
class Trace:
    """What would become of an event."""

    entered: str
    taken: list[tuple[str, str]] = field(default_factory=list)
    """The links that it would cross."""
    not_taken: list[tuple[str, str]] = field(default_factory=list)
    """Links of the brokers on its way behind which nobody wants it, or which its tree does not use."""
    gets: list[dict[str, Any]] = field(default_factory=list)
    """broker, client and id of the subscription."""
    unreachable: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "entered": self.entered,
            "links": [" > ".join(each) for each in self.taken],
            "links not taken": [" > ".join(each) for each in self.not_taken],
            "gets": self.gets,
            "unreachable": self.unreachable,
        }


class Tracer(AsyncExitStack):
    """Asks the broker at `url`, and those that it knows. `options` as for `connect`."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__()
        self._url, self._options = url, options
        self._clients: dict[str, Client] = {}
        self._secure = all(each.secure for each in read_addresses(url))
        self._addresses: dict[str, tuple[Address, ...]] = {}
        self.unreachable: dict[str, str] = {}

    async def open(self) -> Client:
        first = await self.enter_async_context(connect(self._url, **self._options))
        self._clients[first.broker] = first
        return first

    async def _client(self, broker: str) -> Client:
        if broker not in self._clients:
            addresses = self._addresses.get(broker)
            if not addresses:
                over = " with TLS" if self._secure else ""
                raise ContentcastError(f"nobody knows where {broker} listens{over}")
            found = await self.enter_async_context(connect(map(str, addresses), reconnect=False, **self._options))
            self._clients[broker] = found
        return self._clients[broker]

    def _learn(self, told: Mapping[str, Any]) -> None:
        self._addresses.update({name: believed(texts, secure=self._secure) for name, texts in told.items()})

    async def follow(self, space: str, event: Mapping[str, Any]) -> Trace:
        first = next(iter(self._clients))
        trace = Trace(first)
        asked: set[tuple[str, bytes]] = set()
        waiting: deque[tuple[str, dict[str, Any]]] = deque([(first, {"space": space, "event": dict(event)})])
        gets: dict[tuple[str, int, str], dict[str, Any]] = {}
        while waiting and len(asked) < MOST_MESSAGES:
            name, document = waiting.popleft()
            try:
                found = await (await self._client(name)).ask("hop", **document)
            except ContentcastError as reason:
                trace.unreachable[name] = str(reason)
                continue
            self._learn(found["addresses"])
            for each in found["gets"]:
                told = {"broker": name, **each}
                gets.setdefault((told["broker"], told["subscription"], told["client"]), told)
            for link, message, is_direct in found["onward"]:
                if (name, link) not in trace.taken:
                    trace.taken.append((name, link))
                if (link, message) not in asked:
                    asked.add((link, message))
                    waiting.append((link, {"message": message, "sender": name, "direct": is_direct}))
            trace.not_taken += [(name, link) for link in found["links"]]
        trace.gets = list(gets.values())
        came_from = set(trace.taken)
        trace.not_taken = [each for each in dict.fromkeys(trace.not_taken) if each not in came_from]
        trace.not_taken = [(one, other) for one, other in trace.not_taken if (other, one) not in came_from]
        return trace

    async def _everywhere(self, what: str, **document: Any) -> AsyncIterator[dict[str, Any]]:
        """The answers of all brokers that are known or heard of on the way; those that cannot be asked are noted."""
        asked: set[str] = set()
        while lacking := [each for each in [*self._clients, *self._addresses] if each not in asked]:
            asked.add(lacking[0])
            try:
                found = await (await self._client(lacking[0])).ask(what, **document)
            except ContentcastError as reason:
                if "is of the space" in str(reason) or "may not look inside" in str(reason):
                    raise
                self.unreachable[lacking[0]] = str(reason)
                continue
            self._learn(found["addresses"])
            yield found

    async def past(self, space: str, event: Mapping[str, Any] | None, id: int | None = None) -> list[dict[str, Any]] | None:
        """What each broker remembers of an event; None if nobody remembers that it was published."""
        if id is None:
            entered = [each async for each in self._everywhere("past", space=space, event=dict(event or {}))]
            known = [each for each in entered if each["id"] is not None]
            if not known:
                return None
            id = min(known, key=lambda each: min(came["ago_s"] for came in each["came"] if not came["from"]))["id"]
        told = [each async for each in self._everywhere("past", id=id)]
        return told if any(each["came"] or each.get("waits") or each.get("owed") for each in told) else None

    async def judge(self, space: str, subscription: int) -> dict[str, Any] | None:
        """What a subscription has accepted, and which test keeps it from the last events of the whole network."""
        events = [event async for each in self._everywhere("last events", space=space) for event in each["events"]]
        async for found in self._everywhere("judge", subscription=subscription, events=events):
            if found["subscription"] is not None:
                return found
        return None

    async def not_known(self) -> list[str]:
        """Where somebody may want an event and nobody says so: brokers that cannot be asked, and links that are not made."""
        lines = []
        async for found in self._everywhere("state", counts=False):
            dialled = {address: how for address, how in found["dialling"].items() if not how.startswith("linked to ")}
            lines += [f"{found['broker']} has no link to {address} ({how})" for address, how in dialled.items()]
        return lines + [f"{name} cannot be asked ({reason})" for name, reason in self.unreachable.items()]

    async def explain(self, space: str, event: Mapping[str, Any], subscription: int) -> dict[str, Any] | None:
        """What the subscription says to the event, at the broker of its client; None if nobody has it."""
        async for found in self._everywhere("explain", space=space, event=dict(event), subscription=subscription):
            if found["subscription"] is not None:
                return found
        return None
