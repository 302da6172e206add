"""Names data of any kind by their content: those of a training loop of one's own, which nothing else looks into."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np
import xxhash

DEEPEST = 100
"""How deep in lists and the like content counts: some hold themselves."""


def content_digest(data: Any) -> str:
    """Name data by their content, in any process the same.

    Arrays (also those of others that numpy can read: data frames, tensors in memory), numbers, texts and bytes count,
    in lists, tuples, sets, dicts and dataclasses; of anything else its type only.

    Returns
    -------
    str
        32 hexadecimal digits.

    Examples
    --------
    >>> import numpy as np
    >>> content_digest({"x": np.arange(3)}) == content_digest({"x": np.array([0, 1, 2])})
    True
    >>> content_digest({"x": np.arange(3)}) == content_digest({"x": np.arange(3.0)})
    False
    """
    digest = xxhash.xxh3_128()
    for part in _parts(data, 0):
        digest.update(part)
    return digest.hexdigest()


def _parts(value: Any, depth: int) -> Iterator[Any]:
    """Yield what tells a value from others, as bytes."""
    yield f"{type(value).__module__}.{type(value).__qualname__} ".encode()
    inside: list[Any] | None = None
    match value:
        case None | bool() | int() | float() | complex() | str():
            yield f"{value!r} ".encode()
        case bytes() | bytearray():
            yield f"{len(value)} ".encode()
            yield bytes(value)
        case Mapping():
            inside = [part for item in sorted(value.items(), key=lambda item: repr(item[0])) for part in item]
        case Set():
            inside = sorted(value, key=repr)
        case list() | tuple():
            inside = list(value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            inside = [getattr(value, field.name) for field in dataclasses.fields(value)]
        case np.ma.MaskedArray():
            inside = [value.data, np.ma.getmaskarray(value)]
        case _ if (array := _array(value)) is not None and array.dtype != object:
            yield f"{array.dtype.str} {array.shape} ".encode()
            yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        case _ if array is not None:
            yield f"{array.shape} ".encode()
            inside = array.reshape(-1).tolist()
    if inside is not None and depth < DEEPEST:
        yield f"{len(inside)} ".encode()
        for part in inside:
            yield from _parts(part, depth + 1)


def _array(value: Any) -> Any:
    if not hasattr(value, "__array__") or isinstance(value, type):
        return None
    try:
        array = np.asarray(value)
    except Exception:  # noqa: BLE001 - somebody else's, on another device for instance
        return None
    return None if array.dtype.hasobject and array.dtype != object else array
