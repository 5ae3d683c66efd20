"""Putting side by side those of sixteen entries that passed their tests: the one step for which processors differ.

    entries   7 12 31 40        bits  1 0 1 1  (the lowest first)        written  7 31 40, then anything

| way     | instruction                                    | processors                        |
| ------- | ---------------------------------------------- | --------------------------------- |
| avx512  | compress, sixteen at a time                    | x86 with AVX-512                  |
| avx2    | permute by a table of 256 rows, eight a time   | x86 with AVX2                     |
| bytes   | byte shuffle by a table of 16 rows, four a time| x86 with SSSE3; ARM (NEON)        |
| loop    | none: a store for each entry, without branches | all others                        |

The way is chosen when this module is imported, by what the code is compiled for: the processor, unless NUMBA_CPU_FEATURES or
NUMBA_CPU_NAME=generic say otherwise. The compares before it (`simd`) are LLVM's own vectors and run everywhere.
AVX-512's result goes to a register and is stored whole: straight to memory, the instruction takes over a hundred cycles on some
processors. Source of the tables: Schlegel, Willhalm and Lehner 2011, "Fast sorted-set intersection using SIMD instructions",
where a byte shuffle is likewise looked up by a mask.
Rule: all sixteen places of `out` from `at` on may be written, whatever the bits.
"""

# Numba infers the types.
# mypy: ignore-errors

from __future__ import annotations

import platform

import numba as nb
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

_BYTE, _SHORT, _INT, _LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_INTS, _MASK = ir.VectorType(_INT, 16), ir.VectorType(ir.IntType(1), 16)
_EIGHT, _FOUR, _BYTES = ir.VectorType(_INT, 8), ir.VectorType(_INT, 4), ir.VectorType(_BYTE, 16)


def _way() -> str:
    """What the code is compiled for, as Numba sees it."""
    if config.CPU_FEATURES is None:
        has = {name for name, there in get_host_cpu_features().items() if there}
    else:
        has = {each[1:] for each in config.CPU_FEATURES.split(",") if each.startswith("+")}
    if platform.machine().lower() in ("arm64", "aarch64"):
        return "bytes" if "neon" in has or config.CPU_FEATURES is None else "loop"
    return "avx512" if "avx512f" in has else "avx2" if "avx2" in has else "bytes" if "ssse3" in has else "loop"


WAY = _way()


def _rows(width, cell):
    """For each mask of `width` bits the places of its ones and then zeros, each as the bytes that `cell` makes of it."""
    for mask in range(1 << width):
        ones = [place for place in range(width) if mask >> place & 1]
        yield [byte for place in ones + [0] * (width - len(ones)) for byte in cell(place)]


_TABLES = {
    "avx2": list(_rows(8, lambda place: [place])),
    "bytes": list(_rows(4, lambda place: range(4 * place, 4 * place + 4))),
}


def _table(builder, way):
    """The table as a constant of the module."""
    rows = _TABLES[way]
    kind = ir.ArrayType(_BYTE, len(rows) * len(rows[0]))
    name = f"contentcast.compaction.{way}"
    found = builder.module.globals.get(name)
    if found is None:
        found = cgutils.add_global_variable(builder.module, kind, name)
        found.linkage, found.global_constant, found.align = "internal", True, 16
        found.initializer = ir.Constant(kind, bytearray(byte for row in rows for byte in row))
    return builder.bitcast(found, _BYTE.as_pointer())


def _place(context, builder, signature, arguments, array, at, kind):
    """A pointer to arguments[array][at] as something of this kind."""
    data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
    return builder.bitcast(builder.gep(data, [at]), kind.as_pointer())


