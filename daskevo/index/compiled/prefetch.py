"""Ask the memory for what is read soon: most of a query's time is waiting for cache lines that are known early."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

_NAME = "llvm.prefetch.p0i8"
_INT = ir.IntType(32)
_READ, _KEEP, _DATA = 0, 3, 1
"""Arguments of LLVM's `llvm.prefetch`: not to write; into all levels of the cache; no instructions."""


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Fetch the cache line of ``array[index]`` beside what goes on; the index may not exist, nothing is read."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        data = make_array(kind)(context, builder, arguments[0])
        place = context.cast(builder, arguments[1], signature.args[1], types.intp)
        pointer = cgutils.get_item_pointer(context, builder, kind, data, [place], wraparound=False)
        address = builder.bitcast(pointer, cgutils.voidptr_t)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, _INT, _INT, _INT]),
            _NAME,
        )
        builder.call(function, [address, _INT(_READ), _INT(_KEEP), _INT(_DATA)])
        return context.get_dummy_value()

    return types.none(array, index), generate
