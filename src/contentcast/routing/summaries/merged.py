"""What a broker has heard of another's subscriptions: its summary of each space, and how to tell what is new in it.

    Held(incarnation 1)    trades: versions 3, 5, 9        `delta(trades, 5)` leads from 5 to 9, `delta(trades, 4)` is the whole

Rule: columns are values. A version is made by the broker that owns the subscriptions; equal versions are equal contents.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from contentcast.matching.summaries import Columns, Delta, difference, patch
from contentcast.matching.summaries.matcher import Matcher
from contentcast.model import EventBatch, Space
from contentcast.model.errors import ContentcastError
from contentcast.model.values.kinds import Kind
from contentcast.routing.contract import Ints

KEPT_VERSIONS: Final = 8
"""Of each summary so many versions are kept, to tell the difference since any of them."""


class Held:
    """The summaries of one broker in one of its lives."""

    def __init__(self, broker: str, incarnation: int) -> None:
        self.broker = broker
        self.incarnation = incarnation
        self._kept: dict[str, OrderedDict[int, Columns]] = {}

    @property
    def versions(self) -> dict[str, int]:
        return {space: next(reversed(kept)) for space, kept in self._kept.items()}

    def version(self, space: str) -> int:
        kept = self._kept.get(space)
        return next(reversed(kept)) if kept else 0

    def part(self, space: str) -> Columns | None:
        kept = self._kept.get(space)
        return kept[next(reversed(kept))] if kept else None

    def parts(self) -> dict[str, Columns]:
        return {space: kept[next(reversed(kept))] for space, kept in sorted(self._kept.items())}

    def take(self, part: Columns) -> bool:
        """Keeps a newer version; False when it is no news."""
        before = self.part(part.space)
        if before is not None and part.versions[0] <= before.versions[0]:
            return False
        kept = self._kept.setdefault(part.space, OrderedDict())
        kept[part.versions[0]] = part
        while len(kept) > KEPT_VERSIONS:
            kept.popitem(last=False)
        return True

    def apply(self, delta: Delta) -> bool:
        """Takes a difference; False when the version that it leads from is not here."""
        if delta.version <= self.version(delta.space):
            return True
        before = Columns.empty(delta.space, self.broker) if delta.is_whole else self.part(delta.space)
        try:
            return before is not None and self.take(patch(before, delta))
        except ContentcastError:
            return False

    def delta(self, space: str, since: int) -> Delta | None:
        """What has changed since that version; None if that is too long ago."""
        kept = self._kept[space]
        return difference(kept[since], kept[next(reversed(kept))]) if since in kept else None


def split_by_kinds(parts: Iterable[Columns], kinds: Mapping[str, Kind] | None = None) -> tuple[list[Columns], list[Columns]]:
    """Those that can be joined, and those with an attribute of another kind than in `kinds` or in one of the first."""
    known = dict(kinds or {})
    alike, others = [], []
    for part in parts:
        mine = {name: rows.kind for name, rows in part.rows.items()}
        if any(known.get(name, kind) is not kind for name, kind in mine.items()):
            others.append(part)
        else:
            known.update(mine)
            alike.append(part)
    return alike, others


class Examination:
    """The merged summary of some brokers, for events of one space: Algorithm 1 by columns."""

    def __init__(self, space: Space, parts: Iterable[Columns]) -> None:
        alike, others = split_by_kinds(parts, space.kinds)
        self.everything = [each.brokers[0] for each in others]
        """Brokers that have an attribute with another kind than the events: taken to want everything."""
        self.columns = Columns.joined([each for each in alike if len(each)])
        self._matcher = Matcher(self.columns, space) if len(self.columns) else None

    def owners(self, events: EventBatch) -> tuple[list[tuple[str, Ints]], Ints]:
        """The brokers that may want some of these events, each with the rows, and the steps that each event took.

        A step is an attribute of the summary that is looked up, or a broker that is found.
        """
        every = np.arange(len(events))
        found: list[tuple[str, Ints]] = [(broker, every) for broker in self.everything]
        steps = np.zeros(len(events), np.int64)
        if self._matcher is not None:
            pairs = self._matcher.brokers(events)
            steps += len(self._matcher.names) + np.diff(pairs.offsets)
            order = np.argsort(pairs.numbers, kind="stable")
            numbers, rows = pairs.numbers[order], pairs.events[order]
            ends = np.searchsorted(numbers, np.arange(len(self.columns.brokers) + 1))
            for at, broker in enumerate(self.columns.brokers):
                if ends[at] < ends[at + 1]:
                    found.append((broker, rows[ends[at] : ends[at + 1]]))
        return found, steps
