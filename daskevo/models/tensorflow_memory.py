"""TensorFlow's variables and settings: the only file of this room that imports it, once Keras runs on it.

Its variables and host memory share buffers where that is safe (:mod:`daskevo.models.host_memory` says when).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from daskevo.types import dtype_of

ALIGNMENT_BYTES = 64
"""TensorFlow aborts the process when it is given a buffer that isn't aligned so."""

# What numpy and TensorFlow exchange in place. Not strings: asking for them aborts the process.
_EXCHANGED = frozenset(
    {"bool", "complex64", "complex128", "float16", "float32", "float64"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)


def to_host(variable: Any) -> np.ndarray[Any, Any]:
    """Return a variable's values: a read-only array over its memory where that is safe, else a copy."""
    tensor = _read(variable)
    if tensor.dtype.name in _EXCHANGED and tensor.device.endswith("CPU:0"):
        array: np.ndarray[Any, Any] = np.from_dlpack(tensor)
        # Where it could be written to, a copy is made: the memory is the variable's.
        if not array.flags.writeable:
            return array
    return value_of(tensor)


def value_of(tensor: Any) -> np.ndarray[Any, Any]:
    """Return a copy of a tensor's values."""
    # Not `_numpy()`, which is a writable view of the tensor's own memory.
    return np.array(tensor.numpy(), dtype=dtype_of(tensor.dtype.name))


# A TensorFlow variable's own methods do the same, with a name scope, a colocation and a second tensor besides: 30 us
# for each variable of a small model. Those of a distribution strategy are of other classes, and keep to their methods.


def _read(variable: Any) -> Any:
    import tensorflow as tf

    if type(variable) is _plain_variable():
        return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)
    return variable.read_value()


def assign(variable: Any, tensor: Any) -> None:
    """Give a variable the values of a tensor."""
    import tensorflow as tf

    if type(variable) is _plain_variable() and variable.dtype == tensor.dtype and variable.shape == tensor.shape:
        tf.raw_ops.AssignVariableOp(resource=variable.handle, value=tensor)
    else:
        variable.assign(tensor)


@cache
def _plain_variable() -> Any:
    """Return the class of variables that lie in this process' memory."""
    import tensorflow as tf

    # Out of a function that is being traced, where the class would be another.
    with tf.init_scope():
        return type(tf.Variable(False, trainable=False))


def to_tensor(array: np.ndarray[Any, Any]) -> Any:
    """Return a tensor that shares an array's memory, which must be read-only and aligned, where that is possible."""
    import tensorflow as tf

    name = array.dtype.name
    if name in _EXCHANGED:
        return tf.experimental.dlpack.from_dlpack(_Shared.of(array).__dlpack__())
    if name == "bfloat16":
        # It has no form for the exchange, but its bits have.
        bits = tf.experimental.dlpack.from_dlpack(_Shared.of(array.view(np.uint16)).__dlpack__())
        return tf.bitcast(bits, tf.bfloat16)
    return tf.convert_to_tensor(array)


class _Shared:
    """Lends the memory of a read-only array to TensorFlow, whose exchange takes writable ones only; keeps it alive."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(cls(array))


def runs_eagerly() -> bool:
    """Whether ``tf.function`` is set to run its Python code."""
    import tensorflow as tf

    return bool(tf.config.functions_run_eagerly())


def run_eagerly(on: bool) -> None:
    """Let ``tf.function`` run its Python code, or traced graphs again."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(on)
