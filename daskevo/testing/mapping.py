"""The contract of a tensor tier: what every mapping from (model id, attempt, number) to arrays must do.

Subclass in a test module, name the subclass ``Test...`` and give it a fixture ``mapping`` that returns an empty tier.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from daskevo.errors import InvalidInput
from daskevo.store.pack import ALIGNMENT, Array
from daskevo.store.segment_tier import TensorKey
from daskevo.testing.arrays import awkward_arrays, same_tensor
from daskevo.types import ModelId, Tick

Mapping = MutableMapping[TensorKey, Array]


def key(model: str = "model", counter: int = 1, number: int = 0) -> TensorKey:
    """Return a tier's key."""
    return ModelId(model), Tick(1, counter), number


class TierContract:
    """Tests that every tier passes."""

    def test_empty(self, mapping: Mapping) -> None:
        assert isinstance(mapping, MutableMapping)
        assert not mapping
        assert len(mapping) == 0
        assert list(mapping) == list(mapping.keys()) == list(mapping.values()) == list(mapping.items()) == []
        assert key() not in mapping
        assert object() not in mapping
        assert mapping.get(key()) is None
        assert mapping.pop(key(), "nothing") == "nothing"

    def test_missing_keys_are_key_errors(self, mapping: Mapping) -> None:
        mapping[key()] = np.arange(3)
        for missing in (key("other"), key(counter=2), key(number=1)):
            with pytest.raises(KeyError):
                mapping[missing]
            with pytest.raises(KeyError):
                del mapping[missing]
            with pytest.raises(KeyError):
                mapping.pop(missing)
        assert list(mapping) == [key()]

    def test_set_get_replace_delete(self, mapping: Mapping) -> None:
        first, second, third = key(), key(number=1), key("other")
        mapping[first] = np.arange(3)
        mapping[second] = np.ones((2, 2), np.float32)
        mapping[third] = np.zeros(0)
        assert len(mapping) == 3
        assert set(mapping) == set(mapping.keys()) == {first, second, third}
        assert {k: v.tolist() for k, v in mapping.items()} == {first: [0, 1, 2], second: [[1, 1], [1, 1]], third: []}
        assert sorted(v.size for v in mapping.values()) == [0, 3, 4]
        mapping[first] = np.full(5, 7, np.int8)
        assert len(mapping) == 3
        assert same_tensor(mapping[first], np.full(5, 7, np.int8))
        assert same_tensor(mapping[second], np.ones((2, 2), np.float32))
        del mapping[second]
        assert second not in mapping
        assert set(mapping) == {first, third}
        assert same_tensor(mapping.pop(first), np.full(5, 7, np.int8))
        mapping.clear()
        assert len(mapping) == 0
        assert third not in mapping

    def test_update_and_setdefault(self, mapping: Mapping) -> None:
        mapping.update({key(number=n): np.arange(n) for n in range(10)})
        assert len(mapping) == 10
        assert mapping.setdefault(key(number=9), np.zeros(1)).size == 9
        assert mapping.setdefault(key(number=10), np.zeros(1)).size == 1
        assert mapping[key(number=10)].size == 1
        assert all(mapping[key(number=n)].size == n for n in range(10))

    def test_awkward_arrays_come_back_bit_by_bit(self, mapping: Mapping) -> None:
        arrays = awkward_arrays()
        for number, array in enumerate(arrays.values()):
            mapping[key(model=f"m{number % 7}", number=number)] = array
        for number, (name, array) in enumerate(arrays.items()):
            found = mapping[key(model=f"m{number % 7}", number=number)]
            assert same_tensor(found, array), name
            assert found.dtype.byteorder != ">", name

    def test_what_can_not_be_stored_is_refused_and_leaves_nothing(self, mapping: Mapping) -> None:
        refused: list[Any] = [
            np.array(["text"]),
            np.array([None]),
            np.array(["2026-01-01"], "M8[s]"),
            np.zeros(2, [("a", "f4")]),
            np.zeros(1, np.longdouble),
        ]
        for array in refused:
            with pytest.raises(InvalidInput, match="can't be stored"):
                mapping[key()] = array
        assert len(mapping) == 0

    def test_values_are_read_only(self, mapping: Mapping) -> None:
        mapping[key()] = np.arange(3)
        with pytest.raises(ValueError, match="read-only"):
            mapping[key()][0] = 1
        assert mapping[key()].tolist() == [0, 1, 2]

    def test_later_changes_of_the_source_do_not_reach_in(self, mapping: Mapping) -> None:
        source = np.arange(4)
        mapping[key()] = source
        mapping[key(number=1)] = source[1:3]
        source[:] = -1
        assert mapping[key()].tolist() == [0, 1, 2, 3]
        assert mapping[key(number=1)].tolist() == [1, 2]

    def test_memory_is_aligned(self, mapping: Mapping) -> None:
        for number in range(20):
            mapping[key(number=number)] = np.arange(number + 1, dtype=np.int8)
        for number in range(20):
            # TensorFlow aborts on memory that is not aligned.
            assert mapping[key(number=number)].ctypes.data % ALIGNMENT == 0

    def test_ids_that_differ_in_case_only_are_different(self, mapping: Mapping) -> None:
        for number, name in enumerate(("model", "Model", "MODEL", "mOdel", "model.1-1", "model_1")):
            mapping[key(name)] = np.array([number])
        assert len(mapping) == 6
        assert mapping[key("Model")].tolist() == [1]
        assert mapping[key("mOdel")].tolist() == [3]

    def test_many_threads(self, mapping: Mapping) -> None:
        threads, rounds = 4, 15
        start = threading.Barrier(threads)

        def work(mine: int) -> None:
            start.wait()
            for turn in range(rounds):
                own = key(f"own{mine}", number=turn % 5)
                mapping[own] = np.full(100, turn)
                assert (mapping[own] == turn).all()
                shared = key("shared", number=turn % 3)
                mapping[shared] = np.full(64, mine)
                # Another thread may have replaced or deleted it; a value that was read while it was written would hold
                # both.
                found = mapping.get(shared)
                assert found is None or len(set(found.tolist())) == 1
                with contextlib.suppress(KeyError):
                    del mapping[shared]
                if turn % 5 == 4:
                    del mapping[own]

        with ThreadPoolExecutor(threads) as pool:
            for future in [pool.submit(work, mine) for mine in range(threads)]:
                future.result()
        for number in range(3):
            mapping.pop(key("shared", number=number), None)
        # Each thread has deleted the fifth of its own keys in its last round.
        assert set(mapping) == {key(f"own{mine}", number=n) for mine in range(threads) for n in range(4)}
        assert len(mapping) == 4 * threads
