"""Flooding: every event goes to every broker, and each broker keeps for its clients what they asked for.

Source: Banavar et al. 1999, section 1, the second of the straightforward approaches. An event follows the spanning tree of the
broker where it was published, so each broker gets it once; nobody needs to know what anybody else wants.
Rule: what is forwarded does not depend on what is in the event.
"""

from __future__ import annotations

from typing import Any

from contentcast.model import EventBatch
from contentcast.routing.clients import serve
from contentcast.routing.contract import Effect, Input, Published, Received, Send, Sizes
from contentcast.routing.knowledge import Knowledge
from contentcast.routing.publishing import Publishing
from contentcast.routing.setup import Setup
from contentcast.wire import Publish


class Flooding:
    def __init__(self, broker: str, setup: Setup) -> None:
        self.broker = broker
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
        return serve(self.knowledge.clients(events.space), events)

    def sizes(self) -> Sizes:
        return self.knowledge.sizes(local=True)

    def state(self) -> dict[str, Any]:
        return self.knowledge.state()
