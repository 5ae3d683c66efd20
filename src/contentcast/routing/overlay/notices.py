"""Notifications on their way to subscribers: at once, buffered for a while, or collected towards the middle of a range.

Source: Baldoni et al. 2005, section 4.3.2.

    at-once      each match goes to the subscriber's node by itself
    buffered     matches wait for a while and go in one message to each subscriber's node
    collected    the same, but first towards the node in the middle of the subscription's range of keys: every period each node
                 passes what it has to the neighbour that is nearer to the middle, and only the middle sends to the subscriber

Rule: what waits here is lost with its node, so whoever sent the event here keeps it until all has gone on (`post`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from contentcast.routing.chord.keys import between, distance
from contentcast.routing.chord.ring import Member
from contentcast.routing.overlay.post import Cause
from contentcast.wire import Publish
from contentcast.wire.overlay import Notices

WAYS: Final = ("at-once", "buffered", "collected")
BUFFER_S: Final = 1.0


class Notice(NamedTuple):
    """Events that were matched for a broker, and the key in the middle of the range by which they were."""

    broker: str
    middle: int
    publish: Publish
    causes: tuple[Cause, ...] = ()


class Flushed(NamedTuple):
    node: str
    message: Notices
    causes: tuple[Cause, ...]


class Buffer:
    def __init__(self, collected: bool) -> None:
        self._collected = collected
        self._waiting: list[Notice] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, notice: Notice) -> None:
        self._waiting.append(notice)

    def flush(self, member: Member) -> list[Flushed]:
        """One message for each node that something goes to."""
        by_node: dict[str, list[Notice]] = {}
        for notice in self._waiting:
            by_node.setdefault(self._towards(member, notice), []).append(notice)
        self._waiting.clear()
        return [
            Flushed(node, _message(notices), tuple(cause for each in notices for cause in each.causes))
            for node, notices in sorted(by_node.items())
        ]

    def _towards(self, member: Member, notice: Notice) -> str:
        if not self._collected or not member.successors or between(notice.middle, *member.arc):
            return notice.broker
        ahead = distance(member.me.key, notice.middle)
        behind = distance(notice.middle, member.me.key)
        return member.successor.name if ahead <= behind else member.predecessor.name


def _message(notices: Sequence[Notice]) -> Notices:
    middles = np.array([each.middle for each in notices], np.uint64)
    return Notices(tuple(each.broker for each in notices), middles, tuple(each.publish for each in notices))
