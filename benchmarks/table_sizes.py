"""How many entries the tables of a plugin have, however deep they lie: what grows with the work done is a leak."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any

from tests.cluster.helpers import plugin_of


def sizes_on(dask_worker: Any) -> dict[str, int]:
    """Return the sizes of a worker's tables; `client.run` calls it there."""
    return sizes(plugin_of(dask_worker))


def sizes(root: Any) -> dict[str, int]:
    """Return the entries of all collections that are reached from an object by way of daskevo's own objects.

    Returns
    -------
    dict
        Path of the attribute -> entries; those of the same class, in the same place, are added up.
    """
    found: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [(type(root).__name__, root)]
    while waiting:
        path, one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, (Mapping, list, set, deque)):
            found[path] += len(one)
            parts = [*one.values()] if isinstance(one, Mapping) else [*one]
            waiting += [(f"{path}[]", part) for part in parts]
        elif isinstance(one, tuple):
            waiting += [(path, part) for part in one]
        elif type(one).__module__.startswith("daskevo"):
            waiting += [(f"{type(one).__name__}.{name}", part) for name, part in _attributes(one)]
    return dict(found)


def _attributes(one: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(one, "__dict__", {}).items()
    for base in type(one).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(one, name):
                yield name, getattr(one, name)
