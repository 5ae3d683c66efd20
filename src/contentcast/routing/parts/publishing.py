"""How events enter the network: numbered by the broker they enter at, once in each space that they are declared to become.

Source: Banavar et al. 1999, section 6, announces stateless transforms between information spaces. An event is transformed where
it enters, so that all spaces travel alike and each derived event exists once.
"""

from __future__ import annotations

from contentcast.model import EventBatch
from contentcast.routing.parts.seen import Seen
from contentcast.routing.setup import Setup
from contentcast.wire import Publish


class Publishing:
    def __init__(self, broker: str, setup: Setup) -> None:
        self._broker = broker
        self._incarnation = setup.incarnation
        self._transforms = setup.transforms
        self._serial = 0
        self._seen = Seen()

    def publish(self, events: EventBatch) -> list[Publish]:
        """What clients of this broker published, ready to be routed: the events, then what they become in other spaces."""
        batches = [events] if self._transforms is None else [events, *self._transforms.derive(events)]
        found = []
        for batch in batches:
            if len(batch):
                self._serial += 1
                found.append(Publish(self._broker, self._incarnation, self._serial, batch))
                self._seen.fresh(found[-1])
        return found

    def fresh(self, publish: Publish) -> Publish | None:
        """What of a message that came was not here before; None if nothing."""
        return self._seen.fresh(publish)
