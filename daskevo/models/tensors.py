"""Reading and writing the tensors of a flattened model, by tensor number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.models.flat import FlatModel
from daskevo.models.host_memory import to_host, to_variable
from daskevo.models.keras_private import has_value
from daskevo.types import TensorSpec


def read_tensors(flat: FlatModel, numbers: Iterable[int] | None = None) -> list[np.ndarray[Any, Any]]:
    """Return snapshots of tensors in host memory.

    Parameters
    ----------
    flat:
        The flattened model.
    numbers:
        Tensor numbers, in the order wanted; by default all.

    Returns
    -------
    Read-only, C-contiguous, little-endian arrays with the shapes and dtypes of ``flat.graph.tensors``. Training
    doesn't change them.

    Raises
    ------
    InvalidInput
        If a number is out of range, the model has changed since it was flattened, or it was built without values.
    """
    variables = flat.variables()
    wanted = range(len(variables)) if numbers is None else list(numbers)
    return [to_host(_variable(flat, variables, number)) for number in wanted]


def write_tensors(flat: FlatModel, arrays: Mapping[int, np.ndarray[Any, Any]]) -> None:
    """Give tensors new values; nothing is written unless everything fits.

    Parameters
    ----------
    flat:
        The flattened model.
    arrays:
        Tensor number -> values. A read-only array in aligned memory is shared with the model and may never be written
        to again; any other is copied. Values aren't looked at: NaN is written like any other.

    Raises
    ------
    InvalidInput
        If a number, shape or dtype doesn't fit, the model has changed since it was flattened, or it was built without
        values.
    """
    variables = flat.variables()
    for number, array in arrays.items():
        _variable(flat, variables, number)
        expected = flat.graph.tensors[number].spec
        # Keras itself would cast without a word.
        if not isinstance(array, np.ndarray) or TensorSpec.of(array) != expected:
            found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            raise InvalidInput(
                f"tensor {number} ({_label(flat, number)}) is {expected.dtype} {expected.shape}; found {found}: "
                "pass an array of exactly that shape and dtype",
                number=number,
            )
    for number, array in arrays.items():
        to_variable(variables[number], array)
    for index in {flat.graph.tensors[number].layer for number in arrays}:
        # Normalization computes with values that it derives from its weights once.
        finalize = getattr(flat.layers[index], "finalize_state", None)
        if finalize is not None:
            finalize()


def _variable(flat: FlatModel, variables: list[Any], number: int) -> Any:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or not 0 <= number < len(variables):
        raise InvalidInput(f"the model has tensors 0 to {len(variables) - 1}; asked for {number!r}", number=number)
    variable = variables[number]
    if not has_value(variable):
        raise InvalidInput(
            f"tensor {number} ({_label(flat, number)}) has no value: the model was built in shape_only(), which is "
            "for graphs alone; build it again outside",
            number=number,
        )
    return variable


def _label(flat: FlatModel, number: int) -> str:
    key = flat.graph.tensors[number]
    return f"weight {key.index} of layer {flat.graph.layers[key.layer].name!r}"
