"""`kernel.match`, called with addresses: for each array that Python hands to a kernel it pays about a microsecond.

The arrays of an index are handed over once: their addresses and shapes stand in one array, the header, which is good until the
index changes; those of an encoded batch in another one. Whoever calls keeps the arrays alive.

    header   largest cell, ids that a cell writes at most, words, columns of codes and of keys; where the coders stand, and how
             many they are (`coders`); then address and two lengths of each array of Groups, Cells, Bits
"""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numba as nb
import numpy as np

from contentcast.matching.index.machine.layout import Bits, Cells, Events, Groups
from contentcast.matching.index.machine.raw_arrays import address_of, int_line, ints, long_line, longs
from contentcast.matching.index.machine.sorting import sort_ids
from contentcast.matching.index.matching import kernel
from contentcast.matching.index.values.dictionaries import ABSENT_KEY
from contentcast.matching.index.values.order_codes import look_up_keys

LARGEST_CELL, MOST_OUTPUT, WORDS, CODE_COLUMNS, KEY_COLUMNS, CODERS, CODER_COUNT, STRUCTS = range(8)
"""Places in the header: entries of the largest cell, ids that a cell writes at most, words of an event, columns of order codes
and of keys, the coders; from STRUCTS on the addresses."""
SORT, PLACE, USE, TO, SHIFT, NUMBERS = range(6)
"""Places in a coder: see `coders`."""
CODER_ROW = NUMBERS + 6
TEXTS, LONGS, FLOATS, BITS = range(4)
"""Sorts of columns: texts and bytes, 64-bit numbers and times, floats, truth values."""
MOST_NUMBERS = 1 << 20
"""More numbers than any header has."""
ONE_NUMBERS = 4
"""The place where the words of the event begin in what `match_one` is given."""


class Texts(NamedTuple):
    """Which text tests hold for which values: the fields of `Events` that `match_one` is given the addresses of."""

    holds_start: np.ndarray
    fails_start: np.ndarray
    holds: np.ndarray  # int32
    fails: np.ndarray  # int32
    most_texts: np.ndarray


def _offsets(struct: Any) -> Any:
    """A struct with, for each field, where the address of its array stands among those of all."""
    return struct(*range(0, 3 * len(struct._fields), 3))


_GROUPS, _CELLS, _BITS, EVENTS, _TEXTS = (_offsets(each) for each in (Groups, Cells, Bits, Events, Texts))
_GROUPS_SIZE, _CELLS_SIZE = 3 * len(Groups._fields), 3 * len(Cells._fields)
EVENTS_SIZE, _TEXTS_SIZE = 3 * len(Events._fields), 3 * len(Texts._fields)
_OF_32 = {
    Groups: (),
    Cells: ("arena",),
    Bits: ("ids",),
    Events: ("codes", "ranks", "holds", "fails"),
    Texts: ("holds", "fails"),
}
"""The fields whose arrays are of 32-bit numbers; all others are of 64 bits."""


def struct_addresses(struct: Any) -> list[int]:
    """Address and two lengths of the array of each field."""
    of_32 = _OF_32[type(struct)]
    for name, array in zip(struct._fields, struct, strict=True):
        assert array.dtype == (np.int32 if name in of_32 else np.int64), name
    return addresses(struct)


def addresses(arrays: Iterable[Any]) -> list[int]:
    """Address and two lengths of each array."""
    return [number for array in arrays for number in address_numbers(array)]


def address_numbers(array: Any) -> tuple[int, int, int]:
    """To ask NumPy for an address takes a microsecond."""
    assert array.flags.c_contiguous
    return array.__array_interface__["data"][0], array.shape[0], array.shape[1] if array.ndim > 1 else 1


@nb.njit(nogil=True, cache=True, inline="always")
def _line(header, at):
    return long_line(header[at], header[at + 1])


@nb.njit(nogil=True, cache=True, inline="always")
def _short_line(header, at):
    return int_line(header[at], header[at + 1])


@nb.njit(nogil=True, cache=True, inline="always")
def _plane(header, at):
    return longs(header[at], header[at + 1], header[at + 2])


@nb.njit(nogil=True, cache=True, inline="always")
def _short_plane(header, at):
    return ints(header[at], header[at + 1], header[at + 2])


@nb.njit(nogil=True, cache=True, inline="always")
def _index_arrays(header):
    """The structs whose arrays stand in a header.

    Each field is read at its own offset, by name: a field that is added to a struct and forgotten here does not compile.
    """
    at = STRUCTS
    groups = Groups(
        gate=_line(header, at + _GROUPS.gate), arg=_line(header, at + _GROUPS.arg), mask=_line(header, at + _GROUPS.mask),
        table=_line(header, at + _GROUPS.table), size=_line(header, at + _GROUPS.size), shift=_line(header, at + _GROUPS.shift),
        shape=_line(header, at + _GROUPS.shape), tests=_line(header, at + _GROUPS.tests),
        test_kind=_line(header, at + _GROUPS.test_kind), test_arg=_line(header, at + _GROUPS.test_arg),
        test_column=_line(header, at + _GROUPS.test_column),
    )  # fmt: skip
    at += _GROUPS_SIZE
    cells = Cells(
        arena=_short_line(header, at + _CELLS.arena), cell=_plane(header, at + _CELLS.cell),
        table=_plane(header, at + _CELLS.table), run_start=_line(header, at + _CELLS.run_start),
        run_length=_line(header, at + _CELLS.run_length), run_ids=_line(header, at + _CELLS.run_ids),
        several=_line(header, at + _CELLS.several), set_start=_line(header, at + _CELLS.set_start),
        set_pairs=_line(header, at + _CELLS.set_pairs),
    )  # fmt: skip
    at += _CELLS_SIZE
    bits = Bits(
        word=_line(header, at + _BITS.word), shift=_line(header, at + _BITS.shift), mask=_line(header, at + _BITS.mask),
        codes=_line(header, at + _BITS.codes), field=_line(header, at + _BITS.field), stride=_line(header, at + _BITS.stride),
        values=_line(header, at + _BITS.values), first_row=_line(header, at + _BITS.first_row),
        rows=_plane(header, at + _BITS.rows), named=_plane(header, at + _BITS.named), free=_plane(header, at + _BITS.free),
        ids=_short_line(header, at + _BITS.ids), words=_line(header, at + _BITS.words),
        entries=_plane(header, at + _BITS.entries), flags=_line(header, at + _BITS.flags),
    )  # fmt: skip
    return groups, cells, bits


