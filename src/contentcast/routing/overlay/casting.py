"""How messages find the nodes that cover their keys: m-cast over fingers, and nodes that are not sure of what they hold.

Source: Baldoni et al. 2005, section 4.3.1 (m-cast).

    n8 casts to keys 9..31     what n8 covers stays here, the rest goes in one `Cast` to each finger that it is nearest to
    n9 has just joined         it stands on the ring, and its successor has the subscriptions of its arc: events go there too

Departs from the paper in one point: a node that has just joined hands events to its successor until it holds the subscriptions
of its arc.
Rule: what is for this node comes back to the caller, what is for others is sent; no key is in both.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from contentcast.routing.chord.keys import key_of
from contentcast.routing.chord.mcast import Targets, split
from contentcast.routing.chord.node import MOST_HOPS, ChordNode
from contentcast.routing.contract import Effect
from contentcast.routing.overlay.copying import Copying
from contentcast.routing.overlay.post import Post
from contentcast.wire import Message, Publish
from contentcast.wire.overlay import Cast, Stored

PASSED_BY_JOINERS: Final = 8
"""So many nodes that have just joined may stand one behind the other; the next one has the subscriptions of all of them."""


class Casting:
    def __init__(self, chord: ChordNode, copying: Copying, post: Post) -> None:
        self.chord, self.copying, self.post, self.bits = chord, copying, post, chord.bits

    def cast(
        self, message: Message, targets: Targets, now: float, hops: int = 0, background: bool = False
    ) -> tuple[Targets, list[Effect]]:
        """m-cast: what is for keys of this node, and what goes on."""
        here, onward = split(self.chord.member, self.chord.fingers(now), targets, self.bits)
        effects: list[Effect] = []
        for peer, part in onward:
            rows, again = np.unique(part.rows, return_inverse=True)
            first = peer == self.chord.member.successor
            cast = Cast(
                part.lows, part.highs, again.astype(np.int64), hops + 1, background, first, False, _taken(message, rows)
            )
            effects += self.post.send(peer.name, cast, now, background)
        return here, effects

    def passed(self, sender: str, cast: Cast, now: float) -> tuple[Targets, int, list[Effect]]:
        """Of a cast that has come: what is for this node, how many nodes behind its own it is, and what goes on."""
        assert cast.message is not None
        targets = Targets(cast.lows, cast.highs, cast.rows)
        if cast.direct or cast.hops >= MOST_HOPS:
            return targets, cast.hops, []
        before = key_of(sender, self.bits)
        if not cast.first or before == self.chord.me.key:
            here, effects = self.cast(cast.message, targets, now, cast.hops, cast.background)
            return here, 0, effects
        # Its sender has this node for its first successor. Whatever this node thinks of its predecessor, keys between are its
        # own; else a key could go round for ever while the ring is repaired.
        mine = targets.on((before, self.chord.me.key), self.bits)
        rest = targets.on((self.chord.me.key, before), self.bits)
        here, effects = self.cast(cast.message, rest, now, cast.hops, cast.background)
        return Targets(*(np.concatenate(each) for each in zip(mine, here, strict=True))), 0, effects

    def unsure(self, publish: Publish, targets: Targets, now: float, passed: int) -> list[Effect]:
        """Events for keys whose subscriptions this node may lack go to the nodes behind it, which hold copies."""
        arc = self.copying.sure_arc()
        if not passed and arc is not None:
            if arc[0] == arc[1]:
                return []  # the whole ring
            targets = targets.on((arc[1], arc[0]), self.bits)
        most = self.copying.count if self.copying.ready else PASSED_BY_JOINERS
        behind = self.copying.holders()
        if not len(targets) or passed >= most or not behind:
            return []
        rows = np.unique(targets.rows)
        again = np.searchsorted(rows, targets.rows)
        cast = Cast(targets.lows, targets.highs, again, passed + 1, False, False, True, publish.take(rows))
        return self.post.send(behind[0].name, cast, now)


def _taken(message: Message, rows: Any) -> Message:
    if isinstance(message, Publish):
        return message if len(rows) == len(message.events) else message.take(rows)
    assert isinstance(message, Stored)
    return message if len(rows) == len(message) else message.take(rows)
