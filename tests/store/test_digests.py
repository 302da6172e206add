"""Digests: what they depend on, one by one and many at once."""

from __future__ import annotations

import numpy as np
import xxhash

from daskevo.store.digests import FEW_BYTES, digest, digests, groups
from daskevo.store.pack import portable
from daskevo.testing.arrays import awkward_arrays


def test_equal_bytes_have_equal_digests_whatever_their_layout() -> None:
    array = np.arange(12.0).reshape(3, 4)
    assert digest(array) == digest(np.asfortranarray(array)) == digest(array.astype(">f8")) == digest(array.copy())
    assert digest(np.float32(0.0)) != digest(np.float32(-0.0))
    assert len(digest(np.zeros(0))) == 32


def test_many_at_once_have_the_digests_that_each_has_alone() -> None:
    arrays = {number: portable(array) for number, array in enumerate(awkward_arrays().values())}
    alone = {number: xxhash.xxh3_128_hexdigest(array.tobytes()) for number, array in arrays.items()}
    assert digests(arrays) == alone
    large = {1000 + number: np.full(FEW_BYTES, number, np.uint8) for number in range(20)}
    found = digests(arrays | large)
    assert found == alone | {number: xxhash.xxh3_128_hexdigest(array.data) for number, array in large.items()}
    assert digests({}) == {}


def test_groups_keep_order_and_miss_nothing() -> None:
    items = [1 << 20, 0, 9 << 20, 30 << 20, 5, 7 << 20, 2 << 20, 1]
    found = list(groups(items, lambda nbytes: nbytes))
    assert [item for group in found for item in group] == items
    assert len(found) == 4
    assert list(groups([], lambda nbytes: nbytes)) == []
