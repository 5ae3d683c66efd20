"""Sets of small numbers as bits in 64-bit words, for kernels."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic


@intrinsic
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """The position of the lowest bit that is set: one machine instruction, which Numba has no name for."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate
