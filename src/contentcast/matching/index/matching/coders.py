"""Columns become numbers: all that subscriptions constrain in one call of a kernel, which reads them where Arrow has them.

What it has to do is a list of coders, made once after a change of the index. For the subscriptions `symbol = 'IBM' AND price <
120` and `volume IN (1, 5)`:

    sort    place   use     to    shift, and then
    FLOATS  1       ORDER   0     the points of price, and where to begin to search among them
    LONGS   2       EQUAL   0     the hash table of the volumes
    TEXTS   0       EQUAL   0     the hash table of the symbols

`place` is the column, `to` the word, or the row among the order codes or the keys of the encoded batch, which is one piece of
memory: addresses and lengths of the arrays of `Events`, and then those of these arrays that are written here.
Rule: a column has the type of its attribute before its address comes here.
"""

# Numba infers the kernels' types.
# mypy: allow-untyped-defs, allow-untyped-calls
# mypy: disable-error-code="no-untyped-def,untyped-decorator,misc,type-var,arg-type,call-arg,assignment"

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.cells.filing import Filing
from contentcast.matching.index.machine.arrow_arrays import buffer_of, column_at, offset_of, validity
from contentcast.matching.index.machine.raw_arrays import address_of, byte_line, int_line, long_line, longs
from contentcast.matching.index.matching.kernel_call import (
    BITS,
    CODER_ROW,
    EVENTS,
    EVENTS_SIZE,
    FLOATS,
    LONGS,
    NUMBERS,
    PLACE,
    SHIFT,
    SORT,
    TEXTS,
    TO,
    USE,
    address_numbers,
)  # fmt: skip
from contentcast.matching.index.values.dictionaries import ABSENT_KEY, FIRST
from contentcast.matching.index.values.hash_tables import code_keys, code_texts
from contentcast.matching.index.values.order_codes import look_up_keys

Ints = npt.NDArray[np.int64]

EQUAL, ORDER, KEY = range(3)
"""What a column is encoded for: tests of equality, ranges, sets of ranges."""
_SORTS: Final = {"int": LONGS, "timestamp": LONGS, "float": FLOATS, "bool": BITS}
_NO_NUMBERS: Final = (0,) * (CODER_ROW - NUMBERS)
_LINE: Final = 8
"""Numbers in a line of the cache; each array begins one."""
_ARRAYS: Final = 5
"""Arrays that are written in the piece."""


class Columns(NamedTuple):
    """The columns of an encoded batch by attribute: order codes, keys, and text answers."""

    codes: dict[str, int]
    keys: dict[str, int]
    texts: dict[str, int]


class Coders(NamedTuple):
    """The rows, of which the first says how many words, columns of order codes and of keys there are; those of the order codes
    and then of the keys are the last ones. `made_of[i]`: what row i was made of; the same objects make the same row. The arrays
    are kept by these objects and by the filing.
    """

    rows: Ints
    made_of: list[Any]
    sources: list[tuple[int, str]]
    """Use and attribute of each row but the first."""


def coders_of(filing: Filing, columns: Columns, before: Coders | None) -> Coders:
    """The coders of an index as it is. Of those before, which are of the same filing, the rows are taken that are the same."""
    dictionaries = filing.attributes.dictionaries
    sources = [(EQUAL, name) for name, each in dictionaries.items() if each.bits]  # without bits no entry uses it yet
    sources += [(ORDER, name) for name in columns.codes]
    sources += [(KEY, name) for name in columns.keys]
    made_of: list[Any] = [None]
    for use, name in sources:
        if use == EQUAL:
            made_of.append(dictionaries[name].table().numbers())
        elif use == ORDER:
            made_of.append((filing.order_codes[name].marks(filing.plan.cuts(name)), filing.order_codes[name].heads()))
        else:
            made_of.append(None)
    if before is not None and before.sources == sources:
        rows = before.rows.copy()
        for at, (mine, known) in enumerate(zip(made_of, before.made_of, strict=True)):
            if mine is not known and (type(mine) is list or mine[0] is not known[0] or mine[1] is not known[1]):
                rows[at] = _coder(filing, columns, *sources[at - 1], mine)
        return Coders(rows, made_of, sources)
    made = [[filing.plan.words, len(columns.codes), len(columns.keys), 0, 0, *_NO_NUMBERS]]
    made += [_coder(filing, columns, *source, mine) for source, mine in zip(sources, made_of[1:], strict=True)]
    return Coders(np.array(made, np.int64), made_of, sources)


def _coder(filing: Filing, columns: Columns, use: int, name: str, made_of: Any) -> list[int]:
    kind, place = filing.attributes.space.kinds[name], filing.attributes.numbers[name]
    sort = _SORTS.get(kind.name, TEXTS)
    if use == EQUAL:
        dictionary = filing.attributes.dictionaries[name]
        return [sort, place, use, dictionary.word, dictionary.shift, *made_of]
    if use == KEY:
        return [sort, place, use, columns.keys[name], 0, *_NO_NUMBERS]
    marks, (heads, shift) = made_of
    return [sort, place, use, columns.codes[name], shift, *address_numbers(marks)[:2], *address_numbers(heads)[:2], 0, 0]


