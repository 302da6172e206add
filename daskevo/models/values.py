"""Call arguments as JSON values, and back: numbers, strings, nestings, slices, arrays, dtypes.

JSON has no tuple, slice, array or infinity; such a value becomes ``{"$": kind, ...}``. Nothing is imported or run on
the way back.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import keras
import numpy as np

from daskevo.errors import CorruptRecord
from daskevo.models.host_memory import value_of
from daskevo.types import JSON, dtype_of


class NotStorable(Exception):
    """A value that has no JSON form here."""


def encode(value: Any, tensor: Callable[[Any], JSON], *, digests: bool = False) -> JSON:
    """Return the JSON form of a call argument.

    Parameters
    ----------
    value:
        The argument; KerasTensors may stand anywhere in it.
    tensor:
        Gives what stands for a KerasTensor.
    digests:
        Write a digest of each array instead of its bytes, and tuples as lists (which is what Keras' files make of
        them): enough to compare, not to rebuild.

    Raises
    ------
    NotStorable
        If some part of it has no JSON form.
    """

    def walk(part: Any) -> JSON:
        if part is None or isinstance(part, (bool, str)):
            return part
        if isinstance(part, keras.KerasTensor):
            return tensor(part)
        if isinstance(part, (list, tuple)):
            items = [walk(item) for item in part]
            return {"$": "tuple", "items": items} if isinstance(part, tuple) and not digests else items
        if isinstance(part, dict):
            if all(isinstance(key, str) and key != "$" for key in part):
                return {key: walk(item) for key, item in part.items()}
            return {"$": "dict", "items": [[walk(key), walk(item)] for key, item in part.items()]}
        if type(part) is int:
            return part if -(2**63) <= part < 2**63 else {"$": "int", "value": hex(part)}
        if type(part) is float:
            return part if math.isfinite(part) else {"$": "float", "value": repr(part)}
        if isinstance(part, slice):
            return {"$": "slice", "items": [walk(part.start), walk(part.stop), walk(part.step)]}
        if part is Ellipsis:
            return {"$": "ellipsis"}
        if isinstance(part, np.dtype) or type(part).__name__ == "DType":
            return keras.backend.standardize_dtype(part)
        if isinstance(part, (np.ndarray, np.generic)) and not isinstance(part, np.ma.MaskedArray):
            return _array(np.asarray(part), "array", digests)
        if keras.ops.is_tensor(part) and not is_variable(part):
            return _array(value_of(part), "tensor", digests)
        raise NotStorable(f"{type(part).__module__}.{type(part).__qualname__}")

    return walk(value)


def is_variable(value: object) -> bool:
    """Whether a value is a variable, of Keras or of the backend."""
    return isinstance(value, keras.Variable) or (hasattr(value, "assign") and keras.ops.is_tensor(value))


def _array(array: np.ndarray[Any, Any], kind: str, digests: bool) -> JSON:
    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).reshape(array.shape)
    try:
        dtype_of(array.dtype.name)
    except CorruptRecord as error:
        raise NotStorable(f"an array of {array.dtype}") from error
    data = array.tobytes()
    found = {"$": kind, "dtype": array.dtype.name, "shape": list(array.shape)}
    if digests:
        return {**found, "digest": blake2b(data, digest_size=16).hexdigest()}
    return {**found, "data": base64.b64encode(data).decode("ascii")}


def decode(value: JSON, tensor: Callable[[JSON], Any]) -> Any:
    """Return what `encode` was given.

    Parameters
    ----------
    value:
        What `encode` made without `digests`; hostile values are refused.
    tensor:
        Gives the KerasTensor for a ``{"$": "edge", ...}``.

    Raises
    ------
    CorruptRecord
        If it is anything else.
    """

    def walk(part: JSON) -> Any:
        if isinstance(part, list):
            return [walk(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$" not in part:
            return {key: walk(item) for key, item in part.items()}
        match part:
            case {"$": "edge"}:
                return tensor(part)
            case {"$": "tuple", "items": list() as items}:
                return tuple(walk(item) for item in items)
            case {"$": "dict", "items": list() as items}:
                return _dict([[walk(piece) for piece in item] for item in items if isinstance(item, list)])
            case {"$": "int", "value": str() as text} if len(text) <= 100:
                return _number(int, text, 16)
            case {"$": "float", "value": ("inf" | "-inf" | "nan") as text}:
                return float(text)
            case {"$": "slice", "items": [start, stop, step]}:
                return slice(walk(start), walk(stop), walk(step))
            case {"$": "ellipsis"}:
                return Ellipsis
            case {"$": ("array" | "tensor") as kind, "dtype": dtype, "shape": list() as shape, "data": str() as data}:
                array = _from_bytes(dtype, shape, data)
                return array if kind == "array" else keras.ops.convert_to_tensor(array)
        raise CorruptRecord(f"a call argument of kind {str(part['$'])[:40]!r} is malformed or unknown")

    return walk(value)


def _number(make: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return make(*arguments)
    except ValueError as error:
        raise CorruptRecord(f"a call argument is no number: {error}") from error


def _dict(items: list[list[Any]]) -> dict[Any, Any]:
    try:
        return {key: item for key, item in items}  # noqa: C416 - says that each is a pair
    except (TypeError, ValueError) as error:
        raise CorruptRecord(f"a call argument holds a malformed dict: {error}") from error


def _from_bytes(dtype: JSON, shape: list[JSON], data: str) -> np.ndarray[Any, Any]:
    kind = dtype_of(dtype)
    try:
        found = np.frombuffer(base64.b64decode(data, validate=True), dtype=kind).reshape(shape)
    except (TypeError, ValueError) as error:
        raise CorruptRecord(f"a constant array of a call is malformed: {error}") from error
    # What lies over the decoded bytes is read-only, and whoever is called may write to its argument.
    return found.copy()
