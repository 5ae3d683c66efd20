"""A batch of events as the kernel reads it: its columns as numbers (`coders`), and the answers to text tests.

Text tests are answered by what is remembered of each text that came before (`text_tests`); everything else is one call.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.matching.index.limits import Limits
from contentcast.matching.index.machine.arrow_arrays import exported
from contentcast.matching.index.matching.coders import encode_columns, piece_size
from contentcast.matching.index.matching.kernel_call import EVENTS, EVENTS_SIZE, addresses
from contentcast.matching.index.matching.views import Views
from contentcast.model.errors import EventError
from contentcast.model.space import Space
from contentcast.model.values.list_bytes import list_records

Ints = npt.NDArray[np.int64]

_NO_TEXTS: Final = (
    np.zeros((0, 0), np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32),
    np.zeros(1, np.int64),
)  # fmt: skip
"""What an encoded batch has where no entry tests texts."""
_AT_NO_TEXTS: Final = np.array(addresses(_NO_TEXTS), np.int64)
_IN_PLACE: Final = np.zeros(0, np.int64)
"""Each column stands where the space has its attribute."""


def encode(
    views: Views, records: pa.RecordBatch, guard: AbstractContextManager[Any], limits: Limits
) -> tuple[tuple[Any, ...], int]:
    """What keeps the encoded batch alive, and its address.

    The columns have the space's types; a missing one is absent everywhere. `guard` is held while text answers are learnt.
    """
    space = views.filing.attributes.space
    places = _IN_PLACE if records.schema.equals(space.arrow_schema) else _places(space, records)
    records = list_records(space.kinds, records)
    piece = np.empty(piece_size(views.coders.rows, records.num_rows), np.int64)
    batch, _held = exported(records)
    address = encode_columns(views.coders.rows, places, batch, records.num_rows, _AT_NO_TEXTS, piece)
    if address < 0:
        raise EventError(f"event {~address}: NaN is not a value; leave it null if it is unknown")
    if not views.columns.texts:
        return (piece,), address
    with guard:
        texts = _text_answers(views, records, limits)
    piece[EVENTS.text_value : EVENTS_SIZE] = addresses(texts)
    return (piece, *texts), address


def _places(space: Space, records: pa.RecordBatch) -> Ints:
    """For each attribute the place of its column, or -1."""
    names = records.schema.names
    places = [names.index(name) if name in names else -1 for name in space.names]
    for (name, kind), place in zip(space.kinds.items(), places, strict=True):
        if place >= 0 and records.schema.field(place).type != kind.arrow:
            raise EventError(f"the column {name} is {records.schema.field(place).type}; {space.name} has {kind.arrow} there")
    return np.array(places, np.int64)


def _text_answers(views: Views, records: pa.RecordBatch, limits: Limits) -> tuple[Any, ...]:
    """For each text column the row of each value among the answers, and the answers."""
    attributes, names = views.filing.attributes, records.schema.names
    answers = attributes.answers
    values = np.full((len(views.columns.texts), records.num_rows), -1, np.int64)
    if answers.count > limits.most_remembered:
        answers.forget()
    for name in views.columns.texts:  # all of them first: one may have to forget what the others know
        attributes.texts[name].catch_up()
    for name, at in views.columns.texts.items():
        if name in names:
            values[at] = attributes.texts[name].rows_of(records.column(names.index(name)))
    return values, answers.holds_start, answers.fails_start, answers.holds, answers.fails, np.array([answers.most])
