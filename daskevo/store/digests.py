"""Content hashes of many tensors at once, in threads: xxh3-128 lets other threads run while it reads.

One core hashes 14 GB/s, several times what it writes to a file; so hashing hides behind writing and beside reading.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import xxhash

from daskevo.store.pack import Array, portable, raw

T = TypeVar("T")

FEW_BYTES = 1 << 20
"""Below this, handing work to a thread costs more than the work."""
_GROUP_BYTES = 8 << 20
_MOST_THREADS = 8


@cache
def threads() -> ThreadPoolExecutor:
    """Return the threads of this process for work on tensors that lets the interpreter go: hashing and reading."""
    return ThreadPoolExecutor(min(_MOST_THREADS, len(os.sched_getaffinity(0))), "daskevo-tensors")


def groups(items: Sequence[T], nbytes: Callable[[T], int]) -> Iterator[list[T]]:
    """Split into runs of about 8 MiB: few enough to cost nothing, small enough to share out."""
    run: list[T] = []
    total = 0
    for item in items:
        run.append(item)
        total += nbytes(item)
        if total >= _GROUP_BYTES:
            yield run
            run, total = [], 0
    if run:
        yield run


def digest(array: Any) -> str:
    """Return the xxh3-128 of the stored bytes as 32 hex digits. Shape and dtype aren't part of it."""
    return hash_of(portable(array))


def hash_of(array: Array) -> str:
    """Return the digest of an array that is portable already."""
    return str(xxhash.xxh3_128_hexdigest(raw(array).data))


def digesting(arrays: Mapping[int, Array]) -> Callable[[], dict[int, str]]:
    """Begin to hash portable arrays; return what waits for the digests, by number.

    Nobody may write to the arrays meanwhile.
    """
    if sum(array.nbytes for array in arrays.values()) < FEW_BYTES:
        found = {number: hash_of(array) for number, array in arrays.items()}
        return lambda: found
    work: list[Future[dict[int, str]]] = [
        threads().submit(_hash, group) for group in groups(list(arrays.items()), lambda item: item[1].nbytes)
    ]
    return lambda: {number: digest for part in work for number, digest in part.result().items()}


def _hash(arrays: Sequence[tuple[int, Array]]) -> dict[int, str]:
    return {number: hash_of(array) for number, array in arrays}


def digests(arrays: Mapping[int, Array]) -> dict[int, str]:
    """Return the digests of portable arrays by number."""
    return digesting(arrays)()
