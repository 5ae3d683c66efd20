"""Every message that brokers send each other, on one page.

    Publish      events, from the broker where they were published outwards
    Interest     what the clients of one broker want now, or how that has changed
    Neighbours   which links one broker has now
    Known        how much of both the sender has heard of each broker; the answer is what it lacks
    Frame        one of these on a link that may lose, repeat and reorder, or only an acknowledgement

A broker that starts again has forgotten what it told before, so what it tells is numbered within its *incarnation*.
Rule: messages are values. Who receives one may keep it and may send it on, and nobody changes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.model import EventBatch, SubscriptionBatch

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Publish:
    """Events that entered the network at `origin`, as its batch number `serial` (of which these may be a part).

    `destinations`, where a protocol lists them, has one list for each event: ids of subscriptions, or names of brokers.
    """

    origin: str
    incarnation: int
    serial: int
    events: EventBatch
    destinations: pa.ListArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Interest:
    """Takes what is known of `origin` from version `since` to `version`: `removed` goes, then `added` comes.

    From version 0 it is the whole: what was known before is dropped.
    """

    origin: str
    incarnation: int
    since: int
    version: int
    added: tuple[SubscriptionBatch, ...] = ()
    removed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The links of `origin` in this version: neighbour and one-way delay in seconds. A link is there if both ends say so."""

    origin: str
    incarnation: int
    version: int
    links: tuple[tuple[str, float], ...]


class Mark(NamedTuple):
    """How far somebody has heard of a broker."""

    incarnation: int
    interest: int
    neighbours: int


@dataclass(frozen=True, slots=True)
class Known:
    marks: dict[str, Mark]


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Message `number` of a session, from 1; everything of the other side's session `of` up to `acknowledged` has arrived."""

    session: int
    number: int
    of: int
    acknowledged: int
    message: Message | None = None


Message: TypeAlias = Publish | Interest | Neighbours | Known | Frame