def piece_size(coders: Ints, count: int) -> int:
    """How many numbers an encoded batch takes."""
    per_event: int = sum(coders[0, :3].tolist()) + 1
    return EVENTS_SIZE + per_event * count + _ARRAYS * _LINE


@nb.njit(nogil=True, cache=True)
def encode_columns(coders, places, batch, count, no_texts, piece):
    """Encodes a batch into a piece of `piece_size`; returns its address, or ~row for an event that has a NaN.

    `batch` is the address of an Arrow struct; `places` says for each attribute of the space which column it is, -1 for none,
    and nothing at all if each stands at its own place. `no_texts`: what stands at the end of the addresses.
    """
    words, coded, keyed = coders[0, 0], coders[0, 1], coders[0, 2]
    words_at = (address_of(piece) + 8 * EVENTS_SIZE + 63) & ~63
    codes_at = (words_at + 8 * words * count + 63) & ~63
    ranks_at = (codes_at + 4 * coded * count + 63) & ~63
    keys_at = (ranks_at + 4 * coded * count + 63) & ~63
    scratch = (keys_at + 8 * keyed * count + 63) & ~63
    for field, address, rows in (
        (EVENTS.words, words_at, words),
        (EVENTS.codes, codes_at, coded),
        (EVENTS.ranks, ranks_at, coded),
        (EVENTS.keys, keys_at, keyed),
    ):
        piece[field], piece[field + 1], piece[field + 2] = address, rows, count
    for k in range(len(no_texts)):
        piece[EVENTS.text_value + k] = no_texts[k]
    all_words = long_line(words_at, words * count)
    for k in range(words * count):
        all_words[k] = 0
    for number in range(1, len(coders) if count > 0 else 0):
        sort, use, to, shift = coders[number, SORT], coders[number, USE], coders[number, TO], coders[number, SHIFT]
        place, column = coders[number, PLACE], np.int64(0)
        if len(places) > 0:
            place = places[place]
        if place >= 0:
            column = column_at(batch, place)
        table = long_line(address_of(coders) + 8 * (number * CODER_ROW + NUMBERS), CODER_ROW - NUMBERS)
        if use == EQUAL:
            word = long_line(words_at + 8 * to * count, count)
            if column == 0 or buffer_of(column, 1) == 0:
                continue  # absent everywhere
            if sort == TEXTS:
                code_texts(table, np.int64(FIRST), column, word, shift)
                continue
            keys = long_line(scratch, count)
            strange = _read_keys(sort, column, keys)
            code_keys(table, keys, column, word, shift)
        else:
            keys = long_line(keys_at + 8 * to * count if use == KEY else scratch, count)
            strange = np.int64(-1)
            if column == 0 or buffer_of(column, 1) == 0:
                for k in range(count):
                    keys[k] = ABSENT_KEY
            else:
                strange = _read_keys(sort, column, keys)
                _mark_absent(column, keys)
            if use == ORDER:
                codes, ranks = int_line(codes_at + 4 * to * count, count), int_line(ranks_at + 4 * to * count, count)
                look_up_keys(longs(table[0], table[1], 2), int_line(table[2], table[3]), shift, keys, codes, ranks)
        if strange >= 0:
            return ~strange
    return address_of(piece)


@nb.njit(nogil=True, cache=True)
def _read_keys(sort, column, keys):
    """The order keys of a column's values; returns the first row that holds a NaN, or -1. Under a null anything may stand."""
    count, first, values = len(keys), offset_of(column), buffer_of(column, 1)
    strange = np.int64(-1)
    if sort == BITS:
        bits = byte_line(values, (first + count + 7) >> 3)
        for k in range(count):
            keys[k] = (bits[(first + k) >> 3] >> ((first + k) & 7)) & 1
        return strange
    numbers = long_line(values + 8 * first, count)
    if sort == LONGS:
        for k in range(count):
            keys[k] = numbers[k]
        return strange
    floats = numbers.view(np.float64)
    wrong = False
    for k in range(count):
        bits = np.int64(0) if floats[k] == 0.0 else numbers[k]  # -0.0 is 0.0
        keys[k] = bits if bits >= 0 else bits ^ np.int64(0x7FFFFFFFFFFFFFFF)
        wrong |= floats[k] != floats[k]
    if wrong:
        valid = validity(column, count)
        for k in range(count - 1, -1, -1):
            there = len(valid) == 0 or (valid[(first + k) >> 3] >> ((first + k) & 7)) & 1 == 1
            strange = k if there and floats[k] != floats[k] else strange
    return strange


@nb.njit(nogil=True, cache=True)
def _mark_absent(column, keys):
    """The key of an absent value is below all others: the least int, which would have it, moves up by one (see `entries`)."""
    first, valid = offset_of(column), validity(column, len(keys))
    for k in range(len(keys)):
        keys[k] = max(keys[k], ABSENT_KEY + 1)
    for k in range(len(keys) if len(valid) > 0 else 0):
        if (valid[(first + k) >> 3] >> ((first + k) & 7)) & 1 == 0:
            keys[k] = ABSENT_KEY
