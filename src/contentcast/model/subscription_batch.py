"""Subscriptions of one space at one broker, by columns: the form in which they travel from broker to broker.

    ids          [7, 9]
    table        price < 120, issue = 'SAP'
    subscribers  ('desk-7', 'desk-1')

Rule: a batch is never changed after it was made, so brokers of one process may share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contentcast.model.errors import ContentcastError
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.space import Space
from contentcast.model.subscription import Subscription

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SubscriptionBatch:
    """`ids[i]` asks for `table[i]` on behalf of `subscribers[i]`; ids ascend."""

    ids: Ints
    table: PredicateTable
    subscribers: tuple[str, ...]

    @classmethod
    def of(cls, subscriptions: Subscription | Iterable[Subscription]) -> SubscriptionBatch:
        """Subscriptions of one space; their brokers are left out, a batch is of whoever sends it."""
        chosen = sorted([subscriptions] if isinstance(subscriptions, Subscription) else subscriptions, key=lambda each: each.id)
        if len({each.space for each in chosen}) != 1:
            raise ContentcastError("a batch of subscriptions needs at least one, and all of one space")
        table = PredicateTable.of(chosen[0].space, [each.predicate for each in chosen])
        return cls.columns([each.id for each in chosen], table, [each.subscriber for each in chosen])

    @classmethod
    def columns(cls, ids: Sequence[int] | Ints, table: PredicateTable, subscribers: Sequence[str]) -> SubscriptionBatch:
        """Ids, predicates and subscribers of equal length; put in the order of the ids."""
        numbers = np.asarray(ids, np.int64)
        if not len(numbers) == len(table) == len(subscribers):
            raise ContentcastError(f"{len(numbers)} ids for {len(table)} predicates of {len(subscribers)} subscribers")
        if table.refused:
            raise next(iter(table.refused.values()))
        if len(numbers) > 1 and not (numbers[1:] > numbers[:-1]).all():
            order = np.argsort(numbers, kind="stable")
            numbers = numbers[order]
            if (numbers[1:] == numbers[:-1]).any():
                raise ContentcastError(f"subscription {numbers[1:][numbers[1:] == numbers[:-1]][0]} stands twice in the batch")
            table = table.reordered(order)
            subscribers = [subscribers[at] for at in order.tolist()]
        return cls(numbers, table, tuple(subscribers))

    @classmethod
    def concat(cls, batches: Sequence[SubscriptionBatch]) -> SubscriptionBatch:
        if len(batches) == 1:
            return batches[0]
        table = PredicateTable.concat([each.table for each in batches])
        ids = np.concatenate([each.ids for each in batches])
        return cls.columns(ids, table, [name for each in batches for name in each.subscribers])

    @property
    def space(self) -> Space:
        return self.table.space

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Subscription]:
        for number, predicate, subscriber in zip(self.ids.tolist(), self.table, self.subscribers, strict=True):
            yield Subscription(number, predicate, subscriber)

    def take(self, rows: Ints) -> SubscriptionBatch:
        """The subscriptions of these rows, ascending and each once."""
        chosen = tuple(self.subscribers[at] for at in rows.tolist())
        return SubscriptionBatch(self.ids[rows], self.table.take(rows), chosen)

    def widened(self, space: Space) -> SubscriptionBatch:
        """The same in a space that has gained attributes, of which they ask nothing."""
        return self if space is self.space else SubscriptionBatch(self.ids, self.table.widened(space), self.subscribers)

    def without(self, ids: Ints) -> SubscriptionBatch:
        kept = np.flatnonzero(~np.isin(self.ids, ids))
        return self if len(kept) == len(self.ids) else self.take(kept)
