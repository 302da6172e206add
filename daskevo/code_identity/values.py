"""Kinds of values: which say all in their text, which are arrays in memory, and in which order sets are looked at."""

from __future__ import annotations

import dataclasses
import enum
import pathlib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import numpy as np

BY_TEXT = (pathlib.PurePath, range, slice, np.dtype, types.GenericAlias, types.UnionType, typing.TypeVar)

BY_TEXT_FROM = frozenset({"datetime", "decimal", "fractions", "uuid", "zoneinfo", "typing"})

SHOWN_IN_FULL = frozenset({bool, int, float, complex, str, type(None)})

CONTAINERS = (bool, int, float, complex, str, bytes, bytearray, memoryview, list, tuple, set, frozenset, dict)

_IN_MEMORY = frozenset({"numpy", "pandas", "polars", "keras", "tensorflow", "jax", "jaxlib", "torch"})
"""Packages whose arrays are in memory. Those of others, such as h5py, zarr and Dask, may be larger than that."""


def array_of(value: Any) -> Any:
    """Return what is in memory as an array; None if it is none, or would have to be read from somewhere."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if not hasattr(value, "__array__") or not is_in_memory(type(value)):
        return None
    try:
        return np.asarray(value)
    except Exception:  # noqa: BLE001 - somebody else's, on another device for instance
        return None


def is_in_memory(kind: type) -> bool:
    return any(base.__module__.partition(".")[0] in _IN_MEMORY for base in kind.__mro__)


def is_plain(value: Any) -> bool:
    return type(value) in (*CONTAINERS, type(None), type(Ellipsis), type(NotImplemented), types.MappingProxyType)


def is_member(value: Any) -> bool:
    return isinstance(
        value,
        types.MemberDescriptorType
        | types.GetSetDescriptorType
        | types.MethodDescriptorType
        | types.MethodWrapperType
        | types.ClassMethodDescriptorType,
    )


def slots_of(base: type) -> Iterable[str]:
    slots = vars(base).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else slots
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def reduced_of(value: Any) -> Any:
    """Return what pickle would make an object of C code again from; None if it can't, or if reading it changes it."""
    if isinstance(value, Iterator):
        return None
    try:
        # Items of lists and dicts come as iterators, whose own text would be an address.
        found = value.__reduce_ex__(2)
        return found if isinstance(found, str) else [[*part] if isinstance(part, Iterator) else part for part in found]
    except Exception:  # noqa: BLE001 - somebody else's
        return None


def order_of(value: Any) -> str:
    """Return a text to sort values by, the same in any process: no address, nor an order that hashes give, is in it.

    Objects whose text says less than they hold stand behind their kind's name alone.
    """
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return f"{name} {value.__module__}.{value.__qualname__}"
    if isinstance(value, enum.Enum):
        return f"{name} {value.name}"
    if isinstance(value, Mapping):
        return f"{name} {sorted((order_of(key), order_of(inside)) for key, inside in value.items())}"
    if isinstance(value, Set):
        return f"{name} {sorted(map(order_of, value))}"
    if isinstance(value, list | tuple):
        return f"{name} {[*map(order_of, value)]}"
    if dataclasses.is_dataclass(value):
        return f"{name} {[order_of(getattr(value, field.name, None)) for field in dataclasses.fields(value)]}"
    if isinstance(value, (*CONTAINERS, np.generic, type(None), *BY_TEXT)) or kind.__module__ in BY_TEXT_FROM:
        return f"{name} {value!r}"
    return name


def frames_of(data: bytes) -> Iterator[bytes]:
    # The length first: otherwise two values could be cut at another place and give the same bytes.
    yield f"{len(data)} ".encode()
    yield data
