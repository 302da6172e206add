"""The contract of `Tensors`, for ours and for yours: call :func:`check_tensors` in a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.store.pack import Array, raw
from daskevo.store.segment_tier import TensorKey
from daskevo.store.tiers import Tensors
from daskevo.testing.arrays import awkward_arrays, same_tensor
from daskevo.types import ModelId, Tick

MODEL, FIRST, SECOND = ModelId("Model"), Tick(1, 1), Tick(1, 2)


def check_tensors(make: Callable[[], Tensors], memory_bytes: int | None = None) -> None:
    """Check what every place for tensors promises beyond a mapping; raises AssertionError on the first broken promise.

    Parameters
    ----------
    make:
        Makes an empty one.
    memory_bytes:
        Its budget for tensors in memory, if it has one.
    """
    _check_whole(make(), memory_bytes)
    _check_all_or_nothing(make())
    _check_missing(make())
    _check_free(make())
    _check_attempts(make())
    _check_ranges(make())


def _put(tensors: Tensors, numbers: Iterable[int], attempt: Tick = FIRST) -> dict[int, Array]:
    arrays: dict[int, Array] = {n: np.arange(10 * (n + 1), dtype=np.float32) + attempt.counter for n in numbers}
    tensors.put(MODEL, attempt, arrays)
    return arrays


def _keys(numbers: Iterable[int], attempt: Tick = FIRST) -> list[TensorKey]:
    return [(MODEL, attempt, number) for number in numbers]


def _check_whole(tensors: Tensors, memory_bytes: int | None) -> None:
    arrays = dict(enumerate(awkward_arrays().values()))
    tensors.put(MODEL, FIRST, arrays, {"any": "words"})
    nbytes = sum(array.nbytes for array in arrays.values())
    # Twice: the first read may move a tensor from disk to memory, and that copy must be the same.
    for _ in range(2):
        found = tensors.read(_keys(arrays))
        for key, array in zip(_keys(arrays), arrays.values(), strict=True):
            assert same_tensor(found[key], array), f"tensor {key[2]} must come back bit by bit"
            assert not found[key].flags.writeable, "what is read must not be written to"
    assert tensors.payload_bytes == nbytes, "each tensor is counted, and once, wherever it lies"
    # A segment has a header and padding besides its tensors.
    assert tensors.stored_bytes >= nbytes, "what is stored takes what it is, or more"
    assert memory_bytes is None or tensors.memory_bytes <= memory_bytes, "no more memory than the budget"
    tensors.put(MODEL, FIRST, arrays)
    assert tensors.payload_bytes == nbytes, "what replaces is not counted beside what it replaced"


def _check_all_or_nothing(tensors: Tensors) -> None:
    kept = _put(tensors, range(3))
    before = tensors.payload_bytes
    # The array that is refused comes last, so a put that stores one after the other has begun when it fails.
    bad = {0: np.zeros(7), 3: np.ones(2), 4: np.array(["no number"])}
    # As a replacement of an attempt that is there, and as a new one.
    for attempt in (FIRST, SECOND):
        try:
            tensors.put(MODEL, attempt, bad)
        except InvalidInput:
            pass
        else:
            raise AssertionError("what can't be stored must be refused")
    assert set(tensors) == set(_keys(kept)), "of a put that was refused nothing may be there"
    for key, array in zip(_keys(kept), kept.values(), strict=True):
        assert same_tensor(tensors[key], array), "a put that was refused must leave what was there"
    assert tensors.payload_bytes == before, "a put that was refused must not be counted"


def _check_missing(tensors: Tensors) -> None:
    _put(tensors, range(2))
    # Number, attempt, and an id in other case, which a file system may take for the same.
    for keys in (_keys([0, 7]), _keys([0], SECOND), [(ModelId("model"), FIRST, 0)]):
        try:
            tensors.read(keys)
        except KeyError:
            continue
        raise AssertionError("a tensor that isn't there must be a KeyError, also beside others")
    try:
        tensors.range((MODEL, FIRST, 7), 0, 1)
    except KeyError:
        return
    raise AssertionError("a part of a tensor that isn't there must be a KeyError")


def _check_free(tensors: Tensors) -> None:
    arrays = _put(tensors, range(4))
    # Twice, because a message that frees may arrive twice.
    for _ in range(2):
        tensors.free(MODEL, FIRST, [1, 3, 9])
        assert set(tensors) == set(_keys([0, 2])), "what is freed is gone, what has gone may be freed again"
        assert tensors.payload_bytes == arrays[0].nbytes + arrays[2].nbytes, "what is freed is counted no more"
    assert all(same_tensor(tensors[key], arrays[key[2]]) for key in _keys([0, 2])), "the others must stay"
    tensors.free(MODEL, FIRST, range(4))
    assert (len(tensors), tensors.payload_bytes, tensors.memory_bytes) == (0, 0, 0), "bytes must return to zero"


def _check_attempts(tensors: Tensors) -> None:
    first, second = _put(tensors, range(2)), _put(tensors, range(2), SECOND)
    for arrays, attempt in ((first, FIRST), (second, SECOND)):
        for key in _keys(arrays, attempt):
            assert same_tensor(tensors[key], arrays[key[2]]), "attempts of one model must be kept apart"
    tensors.free(MODEL, FIRST, range(2))
    assert set(tensors) == set(_keys(range(2), SECOND)), "freeing one attempt must leave the other"


def _check_ranges(tensors: Tensors) -> None:
    arrays = _put(tensors, range(3))
    for key in _keys(arrays):
        whole = raw(arrays[key[2]])
        # The whole, nothing, a part that cuts through elements, the last byte.
        for start, stop in ((0, whole.size), (0, 0), (3, 11), (whole.size - 1, whole.size)):
            part = tensors.range(key, start, stop)
            assert part.dtype == np.uint8, "parts are bytes"
            assert bytes(part) == bytes(whole[start:stop]), "a part must be those bytes of the tensor"