@nb.njit(nogil=True, cache=True)
def match_many(header_at, batch_at, begin, end, out, ends, streaming, stamps):
    """`kernel.match` for an index and a batch, both given by the address of their addresses."""
    header, batch = long_line(header_at, MOST_NUMBERS), long_line(batch_at, EVENTS_SIZE)
    groups, cells, bits = _index_arrays(header)
    events = Events(
        words=_plane(batch, EVENTS.words), codes=_short_plane(batch, EVENTS.codes), ranks=_short_plane(batch, EVENTS.ranks),
        keys=_plane(batch, EVENTS.keys), text_value=_plane(batch, EVENTS.text_value),
        holds_start=_line(batch, EVENTS.holds_start), fails_start=_line(batch, EVENTS.fails_start),
        holds=_short_line(batch, EVENTS.holds), fails=_short_line(batch, EVENTS.fails),
        most_texts=_line(batch, EVENTS.most_texts),
    )  # fmt: skip
    most, largest = header[MOST_OUTPUT] if streaming else np.int64(0), header[LARGEST_CELL]
    scratch = np.empty(kernel.scratch_size(groups, bits, events.most_texts[0], end - begin, largest, most), np.int64)
    following = kernel.match(groups, cells, bits, events, begin, end, out, ends, largest, most, stamps, scratch)
    scratch[0] = 0  # used until now
    return following


@nb.njit(nogil=True, cache=True)
def match_one(at):
    """How many ids one event has, written out ascending, or -1 if there was no room.

    At the address stand those of the header and of the room for ids, how many there is room for, the address of the addresses
    of the text answers, and the event's words, values and rows of text answers: to unpack arrays, or only more numbers, is a
    good part of the time of a quick event.
    """
    given = long_line(at, ONE_NUMBERS)
    header, out, numbers_at = long_line(given[0], MOST_NUMBERS), long_line(given[1], given[2]), at + 8 * ONE_NUMBERS
    words, coded, keyed, largest = header[WORDS], header[CODE_COLUMNS], header[KEY_COLUMNS], header[LARGEST_CELL]
    numbers = long_line(numbers_at, words + coded + keyed)
    groups, cells, bits = _index_arrays(header)
    texts = long_line(given[3], _TEXTS_SIZE + 1)
    text_columns, most_texts = texts[_TEXTS_SIZE], _line(texts, _TEXTS.most_texts)
    none, one = np.int64(0), np.int64(1)  # plain ones would be types of their own, and the kernel be compiled for them too
    size = kernel.scratch_size(groups, bits, most_texts[0], one, largest, none)
    scratch = np.empty(size + 2 * coded + keyed + 2, np.int64)
    mine = address_of(scratch) + 8 * size
    keys, codes, ranks = mine, mine + 8 * (coded + keyed), mine + 8 * (coded + keyed) + 4 * coded
    ends, nothing = mine + 8 * (2 * coded + keyed), mine + 8 * (2 * coded + keyed + 1)
    key_line, floats = long_line(keys, coded + keyed), numbers.view(np.float64)
    coders = longs(header[CODERS], header[CODER_COUNT], CODER_ROW)
    first_coder = header[CODER_COUNT] - coded - keyed
    for column in range(coded + keyed):
        key = numbers[words + column]
        if coders[first_coder + column, SORT] == FLOATS:
            number = floats[words + column]
            if number != number:
                key = np.int64(ABSENT_KEY)
            else:
                key = np.int64(0) if number == 0.0 else key
                key = key if key >= 0 else key ^ np.int64(0x7FFFFFFFFFFFFFFF)
        key_line[column] = key
    for column in range(coded):
        coder = first_coder + column
        look_up_keys(
            longs(coders[coder, NUMBERS], coders[coder, NUMBERS + 1], 2),
            int_line(coders[coder, NUMBERS + 2], coders[coder, NUMBERS + 3]), coders[coder, SHIFT],
            long_line(keys + 8 * column, 1), int_line(codes + 4 * column, 1), int_line(ranks + 4 * column, 1),
        )  # fmt: skip
    events = Events(
        words=longs(numbers_at, words, 1), codes=ints(codes, coded, 1), ranks=ints(ranks, coded, 1),
        keys=longs(keys + 8 * coded, keyed, 1), text_value=longs(numbers_at + 8 * (words + coded + keyed), text_columns, 1),
        holds_start=_line(texts, _TEXTS.holds_start), fails_start=_line(texts, _TEXTS.fails_start),
        holds=_short_line(texts, _TEXTS.holds), fails=_short_line(texts, _TEXTS.fails), most_texts=most_texts,
    )  # fmt: skip
    last, no_stamps = long_line(ends, 1), long_line(nothing, 0)
    if kernel.match(groups, cells, bits, events, none, one, out, last, largest, none, no_stamps, scratch) == 0:
        scratch[0] = 0
        return np.int64(-1)
    count = last[0]
    scratch[0] = 0  # used until now
    sort_ids(out, count)
    return count
