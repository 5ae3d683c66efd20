"""Flooding: every event goes to every broker, and each broker keeps for its clients what they asked for.

Source: Banavar et al. 1999, section 1, the second of the straightforward approaches. An event follows the spanning tree of the
broker where it was published, so each broker gets it once; nobody needs to know what anybody else wants. In the paper "unwanted
events are then filtered out at these destinations": `filter_at="client"` hands every event to every client that wants anything.
Rule: what is forwarded does not depend on what is in the event.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contentcast.model import ContentcastError, EventBatch
from contentcast.routing.clients import serve
from contentcast.routing.contract import Deliver, Effect, Input, Published, Received, Send, Sizes
from contentcast.routing.knowledge import Knowledge
from contentcast.routing.publishing import Publishing
from contentcast.routing.setup import Setup
from contentcast.wire import Publish


class Flooding:
    """`filter_at`: "broker", as all other protocols do, or "client", which then gets events that it does not want."""

    def __init__(self, broker: str, setup: Setup, *, filter_at: str = "broker") -> None:
        if filter_at not in ("broker", "client"):
            raise ContentcastError(f"flooding filters at 'broker' or 'client', got {filter_at!r}")
        self.broker = broker
        self.filter_at = filter_at
        self.knowledge = Knowledge(broker, setup)
        self.publishing = Publishing(broker, setup)

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Published(events):
                return [effect for publish in self.publishing.publish(events) for effect in self._route(publish)]
            case Received(_, Publish() as publish):
                fresh = self.publishing.fresh(publish)
                return [] if fresh is None else self._route(fresh)
            case _:
                return self.knowledge.handle(input, now)

    def _route(self, publish: Publish) -> list[Effect]:
        onward = self.knowledge.onward(publish.origin)
        return [*self._serve(publish.events), *(Send(link, publish) for link in onward)]

    def _serve(self, events: EventBatch) -> list[Effect]:
        clients = self.knowledge.clients(events.space)
        if self.filter_at == "broker":
            return serve(clients, events)
        if not len(clients) or not len(events):
            return []
        names = sorted(set(clients.names[clients.living].tolist()))
        rows, who = np.divmod(np.arange(len(events) * len(names)), len(names))
        return [Deliver(events, rows, who, names)]

    def sizes(self) -> Sizes:
        return self.knowledge.sizes(local=True)

    def state(self) -> dict[str, Any]:
        return self.knowledge.state()
