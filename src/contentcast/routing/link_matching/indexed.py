"""Link matching by the index: the links behind which somebody wants an event are those of all whom it satisfies.

Source: none; the paper searches its tree only as far as it takes to know the links (`annotated`). The index finds everybody
who wants the event, which is more than is asked, and is still about twice as fast (docs/internals/decisions/0010). The links
of a subscription are a row of bits, as in the tree's annotation; those of an event are the rows of all it satisfies, OR-ed.

    row      0     1     2                event satisfies 0 and 2:    011 | 100 = 111
    words    011   010   100

The clients of this broker are among those found, so they are served without matching a second time.
Rule: a row that is gone has no bit; one of a client here has no bit but a number in `who`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from contentcast.model import EventBatch
from contentcast.network.topology import Topology
from contentcast.routing.audience import Audience
from contentcast.routing.audience.pairs import Onward, clients_and_links
from contentcast.routing.contract import Deliver, Effect
from contentcast.routing.link_matching.masks import VirtualLinks, Words, link_words
from contentcast.routing.link_matching.starts import Ints, Start


@dataclass(slots=True)
class Indexed:
    audience: Audience
    links: VirtualLinks
    words: Words
    who: Ints
    """For each row the number of its subscriber if that is a client of this broker, else -1."""
    starts: dict[str, Start] = field(default_factory=dict)

    @classmethod
    def of(cls, audience: Audience, topology: Topology, broker: str, before: Indexed | None = None) -> Indexed:
        same_network = before is not None and before.links.topology == topology
        links = before.links if before is not None and same_network else VirtualLinks.at(topology, broker)
        starts = before.starts if before is not None and same_network else {}
        words = link_words(links, audience.origins)[audience.origin]
        words[~audience.living] = 0
        here = audience.origins.index(broker) if broker in audience.origins else -1
        who = np.where(audience.origin == here, audience.who, -1)
        return cls(audience, links, words, who, starts)

    def start(self, publisher: str) -> Start | None:
        """None: this network has no such broker."""
        found = self.starts.get(publisher)
        if found is None and publisher in self.links.topology:
            found = self.starts[publisher] = Start.of(self.links, publisher)
        return found

    def ways(self, events: EventBatch, start: Start) -> tuple[list[Effect], Onward]:
        """What the clients here get, and the events for each neighbour."""
        found = self.audience.match(events)
        audience = self.audience
        rows, who, onward = clients_and_links(found, self.who, audience.last, self.words, start.masks, start.neighbours)
        return [Deliver(events, rows, who, audience.subscribers[0])] if len(rows) else [], onward
