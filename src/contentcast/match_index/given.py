"""Ids and predicates as they are given to an index: read into one table, and what is wrong with them named.

Rule: nothing here changes an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from contentcast.language import PredicateError, as_predicate, parse_many
from contentcast.matching.id_names import Given, repeated
from contentcast.model.errors import ContentcastError
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.space import Space


def as_table(space: Space, predicates: Any) -> PredicateTable:
    """Texts, predicates, or a table of them; `refused` of the table has the texts that cannot be read."""
    if isinstance(predicates, PredicateTable):
        if predicates.space != space:
            raise ContentcastError(f"predicates over {predicates.space.name} do not fit the space {space.name}")
        return predicates
    if not isinstance(predicates, (pa.Array, pa.ChunkedArray)) and any(isinstance(each, Predicate) for each in predicates):
        return PredicateTable.of(space, [as_predicate(space, each) for each in predicates])
    return parse_many(space, predicates, on_error="reject")


def taken(given: Given, known: Iterable[int]) -> dict[int, ContentcastError]:
    """Errors of the rows whose id came before in the call, or is in the index already; `known` are the rows of the latter."""
    said = {row: ContentcastError(f"subscription {given[row]} is already there; the first stays") for row in known}
    twice = {row: ContentcastError(f"subscription {given[row]} is given twice; the first stays") for row in repeated(given)}
    return {**twice, **said}


def first_error(errors: Mapping[int, ContentcastError], given: Given) -> ContentcastError:
    """The first of the texts that cannot be read, with its place in the call."""
    row = min(errors)
    more = f" ({len(errors) - 1:,} more cannot be read either)" if len(errors) > 1 else ""
    place = f"predicate {row:,} of {len(given):,}, subscription {given[row]!s}{more}"
    error = errors[row]
    return error.at(place) if isinstance(error, PredicateError) else ContentcastError(f"{place}: {error}")
