"""SIMD: tests on sixteen entries with one instruction; the answer is a mask in the low sixteen bits of an int64.

The functions are written as LLVM vector code, because the compiler does not find the way from compares to a mask by itself.
They run on every processor, in as many registers as it needs. The one step for which processors differ, moving the ids of the
entries that passed side by side, is in `compaction`.
Rule: the functions read and write whole vectors, also past the last number that counts; arrays have SLACK numbers more for it.
"""

# Numba infers the types.
# mypy: ignore-errors

from __future__ import annotations

from functools import reduce

import numba as nb
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from contentcast.matching.index.machine.layout import BLOCK
from contentcast.matching.index.machine.raw_arrays import address_of

_LONG, _INT, _SHORT = ir.IntType(64), ir.IntType(32), ir.IntType(16)
_LONGS, _INTS = ir.VectorType(_LONG, 8), ir.VectorType(_INT, 16)
_MASK = ir.VectorType(ir.IntType(1), 16)
_NO_INTS = ir.Constant(_INTS, ir.Undefined)


def _data(context, builder, signature, arguments, array):
    return context.make_array(signature.args[array])(context, builder, arguments[array]).data


def _place(context, builder, signature, arguments, array, at, vector):
    """A pointer to a vector that begins at arguments[array][at]."""
    return builder.bitcast(builder.gep(_data(context, builder, signature, arguments, array), [at]), vector.as_pointer())


def _sixteen(context, builder, signature, arguments, array, index):
    return builder.load(_place(context, builder, signature, arguments, array, arguments[index], _INTS), align=4)


def _sixteen_times(builder, number):
    one = builder.insert_element(_NO_INTS, builder.trunc(number, _INT), ir.Constant(_INT, 0))
    return builder.shuffle_vector(one, _NO_INTS, ir.Constant(ir.VectorType(_INT, 16), [0] * 16))


def _as_bits(builder, mask):
    return builder.zext(builder.bitcast(mask, _SHORT), _LONG)


@intrinsic
def in_range(typing_context, arena, low, high, code):
    """Bit k: arena[low + k] <= code <= arena[high + k]."""

    def generate(context, builder, signature, arguments):
        codes = _sixteen_times(builder, arguments[3])
        above = builder.icmp_signed("<=", _sixteen(context, builder, signature, arguments, 0, 1), codes)
        below = builder.icmp_signed("<=", codes, _sixteen(context, builder, signature, arguments, 0, 2))
        return _as_bits(builder, builder.and_(above, below))

    return types.int64(arena, low, high, types.int64), generate


@intrinsic
def at_most(typing_context, arena, first, code):
    """Bit k: arena[first + k] <= code."""

    def generate(context, builder, signature, arguments):
        values = _sixteen(context, builder, signature, arguments, 0, 1)
        return _as_bits(builder, builder.icmp_signed("<=", values, _sixteen_times(builder, arguments[2])))

    return types.int64(arena, first, types.int64), generate


@intrinsic
def at_least(typing_context, arena, first, code):
    """Bit k: code <= arena[first + k]."""

    def generate(context, builder, signature, arguments):
        values = _sixteen(context, builder, signature, arguments, 0, 1)
        return _as_bits(builder, builder.icmp_signed("<=", _sixteen_times(builder, arguments[2]), values))

    return types.int64(arena, first, types.int64), generate


@intrinsic
def equal_under(typing_context, arena, values, masks, word):
    """Bit k: the low half of `word` equals arena[values + k] in all bits that are set in arena[masks + k]."""

    def generate(context, builder, signature, arguments):
        words = _sixteen_times(builder, arguments[3])
        apart = builder.xor(words, _sixteen(context, builder, signature, arguments, 0, 1))
        apart = builder.and_(apart, _sixteen(context, builder, signature, arguments, 0, 2))
        return _as_bits(builder, builder.icmp_unsigned("==", apart, ir.Constant(_INTS, [0] * 16)))

    return types.int64(arena, values, masks, types.int64), generate


