"""Between Keras variables and host memory: one function for each direction.

On TensorFlow and in the CPU's memory both are free of copies: a variable's buffer is read in place, and a read-only
array becomes a variable's buffer. That is safe because TensorFlow writes to a buffer only if it is the only one to
refer to it and the buffer is its own; otherwise an update makes a new one. Figures: 419 MB are read in 11 ms and
written in 5 ms, against 230 and 370 ms by ``numpy()`` and ``assign``. On JAX and PyTorch each direction is a copy.
"""

from __future__ import annotations

import warnings
from typing import Any

import keras
import numpy as np

from daskevo.errors import InvalidInput
from daskevo.models import tensorflow_memory
from daskevo.models.tensorflow_memory import ALIGNMENT_BYTES


def to_host(variable: Any) -> np.ndarray[Any, Any]:
    """Return the value of a Keras variable as a read-only, C-contiguous array that later updates don't change.

    Raises
    ------
    InvalidInput
        If Keras' backend holds the variable in another dtype than the variable says.
    """
    if keras.backend.backend() == "tensorflow":
        return _frozen(tensorflow_memory.to_host(variable.value))
    _check_dtype(variable.value, str(variable.dtype))
    return _frozen(value_of(variable.value))


def value_of(tensor: Any) -> np.ndarray[Any, Any]:
    """Return a copy of a backend tensor's values."""
    if keras.backend.backend() == "tensorflow":
        return tensorflow_memory.value_of(tensor)
    return np.array(keras.ops.convert_to_numpy(tensor))


def _frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    # Not a view: what is stored without a copy is memory that nobody can write to.
    array = np.asarray(array, order="C")
    array.flags.writeable = False
    return array


def to_variable(variable: Any, array: np.ndarray[Any, Any]) -> None:
    """Give a Keras variable the values of an array of its shape and dtype.

    A read-only, aligned array is shared where possible; nobody may write to its memory from then on. Any other is
    copied first, so that its owner may.

    Raises
    ------
    InvalidInput
        If Keras' backend has no such dtype here.
    """
    tensor = to_tensor(array)
    if keras.backend.backend() == "tensorflow":
        tensorflow_memory.assign(variable.value, tensor)
    else:
        variable.assign(tensor)


def to_tensor(array: np.ndarray[Any, Any]) -> Any:
    """Return a backend tensor with the values of an array, which shares its memory or a copy as `to_variable` says.

    Raises
    ------
    InvalidInput
        If Keras' backend has no such dtype here.
    """
    array = np.asarray(array, dtype=array.dtype.newbyteorder("="))
    if keras.backend.backend() != "tensorflow":
        with warnings.catch_warnings():
            # JAX warns of 64 bits that it cuts off; the check refuses them.
            warnings.simplefilter("ignore", UserWarning)
            tensor = keras.ops.convert_to_tensor(np.array(array))
        _check_dtype(tensor, array.dtype.name)
        return tensor
    return tensorflow_memory.to_tensor(array if is_shareable(array) else aligned_copy(array))


def _check_dtype(tensor: Any, wanted: str) -> None:
    """Refuse what the backend has made of a dtype: JAX keeps 64 bits as 32 unless told otherwise, values cut off."""
    found = keras.backend.standardize_dtype(tensor.dtype)
    if found != wanted:
        raise InvalidInput(
            f"a weight or constant of {wanted} was asked for, and Keras on {keras.backend.backend()} holds it as "
            f"{found}, which has other values: set JAX_ENABLE_X64=1 before Keras is imported, or use another backend",
            dtype=wanted,
            found=found,
        )


def is_shareable(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array's memory may become a variable's: read-only, C-contiguous and aligned."""
    flags = array.flags
    return not flags.writeable and flags.c_contiguous and array.ctypes.data % ALIGNMENT_BYTES == 0


def aligned_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a read-only, C-contiguous copy in aligned memory."""
    # numpy promises no such alignment, so the block is larger, and the copy begins where it is aligned.
    block = np.empty(array.nbytes + ALIGNMENT_BYTES, np.uint8)
    start = -block.ctypes.data % ALIGNMENT_BYTES
    copy: np.ndarray[Any, Any] = block[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    copy.flags.writeable = False
    return copy
