"""Eight entries at a time: one compare for all of them, the answer in the low eight bits of an int64.

LLVM's vectors, written out because the compiler does not find the way from compares to a mask to a compressed store by itself.
The compares run on any processor; the store is one AVX-512 instruction, or a loop without branches where there is none.
"""

# Numba infers the types.
# mypy: ignore-errors

from __future__ import annotations

import numba as nb
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_LONG, _BYTE = ir.IntType(64), ir.IntType(8)
_LONGS, _MASK = ir.VectorType(_LONG, 8), ir.VectorType(ir.IntType(1), 8)


def _eight_at(context, builder, signature, arguments, array, index):
    """A pointer to arguments[array][arguments[index]] as eight int64."""
    data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
    return builder.bitcast(builder.gep(data, [arguments[index]]), _LONGS.as_pointer())


def _load_eight(context, builder, signature, arguments, array, index):
    return builder.load(_eight_at(context, builder, signature, arguments, array, index), align=8)


def _eight_times(builder, number):
    one = builder.insert_element(ir.Constant(_LONGS, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        one, ir.Constant(_LONGS, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8)
    )


def _as_bits(builder, mask):
    return builder.zext(builder.bitcast(mask, _BYTE), _LONG)


@intrinsic
def in_range(typing_context, arena, low, high, key):
    """Bit k: arena[low + k] <= key <= arena[high + k]."""

    def generate(context, builder, signature, arguments):
        keys = _eight_times(builder, arguments[3])
        above = builder.icmp_signed("<=", _load_eight(context, builder, signature, arguments, 0, 1), keys)
        below = builder.icmp_signed("<=", keys, _load_eight(context, builder, signature, arguments, 0, 2))
        return _as_bits(builder, builder.and_(above, below))

    return types.int64(arena, low, high, key), generate


@intrinsic
def at_most(typing_context, arena, first, key):
    """Bit k: arena[first + k] <= key."""

    def generate(context, builder, signature, arguments):
        values = _load_eight(context, builder, signature, arguments, 0, 1)
        return _as_bits(builder, builder.icmp_signed("<=", values, _eight_times(builder, arguments[2])))

    return types.int64(arena, first, key), generate


@intrinsic
def at_least(typing_context, arena, first, key):
    """Bit k: key <= arena[first + k]."""

    def generate(context, builder, signature, arguments):
        values = _load_eight(context, builder, signature, arguments, 0, 1)
        return _as_bits(builder, builder.icmp_signed("<=", _eight_times(builder, arguments[2]), values))

    return types.int64(arena, first, key), generate


@intrinsic
def equal_under(typing_context, arena, values, masks, word):
    """Bit k: the word equals arena[values + k] where arena[masks + k] has ones."""

    def generate(context, builder, signature, arguments):
        words = _eight_times(builder, arguments[3])
        apart = builder.xor(words, _load_eight(context, builder, signature, arguments, 0, 1))
        apart = builder.and_(apart, _load_eight(context, builder, signature, arguments, 0, 2))
        return _as_bits(builder, builder.icmp_unsigned("==", apart, ir.Constant(_LONGS, [0] * 8)))

    return types.int64(arena, values, masks, word), generate


@intrinsic
def _compress_eight(typing_context, arena, first, bits, out, at):
    """Write those of arena[first : first + 8] that have a one in bits to out[at ...], returning the new end.

    Writes all eight places of `out`, the rest being anything. An AVX-512 instruction that LLVM does not find by itself.
    """

    def generate(context, builder, signature, arguments):
        values = _load_eight(context, builder, signature, arguments, 0, 1)
        mask = builder.bitcast(builder.trunc(arguments[2], _BYTE), _MASK)
        kind = ir.FunctionType(_LONGS, [_LONGS, _LONGS, _MASK])
        compress = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.mask.compress.v8i64")
        found = builder.call(compress, [values, ir.Constant(_LONGS, ir.Undefined), mask])
        builder.store(found, _eight_at(context, builder, signature, arguments, 3, 4)).align = 8
        return builder.add(arguments[4], builder.ctpop(arguments[2]))

    return types.int64(arena, first, bits, out, at), generate


@nb.njit(nogil=True, cache=True, inline="always")
def _pick_eight(arena, first, bits, out, at):
    """The same without AVX-512."""
    for k in range(8):
        out[at] = arena[first + k]
        at += (bits >> k) & 1
    return at


write_eight = _compress_eight if get_host_cpu_features().get("avx512f") else _pick_eight
