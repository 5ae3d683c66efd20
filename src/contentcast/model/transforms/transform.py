"""Transforms between spaces: an event of one space becomes an event of another, statelessly.

Source: Banavar et al. 1999, section 6, announces transforms between information spaces; the form here (a projection with
expressions, and a predicate on the source) is ours. `Transform.apply` is the meaning, on one event; `Transform.derive` does
batches by columns and must agree.
Rules: a derived event keeps the id of its source, so between two spaces there is at most one way and no circle; (space, id)
stays one event. What cannot be an event of the target (an overflow, a value outside its domain) is set aside in `rejected`
with the reason, and the others go on; nothing raises while events travel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from contentcast.model.errors import ContentcastError, EventError, nearest
from contentcast.model.events.arrow_columns import check_column
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.events.rows import Rejection, outside
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.space import Space
from contentcast.model.transforms.expression import Expression, Unfit
from contentcast.model.transforms.expression_columns import accepted, compute
from contentcast.model.values.kinds import FLOAT, INT, Value

FEW_EVENTS: Final = 64
"""Up to so many are transformed one by one. Time of rows over that of columns, for a transform of three attributes with a
WHERE: 0.09 for one event, 0.4 for 32, 0.7 for 64, 1.3 for 128, 27 for 1000."""


class TransformsError(ContentcastError):
    """Transforms that cannot stand, alone or together; names them."""


@dataclass(frozen=True)
class Transform:
    """`assignments` are (target attribute, expression over the source), in the target's order; what is left out is absent."""

    name: str
    source: Space
    target: Space
    assignments: tuple[tuple[str, Expression], ...]
    where: Predicate | None = None
    text: str | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        name: str,
        source: Space,
        target: Space,
        assignments: Mapping[str, Expression],
        where: Predicate | None = None,
        text: str | None = None,
    ) -> Transform:
        """Checks that every value can be one of its attribute."""
        if source.name == target.name:
            raise TransformsError(f"transform {name}: an event of {source.name} is one of {source.name} already")
        if not assignments:
            raise TransformsError(f"transform {name} says nothing of {target.name}")
        for attribute, expression in assignments.items():
            if attribute not in target:
                raise TransformsError(
                    f"transform {name}: {target.name} has no attribute {attribute!r}{nearest(attribute, target.names)}"
                )
            if not fits(expression, target, attribute):
                assert expression.kind is not None
                wanted = target.kinds[attribute].article
                raise TransformsError(f"transform {name}: {attribute} is {wanted}, not {expression.kind.article}; cast it")
        ordered = sorted(assignments.items(), key=lambda item: target.position(item[0]))
        return cls(name, source, target, tuple(ordered), where, text)

    def apply(self, event: Mapping[str, Value]) -> dict[str, Value] | None:
        """The event of the target; None where the predicate does not hold; an `EventError` where it cannot be one."""
        if self.where is not None and not self.where.accepts(event):
            return None
        made = self._made(0, event)
        if isinstance(made, Rejection):
            raise EventError(f"attribute {made.attribute}: {made.reason}")
        return made

    def _made(self, number: int, event: Mapping[str, Value]) -> dict[str, Value] | Rejection:
        made: dict[str, Value] = {}
        for attribute, expression in self.assignments:
            value: Any = None
            try:
                value = expression.of(event)
                if value is None:
                    continue
                made[attribute] = self.target.kinds[attribute].check(value)
                if self.target[attribute].has_domain and made[attribute] not in self.target[attribute].domain:
                    raise Unfit(outside(self.target, attribute, value))
            except ValueError as reason:
                return Rejection(number, attribute, value, str(reason))
        return made

    def derive(self, batch: EventBatch) -> EventBatch:
        """The events of the target, with their sources' ids; a rejection names the row of `batch`."""
        if batch.space != self.source:
            raise TransformsError(f"transform {self.name} takes events of {self.source.name}, not of {batch.space.name}")
        return self.by_rows(batch) if len(batch) <= FEW_EVENTS else self.by_columns(batch)

    def by_rows(self, batch: EventBatch) -> EventBatch:
        """For a few events: each by itself."""
        kept: list[int] = []
        events: list[dict[str, Value]] = []
        set_aside: list[Rejection] = []
        for row, event in enumerate(batch.to_dicts()):
            if self.where is not None and not self.where.accepts(event):
                continue
            made = self._made(row, event)
            if isinstance(made, Rejection):
                set_aside.append(made)
            else:
                kept.append(row)
                events.append(made)
        columns = [pa.array([each.get(name) for each in events], kind.arrow) for name, kind in self.target.kinds.items()]
        records = pa.record_batch(columns, schema=self.target.arrow_schema)
        return EventBatch(self.target, records, batch.ids.take(pa.array(kept, pa.int64())), tuple(set_aside))

    def by_columns(self, batch: EventBatch) -> EventBatch:
        """For many: the same, a column at a time."""
        rows = np.arange(len(batch)) if self.where is None else np.flatnonzero(accepted(self.where, batch.records))
        chosen = batch if len(rows) == len(batch) else batch.take(rows)
        made = dict(self.assignments)
        columns: list[pa.Array] = []
        wrong = np.zeros(len(rows), dtype=np.bool_)
        for attribute, kind in self.target.kinds.items():
            if attribute not in made:
                columns.append(pa.nulls(len(rows), kind.arrow))
                continue
            computed = compute(made[attribute], chosen.records)
            values, complaints = check_column(self.target, attribute, computed.values)
            columns.append(values)
            if computed.wrong is not None:
                wrong |= computed.wrong
            if complaints:
                wrong[[each.row for each in complaints]] = True
        records = pa.record_batch(columns, schema=self.target.arrow_schema)
        if not wrong.any():
            return EventBatch(self.target, records, chosen.ids)
        kept = pa.array(np.flatnonzero(~wrong))
        set_aside = tuple(self._reasons(batch, rows[wrong]))
        return EventBatch(self.target, records.take(kept), chosen.ids.take(kept), set_aside)

    def _reasons(self, batch: EventBatch, rows: Any) -> Iterator[Rejection]:
        """The meaning, once more, on what is set aside: it says why."""
        for row, event in zip(rows.tolist(), batch.take(pa.array(rows)).to_dicts(), strict=True):
            why = self._made(row, event)
            assert isinstance(why, Rejection), f"transform {self.name}: columns and meaning differ on {event!r}"
            yield why