def _passing(*kinds):
    """Make a function that runs these tests on sixteen entries.

    The columns of the entries begin at arena[first], and each column is `room` numbers long. Bit k of the result: entry k
    passes all tests.
    """

    @intrinsic
    def passing(typing_context, arena, first, room, word, code, lower):
        def generate(context, builder, signature, arguments):
            def column(number):
                at = builder.add(arguments[1], builder.mul(arguments[2], ir.Constant(_LONG, number)))
                return builder.load(_place(context, builder, signature, arguments, 0, at, _INTS), align=4)

            word, code, lower = (_sixteen_times(builder, each) for each in arguments[3:])
            masks, at = [], 0
            for kind in kinds:
                if kind == "word":
                    apart = builder.and_(builder.xor(word, column(at)), column(at + 1))
                    masks.append(builder.icmp_unsigned("==", apart, ir.Constant(_INTS, [0] * 16)))
                elif kind == "range":
                    masks.append(builder.icmp_signed("<=", column(at), code))
                    masks.append(builder.icmp_signed("<=", code, column(at + 1)))
                else:
                    masks.append(builder.icmp_signed("<=", column(at), lower))
                at += 1 if kind == "low" else 2
            return _as_bits(builder, reduce(builder.and_, masks, ir.Constant(_MASK, [1] * 16)))

        return types.int64(arena, types.int64, types.int64, types.int64, types.int64, types.int64), generate

    return passing


pass_all = _passing()
pass_word = _passing("word")
pass_range = _passing("range")
pass_range_low = _passing("range", "low")
pass_word_range = _passing("word", "range")
pass_word_range_low = _passing("word", "range", "low")


