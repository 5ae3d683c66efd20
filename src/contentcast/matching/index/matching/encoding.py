"""A batch of events becomes numbers: codes in words, order codes and grid cells, keys, and answers to text tests.

Each column that some subscription constrains is encoded once for the batch, whatever the number of subscriptions.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.matching.index.limits import Limits
from contentcast.matching.index.machine import layout
from contentcast.matching.index.machine.raw_arrays import planes
from contentcast.matching.index.matching.kernel_call import addresses
from contentcast.matching.index.matching.views import Views
from contentcast.matching.index.values.dictionaries import column_keys
from contentcast.matching.index.values.entries import Attributes

Ints = npt.NDArray[np.int64]

_NO_TEXTS: Final = (
    np.zeros((0, 0), np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32),
    np.zeros(1, np.int64),
)  # fmt: skip
"""What an encoded batch has where no entry tests texts."""
_AT_NO_TEXTS: Final = addresses(_NO_TEXTS)


def encode(
    views: Views, records: pa.RecordBatch, guard: AbstractContextManager[Any], limits: Limits
) -> tuple[layout.Events, Ints]:
    """The batch as the kernel reads it, and the addresses of its arrays.

    The columns have the space's types; a missing one is absent everywhere. `guard` is held while text answers are learnt.
    """
    filing = views.filing
    attributes, kinds = filing.attributes, filing.attributes.space.kinds
    count, names = records.num_rows, records.schema.names

    def column(name: str) -> pa.Array:
        return records.column(names.index(name)) if name in names else pa.nulls(count, kinds[name].arrow)

    batch, (words, codes, ranks, set_keys) = planes(
        count, (filing.plan.words, np.int64), (len(views.code_column), np.int32), (len(views.code_column), np.int32),
        (len(views.key_column), np.int64),
    )  # fmt: skip
    words[:] = 0
    for name, dictionary in attributes.dictionaries.items():
        if dictionary.bits:  # else no entry uses it yet
            dictionary.look_up(column(name), words[dictionary.word])
    for name, at in views.code_column.items():
        keys = column_keys(kinds[name], column(name))
        filing.order_codes[name].look_up(keys, codes[at], ranks[at], filing.plan.cuts(name))
    for name, at in views.key_column.items():
        set_keys[at] = column_keys(kinds[name], column(name))
    if not views.text_column:
        return layout.Events(words, codes, ranks, set_keys, *_NO_TEXTS), np.array(batch + _AT_NO_TEXTS, np.int64)
    with guard:
        texts = _text_answers(attributes, views.text_column, column, count, limits)
    return layout.Events(words, codes, ranks, set_keys, *texts), np.array(batch + addresses(texts), np.int64)


def _text_answers(
    attributes: Attributes, text_column: dict[str, int], column: Any, count: int, limits: Limits
) -> tuple[Any, ...]:
    """For each text column the row of each value among the answers, and the answers."""
    answers = attributes.answers
    values = np.full((len(text_column), count), -1, np.int64)
    if answers.count > limits.most_remembered:
        answers.forget()
    for name in text_column:  # all of them first: one may have to forget what the others know
        attributes.texts[name].catch_up()
    for name, at in text_column.items():
        values[at] = attributes.texts[name].rows_of(column(name))
    return values, answers.holds_start, answers.fails_start, answers.holds, answers.fails, np.array([answers.most])