def fits(expression: Expression, target: Space, attribute: str) -> bool:
    """Can its values be the attribute's? Ints can be floats where these hold them exactly."""
    kind, wanted = expression.kind, target.kinds[attribute]
    return kind is None or kind == wanted or (kind == INT and wanted == FLOAT)


class Transforms:
    """All transforms of a network. From a space, the spaces behind it are reached in the order in which they were given."""

    def __init__(self, transforms: Iterable[Transform]) -> None:
        self.transforms = tuple(transforms)
        self._check_names()
        for space in self.spaces:
            self._check_ways(space)

    def _check_names(self) -> None:
        names: set[str] = set()
        pairs: dict[tuple[str, str], str] = {}
        spaces: dict[str, Space] = {}
        for each in self.transforms:
            if each.name in names:
                raise TransformsError(f"there are two transforms {each.name!r}; give one of them another name")
            names.add(each.name)
            pair = each.source.name, each.target.name
            if pair in pairs:
                raise TransformsError(
                    f"{pairs[pair]} and {each.name} both lead from {pair[0]} to {pair[1]}, and an event would arrive twice; "
                    "make one of them, with OR and CASE"
                )
            pairs[pair] = each.name
            for space in (each.source, each.target):
                if spaces.setdefault(space.name, space) != space:
                    raise TransformsError(f"transform {each.name}: there is another space {space.name!r} already")

    def _check_ways(self, space: str, way: tuple[str, ...] = (), reached: dict[str, tuple[str, ...]] | None = None) -> None:
        way = (*way, space)
        reached = {} if reached is None else reached
        if space in way[:-1]:
            circle = " -> ".join(way[way.index(space) :])
            raise TransformsError(f"the transforms go in a circle, and an event would travel for ever: {circle}")
        if space in reached:
            ways = " and ".join(" -> ".join(each) for each in (reached[space], way))
            raise TransformsError(f"there are two ways from {way[0]} to {space}, and an event would arrive twice: {ways}")
        reached[space] = way
        for each in self._leaving.get(space, ()):
            self._check_ways(each.target.name, way, reached)

    @cached_property
    def spaces(self) -> dict[str, Space]:
        """All that are transformed or come of it, by name."""
        return {space.name: space for each in self.transforms for space in (each.source, each.target)}

    @cached_property
    def _leaving(self) -> dict[str, list[Transform]]:
        found: dict[str, list[Transform]] = {}
        for each in self.transforms:
            found.setdefault(each.source.name, []).append(each)
        return found

    def reachable(self, space: str) -> tuple[str, ...]:
        """The spaces that events of this one also become events of, in the order of `derive`."""
        found: list[str] = []
        for each in self._leaving.get(space, ()):
            found += [each.target.name, *self.reachable(each.target.name)]
        return tuple(found)

    def derive(self, batch: EventBatch) -> list[EventBatch]:
        """One batch, perhaps empty, for each space in `reachable`."""
        found: list[EventBatch] = []
        for each in self._leaving.get(batch.space.name, ()):
            derived = each.derive(batch)
            found += [derived, *self.derive(derived)]
        return found

    def __len__(self) -> int:
        return len(self.transforms)

    def __eq__(self, other: object) -> bool:
        return self.transforms == other.transforms if isinstance(other, Transforms) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(each.name for each in self.transforms))