@intrinsic
def and_rows(typing_context, rows, starts, first, last, offset, blocks, at):
    """AND the rows of the fields `first` to `last` - 1, over one block of BLOCK bits, and write the block to blocks[at].

    The row of field f begins at rows[starts[f] + offset]. If `first` is not 0, the block that stands at blocks[at] is AND-ed
    with them. Bit k of the result: the k-th group of sixteen bits in the block is not all 0.
    """

    def generate(context, builder, signature, arguments):
        def row(number):
            start = builder.load(builder.gep(_data(context, builder, signature, arguments, 1), [number]))
            place = _place(context, builder, signature, arguments, 0, builder.add(start, arguments[4]), vector)
            return builder.load(place, align=8)

        vector, shorts = ir.VectorType(_LONG, BLOCK // 64), ir.VectorType(_SHORT, BLOCK // 16)
        kept = cgutils.alloca_once(builder, vector)
        at = builder.mul(arguments[6], ir.Constant(_LONG, BLOCK // 16))
        block = _place(context, builder, signature, arguments, 5, at, vector)
        begins = builder.icmp_signed("==", arguments[2], ir.Constant(_LONG, 0))
        builder.store(builder.select(begins, ir.Constant(vector, [-1] * (BLOCK // 64)), builder.load(block, align=2)), kept)
        four = ir.Constant(_LONG, 4)
        fours = builder.udiv(builder.sub(arguments[3], arguments[2]), four)
        with cgutils.for_range(builder, fours) as loop:
            number = builder.add(arguments[2], builder.mul(loop.index, four))
            found = [row(builder.add(number, ir.Constant(_LONG, k))) for k in range(4)]
            builder.store(reduce(builder.and_, found, builder.load(kept)), kept)
        rest = builder.add(arguments[2], builder.mul(fours, four))
        with cgutils.for_range(builder, builder.sub(arguments[3], rest)) as loop:
            builder.store(builder.and_(builder.load(kept), row(builder.add(rest, loop.index))), kept)
        found = builder.load(kept)
        builder.store(found, block).align = 2
        some = builder.icmp_unsigned("!=", builder.bitcast(found, shorts), ir.Constant(shorts, [0] * (BLOCK // 16)))
        return builder.zext(builder.bitcast(some, ir.IntType(BLOCK // 16)), _LONG)

    return types.int64(rows, starts, first, last, offset, blocks, at), generate


@intrinsic
def load_eight(typing_context, text, at):
    """Eight bytes of a byte array as one int64."""

    def generate(context, builder, signature, arguments):
        place = builder.gep(_data(context, builder, signature, arguments, 0), [arguments[1]])
        return builder.load(builder.bitcast(place, _LONG.as_pointer()), align=1)

    return types.int64(text, at), generate


@intrinsic
def prefetch(typing_context, array, at):
    """Start to fetch the cache line of array[at]. `at` may lie outside the array."""

    def generate(context, builder, signature, arguments):
        data = _data(context, builder, signature, arguments, 0)
        place = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), _INT, _INT, _INT])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(fetch, [place, ir.Constant(_INT, 0), ir.Constant(_INT, 3), ir.Constant(_INT, 1)])
        return context.get_dummy_value()

    return types.none(array, at), generate


@intrinsic
def lowest_one(typing_context, bits):
    """The position of the lowest bit that is set; `bits` must not be 0."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(bits), generate


@intrinsic
def _stream(typing_context, out, at, values, index):
    """out[at : at + 8] = values[index : index + 8], with a store that bypasses the caches; out[at] must begin a cache line."""

    def generate(context, builder, signature, arguments):
        found = builder.load(_place(context, builder, signature, arguments, 2, arguments[3], _LONGS), align=8)
        _store_past_caches(builder, found, _place(context, builder, signature, arguments, 0, arguments[1], _LONGS))
        return context.get_dummy_value()

    return types.none(out, at, values, index), generate


@intrinsic
def _stream_same(typing_context, out, at, value):
    """out[at : at + 8] = value, with a store that bypasses the caches; out[at] must begin a cache line."""

    def generate(context, builder, signature, arguments):
        one = builder.insert_element(ir.Constant(_LONGS, ir.Undefined), arguments[2], ir.Constant(_INT, 0))
        zeros = ir.Constant(ir.VectorType(_INT, 8), [0] * 8)
        found = builder.shuffle_vector(one, ir.Constant(_LONGS, ir.Undefined), zeros)
        _store_past_caches(builder, found, _place(context, builder, signature, arguments, 0, arguments[1], _LONGS))
        return context.get_dummy_value()

    return types.none(out, at, value), generate


def _store_past_caches(builder, vector, place):
    store = builder.store(vector, place)
    store.align = 64
    store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(_INT, 1)]))


@nb.njit(nogil=True, cache=True, inline="always")
def flush(out, done, scratch, count):
    """Copy whole cache lines of scratch[:count] to out[done:] and move the rest to the front; returns how many were copied.

    `done` is a multiple of eight. The stores bypass the caches: a line that will be overwritten is not fetched first. This
    makes a large output two to four times as fast.
    """
    whole = count & ~7
    for k in range(0, whole, 8):
        _stream(out, done + k, scratch, k)
    for k in range(8):
        scratch[k] = scratch[whole + k]
    return whole


@nb.njit(nogil=True, cache=True)
def fill_rows(ends, rows, first, streaming):
    """Write to rows[k] the number of the event that the id at k belongs to.

    Up to sixteen places after the last id get arbitrary numbers. With `streaming` the stores bypass the caches; rows[0] must
    begin a cache line then.
    """
    at, sixteen = np.uint64(0), np.uint64(16)
    for event in range(np.uint64(len(ends) if not streaming else 0)):
        end, number = np.uint64(ends[event]), first + np.int64(event)
        for i in range(sixteen):  # most events match few: a fixed loop has no end that is predicted wrong
            rows[at + i] = number
        for k in range(at + sixteen, end, sixteen):
            for i in range(sixteen):
                rows[k + i] = number
        at = end
    begin = np.int64(0)
    for event in range(len(ends) if streaming else 0):
        end, number = ends[event], first + event
        aligned = min(end, (begin + 7) & ~7)
        for k in range(begin, aligned):
            rows[k] = number
        while aligned + 8 <= end:
            _stream_same(rows, aligned, number)
            aligned += 8
        for k in range(aligned, end):
            rows[k] = number
        begin = end


@nb.njit(nogil=True, cache=True)
def place_piece(ends, ids, first, rows, out, begin, streaming):
    """Copy one part of the matches to `rows` and `out` from `begin` on; the first event of the part has the number `first`.

    Nothing outside the part is written. With `streaming` the stores bypass the caches; rows[0] and out[0] must begin a cache
    line then. Ids that already stand in their place are not copied.
    """
    count = np.int64(len(ids))
    if address_of(ids) != address_of(out) + 8 * begin:
        k = np.int64(0)
        if streaming:
            k = min(count, -begin & 7)
            for i in range(k):
                out[begin + i] = ids[i]
            while k + 8 <= count:
                _stream(out, begin + k, ids, k)
                k += 8
        for i in range(np.uint64(k), np.uint64(count)):
            out[np.uint64(begin) + i] = ids[i]
    at, last = begin, begin + count
    for event in range(len(ends)):
        end, number = begin + ends[event], first + event
        if streaming:
            aligned = min(end, (at + 7) & ~7)
            for i in range(at, aligned):
                rows[i] = number
            while aligned + 8 <= end:
                _stream_same(rows, aligned, number)
                aligned += 8
            at = aligned
        else:
            while at < end and at + 16 <= last:  # the next event overwrites the places that are too many
                for i in range(np.uint64(16)):
                    rows[np.uint64(at) + i] = number
                at += 16
        for i in range(at, end):
            rows[i] = number
        at = end
