"""The summary of one broker or of many: subscriptions come and go, brokers are merged, events are matched.

Source: Triantafillou & Economides 2004, sections 3 and 4.1. Departs from it in maintenance, which the paper leaves out: a
broker's own subscriptions are kept as exact columns, and what others get to see follows from them by `Precision` and
subsumption. A row that was widened for a subscription is narrow again once that has gone.

    mine = Summary(trades)                        theirs = Summary(trades, precision=Precision(rows=8))
    mine.add("A", ids, table)                     theirs.add("B", ids, table)
    mine.merge(theirs)                            mine.match(events).brokers

Rule: a summary may say yes wrongly, never no wrongly: the broker that owns a subscription tests exactly. What has changed is
worked out when it is asked for, only for the brokers and attributes that it touches.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from contentcast.matching.summaries.build import build
from contentcast.matching.summaries.columns import NONE, Columns, Ints, Rows, with_rows
from contentcast.matching.summaries.delta import Delta, difference, patch
from contentcast.matching.summaries.describe import describe
from contentcast.matching.summaries.matcher import Matcher
from contentcast.matching.summaries.precision import EXACT, Precision, coarser
from contentcast.matching.summaries.sizes import Sizes, sizes_of
from contentcast.matching.summaries.subsume import uncovered
from contentcast.model.errors import ContentcastError
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.space import Space

KEPT_VERSIONS: Final = 8
"""Of each broker so many versions are kept, to tell the difference since any of them."""


class Matches(NamedTuple):
    """Event row `events[i]` may match subscription `ids[i]` of `names[brokers[i]]`; by event, broker name and id."""

    events: Ints
    brokers: Ints
    ids: Ints
    names: tuple[str, ...]


class BrokerMatches(NamedTuple):
    """Event row `events[i]` may concern broker `names[brokers[i]]`; each pair once."""

    events: Ints
    brokers: Ints
    names: tuple[str, ...]


@dataclass(slots=True)
class _Owned:
    """The subscriptions of a broker that this summary is kept for."""

    exact: Columns
    version: int
    waiting: list[Columns] = field(default_factory=list)
    leaving: Ints = field(default_factory=lambda: NONE)
    """Subscriptions of `exact` that have gone; those of `waiting` are taken out at once."""
    ids: set[int] = field(default_factory=set)
    coarse_from: Mapping[str, Rows] = field(default_factory=dict)
    coarse: Mapping[str, Rows] = field(default_factory=dict)


class Summary:
    """Of one space. `precision` and `subsumption` are those of the brokers whose subscriptions are added here."""

    def __init__(
        self, space: Space, *, precision: Precision = EXACT, subsumption: bool = False, first_version: int = 0
    ) -> None:
        self.space, self.precision, self.subsumption = space, precision, subsumption
        self._first_version = first_version
        self._owned: dict[str, _Owned] = {}
        self._parts: dict[str, Columns] = {}
        self._history: dict[str, OrderedDict[int, Columns]] = {}
        self._stale: set[str] = set()
        self._joined: Columns | None = None
        self._matcher: Matcher | None = None

    # --- subscriptions that come and go

    def add(self, broker: str, ids: Iterable[int] | Ints, table: PredicateTable) -> None:
        """Subscription `ids[i]` of this broker asks for `table[i]`."""
        numbers = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids), np.int64)
        if len(numbers) != len(table):
            raise ContentcastError(f"{len(numbers)} ids for {len(table)} predicates")
        if table.space.name != self.space.name:
            raise ContentcastError(f"a summary of {self.space.name} has no place for subscriptions of {table.space.name}")
        strange = [name for name, each in table.columns.items() if self.space.kinds.get(name) is not each.kind]
        if strange:
            raise ContentcastError(
                f"this summary does not know the attribute {strange[0]}; let it `grow` to {table.space!r} first"
            )
        if table.refused:
            raise next(iter(table.refused.values()))
        owned = self._own(broker)
        new = set(numbers.tolist())
        if len(new) != len(numbers):
            raise ContentcastError("a subscription stands twice among those to add; give each id once")
        if not owned.ids.isdisjoint(new):
            there = min(owned.ids & new)
            raise ContentcastError(
                f"subscription {there} of {broker} is already there; use `change` to give it another predicate"
            )
        owned.ids |= new
        owned.waiting.append(build(broker, numbers, table))
        self._touch(broker)

    def remove(self, broker: str, ids: Iterable[int] | Ints) -> None:
        owned = self._own(broker)
        gone = {int(each) for each in ids}
        if not gone <= owned.ids:
            raise ContentcastError(f"{broker} has no subscription {min(gone - owned.ids)} to remove")
        owned.ids -= gone
        leaving = np.array(sorted(gone), np.int64)
        owned.waiting = [each.selected(~np.isin(each.ids, leaving)) for each in owned.waiting]
        owned.leaving = np.concatenate([owned.leaving, leaving])
        self._touch(broker)

    def change(self, broker: str, ids: Iterable[int] | Ints, table: PredicateTable) -> None:
        """Subscriptions that are there ask for something else from now on."""
        numbers = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids), np.int64)
        self.remove(broker, numbers)
        self.add(broker, numbers, table)

    def _own(self, broker: str) -> _Owned:
        if broker not in self._owned:
            if broker in self._parts:
                raise ContentcastError(f"{broker} keeps its own summary, and this is a copy; `forget` it first")
            self._owned[broker] = _Owned(Columns.empty(self.space.name, broker), self._first_version)
        return self._owned[broker]

    def _touch(self, broker: str) -> None:
        self._owned[broker].version += 1
        self._stale.add(broker)
        self._joined = self._matcher = None

    @staticmethod
    def _settle(owned: _Owned) -> None:
        """What has come and gone since, in one pass over the columns."""
        if owned.waiting or len(owned.leaving):
            owned.exact = owned.exact.merged(owned.waiting, leaving=owned.leaving)
            owned.waiting, owned.leaving = [], NONE

    # --- brokers that are merged

    @property
    def brokers(self) -> tuple[str, ...]:
        return tuple(sorted({*self._parts, *self._owned}))

    @property
    def versions(self) -> dict[str, int]:
        """What this summary has heard of each broker."""
        return {broker: self.part(broker).versions[0] for broker in self.brokers}

    def part(self, broker: str) -> Columns:
        """One broker's summary as others see it: a value that never changes."""
        if broker in self._stale:
            self._stale.discard(broker)
            self._keep(self._seen(broker))
        if broker not in self._parts:
            raise ContentcastError(f"nothing is known of {broker}; known are {', '.join(self.brokers) or 'no brokers'}")
        return self._parts[broker]

    def _seen(self, broker: str) -> Columns:
        """What follows from a broker's subscriptions by precision and subsumption."""
        owned = self._owned[broker]
        self._settle(owned)
        exact = owned.exact
        if self.subsumption:
            exact = exact.selected(uncovered(exact, self.space))
        rows = {}
        for name, each in exact.rows.items():
            same = owned.coarse_from.get(name) == each
            rows[name] = owned.coarse[name] if same else coarser(each, self.precision, self.space[name])
        owned.coarse_from, owned.coarse = exact.rows, rows
        return replace(with_rows(exact, rows.items()), versions=(owned.version,))

    def _keep(self, part: Columns) -> None:
        broker = part.brokers[0]
        self._parts[broker] = part
        history = self._history.setdefault(broker, OrderedDict())
        history[part.versions[0]] = part
        while len(history) > KEPT_VERSIONS:
            history.popitem(last=False)
        self._joined = self._matcher = None

    def merge(self, other: Summary | Columns) -> list[str]:
        """Takes the newer summary of each broker that is not kept here; the names of those that were news."""
        news = []
        parts = other.columns().parts() if isinstance(other, Summary) else other.parts()
        for part in parts:
            broker, version = part.brokers[0], part.versions[0]
            if part.space != self.space.name:
                raise ContentcastError(f"a summary of {part.space} cannot be merged into one of {self.space.name}")
            known = self._parts.get(broker)
            if broker in self._owned or (known is not None and known.versions[0] >= version):
                continue
            self._admit(part)
            self._keep(part)
            news.append(broker)
        return news

    def _admit(self, part: Columns, space: Space | None = None) -> None:
        """Refuses a part in which an attribute has another kind than in the space, or at another broker."""
        kinds = {name: rows.kind for each in self._parts.values() if each is not part for name, rows in each.rows.items()}
        kinds.update((space or self.space).kinds)
        for name, rows in part.rows.items():
            if kinds.get(name, rows.kind) is not rows.kind:
                raise ContentcastError(
                    f"{part.brokers[0]} has {name} as {rows.kind.article}, and here it is {kinds[name].article}; "
                    "declare it alike, and until then take it that this broker wants everything"
                )

    def forget(self, broker: str) -> None:
        """A broker that has left, or that begins anew with version 1."""
        self._parts.pop(broker, None)
        self._owned.pop(broker, None)
        self._history.pop(broker, None)
        self._stale.discard(broker)
        self._joined = self._matcher = None

    def columns(self) -> Columns:
        """All brokers together, as one value."""
        if self._joined is None:
            parts = [self.part(broker) for broker in self.brokers]
            self._joined = replace(Columns.joined(parts), space=self.space.name)
        return self._joined

    # --- differences

    def delta(self, broker: str, since: int = 0) -> Delta:
        """What has changed since that version; the whole when it is too long ago, or 0."""
        new = self.part(broker)
        old = self._history[broker].get(since)
        return difference(Columns.empty(new.space, broker) if old is None else old, new)

    def deltas(self, heard: Mapping[str, int]) -> list[Delta]:
        """What somebody who has heard these versions does not know yet."""
        versions = self.versions
        return [self.delta(broker, heard.get(broker, 0)) for broker in versions if versions[broker] > heard.get(broker, 0)]

    def apply(self, delta: Delta) -> bool:
        """Takes a broker's difference; False when it is no news. Refused when the version it leads from is not here."""
        known = self._parts.get(delta.broker)
        if delta.broker in self._owned or (known is not None and known.versions[0] >= delta.version):
            return False
        if delta.space != self.space.name:
            raise ContentcastError(f"a summary of {delta.space} cannot be merged into one of {self.space.name}")
        old = Columns.empty(delta.space, delta.broker) if delta.is_whole else known
        if old is None:
            raise ContentcastError(f"nothing is known of {delta.broker}; ask for its whole summary (a difference since 0)")
        part = patch(old, delta)
        self._admit(part)
        self._keep(part)
        return True

    # --- a schema that changes

    def grow(self, space: Space) -> None:
        """The space has gained attributes (c3 grows); those it had stay as they were.

        Summaries of before and after understand each other: columns go by name. An attribute that a summary's space does not
        have is not counted in c3, so that it says yes where it cannot know.
        """
        before = [(name, kind.name) for name, kind in self.space.kinds.items()]
        after = [(name, kind.name) for name, kind in space.kinds.items()]
        if space.name != self.space.name or after[: len(before)] != before:
            raise ContentcastError(f"{space!r} does not begin with the attributes of {self.space!r}; add new ones at the end")
        for part in self._parts.values():
            self._admit(part, space)
        self.space = space
        self._matcher = None

    # --- asking

    def matcher(self) -> Matcher:
        if self._matcher is None:
            self._matcher = Matcher(self.columns(), self.space)
        return self._matcher

    def match(self, events: EventBatch) -> Matches:
        """Algorithm 1: which subscriptions each event may match."""
        matcher = self.matcher()
        found = matcher.subscriptions(events)
        brokers, ids = matcher.subscription_brokers[found.numbers], matcher.subscription_ids[found.numbers]
        return Matches(found.events, brokers, ids, self.columns().brokers)

    def match_brokers(self, events: EventBatch) -> BrokerMatches:
        """The same, when only the brokers matter."""
        found = self.matcher().brokers(events)
        return BrokerMatches(found.events, found.numbers.astype(np.int64), self.columns().brokers)

    def sizes(self) -> Sizes:
        return sizes_of(self.columns(), len(self.space))

    def describe(self) -> str:
        said = f"{self.precision}{', without what is covered' if self.subsumption else ''}"
        return describe(self.columns(), said)

    def __len__(self) -> int:
        """Entries of all brokers."""
        return len(self.columns())
