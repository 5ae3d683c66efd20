"""Everybody's subscriptions, as far as heard: what a broker needs that decides for others.

Source: Banavar et al. 1999, section 2: "changes to the subscription set are batched and periodically propagated to all
brokers". Topic `interests`: a version is how the subscriptions of one broker's clients have changed since the version before.

    a: Subscribed          in a's own audience at once; timer `propagate`
    a: TimerFired          Interest(a, since 4, version 5) to b
    b: Received            b's audience has it, b tells it on

Rule: what this broker's own clients changed counts here at once, and for all others when it was told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.model import EventBatch, Space, SubscriptionBatch
from contentcast.routing.audience import Audience, Change
from contentcast.routing.audience.audiences import Audiences
from contentcast.routing.audience.members import stamps
from contentcast.routing.audience.pairs import first_of_each
from contentcast.routing.contract import Effect, Input, SetTimer, Timer, TimerFired
from contentcast.routing.parts.local import Local
from contentcast.routing.parts.spaces import SpaceRegister
from contentcast.routing.parts.versions import Versions
from contentcast.routing.setup import Setup
from contentcast.wire import Interest, Mark

Ints = npt.NDArray[np.int64]

PROPAGATE: Final = Timer("propagate")
KEPT_CHANGES: Final = 64
"""Changes of a broker's subscriptions kept apart, to send only those that a neighbour lacks; older ones are one batch."""


@dataclass(slots=True)
class Record:
    """The subscriptions of one broker: batches, each with the version in which it came."""

    version: int = 0
    blocks: list[tuple[int, SubscriptionBatch]] = field(default_factory=list)
    gone: deque[tuple[int, tuple[int, ...]]] = field(default_factory=deque)
    """(version, ids) of the last removals; what was removed up to version `forgotten` is no longer listed."""
    forgotten: int = 0

    def apply(self, version: int, added: tuple[SubscriptionBatch, ...], removed: tuple[int, ...]) -> None:
        if removed:
            ids = np.array(removed, np.int64)
            self.blocks = [(at, kept) for at, each in self.blocks if len(kept := each.without(ids))]
            self.gone.append((version, removed))
        self.blocks += [(version, batch) for batch in added if len(batch)]
        if len(self.blocks) > KEPT_CHANGES:
            self._compact(version)
        if len(self.gone) > KEPT_CHANGES:
            self.forgotten = self.gone.popleft()[0]
        self.version = version

    def _compact(self, version: int) -> None:
        spaces: dict[Space, list[SubscriptionBatch]] = {}
        for _, batch in self.blocks:
            spaces.setdefault(batch.space, []).append(batch)
        self.blocks = [(version, SubscriptionBatch.concat(batches)) for batches in spaces.values()]
        self.forgotten = version

    def since(self, origin: str, incarnation: int, since: int) -> Interest:
        """What somebody lacks who has heard up to version `since`."""
        if since < self.forgotten or since > self.version:
            since = 0
        added = tuple(batch for version, batch in self.blocks if version > since)
        removed = tuple(each for version, ids in self.gone if version > since for each in ids) if since else ()
        return Interest(origin, incarnation, since, self.version, added, removed)