def _compressing(few):
    """AVX-512. With `few`, the last eight are stored only if need be, a branch that pays where it is rare."""

    @intrinsic
    def compress_sixteen(typing_context, arena, first, bits, out, at):
        def generate(context, builder, signature, arguments):
            def store_half(begin):
                places = ir.Constant(_EIGHT, list(range(begin, begin + 8)))
                half = builder.sext(builder.shuffle_vector(found, ir.Constant(_INTS, ir.Undefined), places), longs)
                to = builder.add(arguments[4], ir.Constant(_LONG, begin))
                builder.store(half, _place(context, builder, signature, arguments, 3, to, longs)).align = 8

            longs = ir.VectorType(_LONG, 8)
            values = builder.load(_place(context, builder, signature, arguments, 0, arguments[1], _INTS), align=4)
            mask = builder.bitcast(builder.trunc(arguments[2], _SHORT), _MASK)
            kind = ir.FunctionType(_INTS, [_INTS, _INTS, _MASK])
            compress = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.mask.compress.v16i32")
            found = builder.call(compress, [values, ir.Constant(_INTS, ir.Undefined), mask])
            count = builder.ctpop(arguments[2])
            store_half(0)
            if few:
                with builder.if_then(builder.icmp_unsigned(">", count, ir.Constant(_LONG, 8)), likely=False):
                    store_half(8)
            else:
                store_half(8)
            return builder.add(arguments[4], count)

        return types.int64(arena, first, bits, out, at), generate

    return compress_sixteen


def _permuting(way, width):
    """Those of `width` entries that have a one, by a table of permutations, one `width` after the other."""

    def permute(builder, values, mask):
        row = builder.gep(_table(builder, way), [builder.mul(mask, ir.Constant(_LONG, len(_TABLES[way][0])))])
        if way == "avx2":
            packed = builder.load(builder.bitcast(row, ir.VectorType(_BYTE, 8).as_pointer()), align=8)
            kind = ir.FunctionType(_EIGHT, [_EIGHT, _EIGHT])
            instruction = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.permd")
            return builder.call(instruction, [values, builder.zext(packed, _EIGHT)])
        arm = platform.machine().lower() in ("arm64", "aarch64")
        name = "llvm.aarch64.neon.tbl1.v16i8" if arm else "llvm.x86.ssse3.pshuf.b.128"
        instruction = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_BYTES, [_BYTES, _BYTES]), name)
        places = builder.load(builder.bitcast(row, _BYTES.as_pointer()), align=16)
        return builder.bitcast(builder.call(instruction, [builder.bitcast(values, _BYTES), places]), _FOUR)

    @intrinsic
    def permute_sixteen(typing_context, arena, first, bits, out, at):
        def generate(context, builder, signature, arguments):
            ints, longs = ir.VectorType(_INT, width), ir.VectorType(_LONG, width)
            to = arguments[4]
            for begin in range(0, 16, width):
                start = builder.add(arguments[1], ir.Constant(_LONG, begin))
                values = builder.load(_place(context, builder, signature, arguments, 0, start, ints), align=4)
                mask = builder.lshr(arguments[2], ir.Constant(_LONG, begin))
                mask = builder.and_(mask, ir.Constant(_LONG, (1 << width) - 1))
                found = builder.sext(permute(builder, values, mask), longs)
                builder.store(found, _place(context, builder, signature, arguments, 3, to, longs)).align = 8
                to = builder.add(to, builder.ctpop(mask))
            return to

        return types.int64(arena, first, bits, out, at), generate

    return permute_sixteen


@nb.njit(nogil=True, cache=True, inline="always")
def _pick_sixteen(arena, first, bits, out, at):
    for k in range(16):
        out[at] = arena[first + k]
        at += (bits >> k) & 1
    return at


# write_sixteen(arena, first, bits, out, at) writes those of arena[first : first + 16] that have a one in bits to out[at ...].
# It returns the new end. write_few does the same, for places where mostly few have one.
if WAY == "avx512":
    write_sixteen, write_few = _compressing(few=False), _compressing(few=True)
elif WAY == "loop":
    write_sixteen = write_few = _pick_sixteen
else:
    write_sixteen = write_few = _permuting(WAY, 8 if WAY == "avx2" else 4)
