"""What publishers anywhere in the network say that they may publish.

Source: SIENA's advertisements (Eide et al. 2003, section 2). Topic `advertisements`: each broker tells all that its clients
advertise. Only protocols that make use of them take this part; with the others a broker keeps its own clients' advertisements
(`local`) and tells nobody.
"""

from __future__ import annotations

from typing import Any

from contentcast.model import Advertisement
from contentcast.routing.contract import Advertised, Effect, Input, Unadvertised
from contentcast.routing.parts.local import Local
from contentcast.routing.parts.versions import Versions
from contentcast.wire import Advertisements, Mark


class Advertising:
    """Stands after `local` (or `interest`) among the parts, which has taken the input before."""

    topic = Advertisements.topic

    def __init__(self, broker: str, versions: Versions, local: Local) -> None:
        self.broker = broker
        self._versions = versions
        self._local = local
        self._heard: dict[str, tuple[Advertisement, ...]] = {}
        versions.take(self)

    def handle(self, input: Input, now: float) -> list[Effect]:
        if not isinstance(input, Advertised | Unadvertised):
            return []
        self._versions.next(self.topic)
        return self._versions.tell(self.tell(self.broker, self._versions.mark(self.broker), 0))

    def hear(self, told: Advertisements) -> None:
        self._heard[told.origin] = told.advertisements

    def forget(self, origin: str) -> None:
        self._heard.pop(origin, None)

    def tell(self, origin: str, mark: Mark, since: int) -> Advertisements:
        mine = tuple(self._local.advertisements.values())
        return Advertisements(
            origin, mark.incarnation, mark.of(self.topic), mine if origin == self.broker else self._heard[origin]
        )

    def of(self, origin: str) -> tuple[Advertisement, ...]:
        """What the clients of this broker advertise."""
        return tuple(self._local.advertisements.values()) if origin == self.broker else self._heard.get(origin, ())

    def brokers(self) -> list[str]:
        """Those whose clients advertise anything."""
        return sorted(each for each in {*self._heard, self.broker} if self.of(each))

    def sizes(self) -> dict[str, int]:
        return {"advertisements": sum(len(self.of(each)) for each in self.brokers())}

    def state(self) -> dict[str, Any]:
        return {"advertisements": {each: [told.id for told in self.of(each)] for each in self.brokers()}}