class Interests:
    """Takes the place of `Local` as a part: it hands clients' inputs down to it and tells the others.

    `in_trees`: the audiences stand in search trees, even where steps are not counted.
    """

    topic = Interest.topic

    def __init__(
        self, broker: str, setup: Setup, versions: Versions, spaces: SpaceRegister, local: Local, *, in_trees: bool = False
    ) -> None:
        self.broker = broker
        self.local = local
        self._setup = setup
        self._versions = versions
        self._records: dict[str, Record] = {broker: Record()}
        self._unsent: list[Change] = []
        empty = partial(setup.forest.empty, count_steps=setup.count_steps or in_trees)
        self._audiences = Audiences(spaces, empty, self._grow, self._everything)
        versions.take(self)

    def handle(self, input: Input, now: float) -> list[Effect]:
        if isinstance(input, TimerFired):
            return self._propagate() if input.timer == PROPAGATE else []
        change = self.local.change(input)
        if change is None:
            return []
        self._audiences.note(change)
        waiting = bool(self._unsent)
        self._unsent.append(change)
        return [] if waiting else [SetTimer(PROPAGATE, now + self._setup.propagate_after_s)]

    def _propagate(self) -> list[Effect]:
        """Everything since the last time as one version. What came and went again in between is told to nobody."""
        changes, self._unsent = self._unsent, []
        if not changes:
            return []
        added: list[SubscriptionBatch] = []
        removed: dict[int, None] = {}
        for change in changes:
            if change.removed:
                ids = np.array(change.removed, np.int64)
                added = [kept for each in added if len(kept := each.without(ids))]
                removed.update(dict.fromkeys(change.removed))
            if change.added is not None:
                added.append(change.added)
        version = self._versions.next(self.topic)
        self._records[self.broker].apply(version, tuple(added), tuple(removed))
        incarnation = self._versions.incarnation
        return self._versions.tell(Interest(self.broker, incarnation, version - 1, version, tuple(added), tuple(removed)))

    # --- the topic

    def hear(self, told: Interest) -> None:
        record = self._records.setdefault(told.origin, Record())
        if told.since == 0:
            self.forget(told.origin)
            record = self._records[told.origin]
            removed: tuple[int, ...] = ()
        else:
            # What is told may overlap with what was heard: coming again is coming anew.
            again = [each for batch in told.added for each in batch.ids.tolist()] if told.since < record.version else []
            removed = tuple(dict.fromkeys((*told.removed, *again)))
        record.apply(told.version, told.added, removed)
        if told.since == 0:
            record.forgotten = told.version
        if removed:
            self._audiences.note(Change(told.origin, removed, None))
        for batch in told.added:
            self._audiences.note(Change(told.origin, (), batch))

    def forget(self, origin: str) -> None:
        record = self._records.get(origin)
        if record is not None and record.blocks:
            self._audiences.note(Change(origin, None, None))
        self._records[origin] = Record()

    def tell(self, origin: str, mark: Mark, since: int) -> Interest:
        return self._records[origin].since(origin, mark.incarnation, since)

    # --- what follows from it

    def audience(self, space: Space) -> Audience:
        """Everybody who wants something of this space, as far as heard."""
        return self._audiences.of(space)

    def everything(self) -> Iterator[SubscriptionBatch]:
        """Everybody's subscriptions, as far as heard."""
        return (batch for _, batch in self._everything())

    def wanted(self, events: EventBatch) -> list[tuple[str, Ints]]:
        """The brokers whose clients want some of these events, and for each of them which rows."""
        audience = self.audience(events.space)
        found = audience.match(events)
        events_found, places = first_of_each(
            found, np.where(audience.living, audience.origin, -1), stamps(len(audience.origins))
        )
        owners = audience.origin[found.rows[places]]
        return [(audience.origins[each], events_found[owners == each]) for each in np.unique(owners).tolist()]

    def _grow(self, space: Space, before: Audience, changes: Sequence[Change]) -> Audience:
        heard = tuple(
            (origin, self._versions.mark(origin).incarnation, record.version)
            for origin, record in sorted(self._records.items())
            if record.version
        )
        # What this broker's own clients changed and the others do not know yet is in no version: nobody shares it.
        mine = (self.broker, self._versions.incarnation, self._records[self.broker].version, len(self._unsent))
        return self._setup.forest.audience((space, heard, mine if self._unsent else None), before, changes)

    def _everything(self) -> Iterator[tuple[str, SubscriptionBatch]]:
        for origin, record in sorted(self._records.items()):
            if origin != self.broker:
                yield from ((origin, batch) for _, batch in record.blocks)
        yield from ((self.broker, batch) for batch in self.local.batches())

    def sizes(self) -> dict[str, int]:
        return self._audiences.sizes()

    def state(self) -> dict[str, Any]:
        held = {
            origin: sorted(each for _, batch in record.blocks for each in batch.ids.tolist())
            for origin, record in sorted(self._records.items())
            if record.blocks
        }
        return {"subscriptions": held, **self.local.state()}
