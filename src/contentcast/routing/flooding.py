"""Flooding: every event goes to every broker, and each broker keeps for its clients what they asked for.

Source: Banavar et al. 1999, section 1, the second of the straightforward approaches. An event follows the spanning tree of the
broker where it was published, so each broker gets it once; nobody needs to know what anybody else wants, and nobody is told. In
the paper "unwanted events are then filtered out at these destinations": `filter_at="client"` hands every event to every client
that wants anything.
Rule: what is forwarded does not depend on what is in the event.
"""

from __future__ import annotations

import numpy as np

from contentcast.model import ContentcastError, EventBatch
from contentcast.routing.contract import Deliver, Effect, Send
from contentcast.routing.setup import Setup
from contentcast.routing.skeleton import Skeleton
from contentcast.wire import Publish


class Flooding(Skeleton):
    """`filter_at`: "broker", as all other protocols do, or "client", which then gets events that it does not want."""

    def __init__(self, broker: str, setup: Setup, *, filter_at: str = "broker") -> None:
        if filter_at not in ("broker", "client"):
            raise ContentcastError(f"flooding filters at 'broker' or 'client', got {filter_at!r}")
        super().__init__(broker, setup)
        self.filter_at = filter_at

    def route(self, publish: Publish) -> list[Effect]:
        onward = self.view.onward(publish.origin)
        return [*self._serve(publish.events), *(Send(link, publish) for link in onward)]

    def _serve(self, events: EventBatch) -> list[Effect]:
        if self.filter_at == "broker":
            return self.local.serve(events)
        clients = self.local.audience(events.space)
        if not len(clients) or not len(events):
            return []
        names = sorted(set(clients.names[clients.living].tolist()))
        rows, who = np.divmod(np.arange(len(events) * len(names)), len(names))
        return [Deliver(events, rows, who, names)]
