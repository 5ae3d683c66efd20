"""Following an event through a network without publishing it: from broker to broker, each asked what it would do.

    a    onward b           c is no link that it would take
    b    onward c           desk-7 would get it here
    c    desk-9 would get it here

Rule: each broker is asked once, and speaks only for itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from contentcast.live.client.client import Client
from contentcast.live.client.connecting import connect
from contentcast.model import ContentcastError


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
        self._addresses: dict[str, list[str]] = {}

    async def open(self) -> Client:
        first = await self.enter_async_context(connect(self._url, **self._options))
        self._clients[first.broker] = first
        return first

    async def _client(self, broker: str) -> Client:
        if broker not in self._clients:
            addresses = self._addresses.get(broker)
            if not addresses:
                raise ContentcastError(f"nobody knows where {broker} listens")
            found = await self.enter_async_context(connect(addresses, reconnect=False, **self._options))
            self._clients[broker] = found
        return self._clients[broker]

    async def follow(self, space: str, event: Mapping[str, Any]) -> Trace:
        first = next(iter(self._clients))
        trace = Trace(first)
        asked = {first}
        waiting: deque[tuple[str, dict[str, Any]]] = deque([(first, {"space": space, "event": dict(event)})])
        while waiting:
            name, document = waiting.popleft()
            try:
                found = await (await self._client(name)).ask("hop", **document)
            except ContentcastError as reason:
                trace.unreachable[name] = str(reason)
                continue
            self._addresses.update(found["addresses"])
            trace.gets += [{"broker": name, **each} for each in found["gets"]]
            for link, message in found["onward"].items():
                trace.taken.append((name, link))
                if link not in asked:
                    asked.add(link)
                    waiting.append((link, {"message": message}))
            trace.not_taken += [(name, link) for link in found["links"] if link not in found["onward"]]
        came_from = set(trace.taken)
        trace.not_taken = [(one, other) for one, other in trace.not_taken if (other, one) not in came_from]
        return trace

    async def explain(self, space: str, event: Mapping[str, Any], subscription: int) -> dict[str, Any] | None:
        """What the subscription says to the event, at the broker of its client; None if nobody has it."""
        asked: set[str] = set()
        while lacking := [each for each in [*self._clients, *self._addresses] if each not in asked]:
            asked.add(lacking[0])
            try:
                client = await self._client(lacking[0])
                found = await client.ask("explain", space=space, event=dict(event), subscription=subscription)
            except ContentcastError as reason:
                if "is of the space" in str(reason):
                    raise
                continue
            self._addresses.update(found["addresses"])
            if found["subscription"] is not None:
                return found
        return None
