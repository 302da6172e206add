"""Reading and writing the tensors of a flattened model, by tensor number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.graph import ArchitectureGraph
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
    check_tensors(flat.graph, arrays)
    # All are looked at before the first is written: an error leaves the model as it was.
    for number in arrays:
        _variable(flat, variables, number)
    for number, array in arrays.items():
        to_variable(variables[number], array)
    finalize(flat, arrays)


def check_tensors(graph: ArchitectureGraph, arrays: Mapping[int, np.ndarray[Any, Any]]) -> None:
    """Raise InvalidInput unless each array has the shape and dtype of the tensor of its number."""
    for number, array in arrays.items():
        _check_number(number, len(graph.tensors))
        expected = graph.tensors[number].spec
        # Keras itself would cast without a word.
        if not isinstance(array, np.ndarray) or TensorSpec.of(array) != expected:
            found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            raise InvalidInput(
                f"tensor {number} ({_label(graph, number)}) is {expected.dtype} {expected.shape}; found {found}: "
                "pass an array of exactly that shape and dtype",
                number=number,
            )


def finalize(flat: FlatModel, numbers: Iterable[int]) -> None:
    """Let layers that got other weights work out anew what they derive from them (Normalization does, once)."""
    for index in {flat.graph.tensors[number].layer for number in numbers}:
        derive = getattr(flat.layers[index], "finalize_state", None)
        if derive is not None:
            derive()


def _check_number(number: object, count: int) -> None:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or not 0 <= number < count:
        raise InvalidInput(f"the model has tensors 0 to {count - 1}; asked for {number!r}", number=number)


def _variable(flat: FlatModel, variables: list[Any], number: int) -> Any:
    _check_number(number, len(variables))
    variable = variables[number]
    if not has_value(variable):
        raise InvalidInput(
            f"tensor {number} ({_label(flat.graph, number)}) has no value: the model was built in shape_only(), which "
            "is for graphs alone; build it again outside",
            number=number,
        )
    return variable


def _label(graph: ArchitectureGraph, number: int) -> str:
    key = graph.tensors[number]
    return f"weight {key.index} of layer {graph.layers[key.layer].name!r}"
