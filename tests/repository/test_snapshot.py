"""What a snapshot may hold: its graph's weights, and arrays that can be stored, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from daskevo.errors import InvalidInput
from daskevo.graph import ArchitectureGraph
from daskevo.repository import Snapshot
from daskevo.testing.arrays import awkward_arrays
from daskevo.testing.graphs import GraphBuilder


def dense() -> ArchitectureGraph:
    builder = GraphBuilder()
    x = builder.input(4)
    return builder.graph(builder.call(builder.layer("Dense", 8, tensors=[(4, 8), (8,)]), x))


WEIGHTS = (np.ones((4, 8), np.float32), np.zeros(8, np.float32))


def test_bytes_are_those_of_weights_and_what_is_attached() -> None:
    snapshot = Snapshot(dense(), WEIGHTS, {"optimizer/0000": np.zeros(3, np.int64)}, {"step": 3})
    assert snapshot.nbytes == 32 * 4 + 8 * 4 + 24


def test_arrays_of_all_dtypes_and_layouts_may_be_attached() -> None:
    arrays = awkward_arrays()
    assert Snapshot(None, (), arrays).nbytes == sum(array.nbytes for array in arrays.values())


@pytest.mark.parametrize(
    ("weights", "attached", "words"),
    [
        (WEIGHTS[:1], {}, "2 tensors was given 1 weights"),
        ((WEIGHTS[0], WEIGHTS[1].astype(np.float64)), {}, r"weight 1 .* float64\[8\], .* float32\[8\]"),
        ((WEIGHTS[0].T, WEIGHTS[1]), {}, r"weight 0 .* float32\[8, 4\], .* float32\[4, 8\]"),
        ((WEIGHTS[0], [0.0] * 8), {}, "weight 1 is a list"),
        (WEIGHTS, {"": np.zeros(1)}, "can't name an attached tensor"),
        (WEIGHTS, {"x" * 1001: np.zeros(1)}, "can't name an attached tensor"),
        (WEIGHTS, {"\ud800": np.zeros(1)}, "lone surrogate"),
        (WEIGHTS, {3: np.zeros(1)}, "can't name an attached tensor"),
        (WEIGHTS, {"random": 3.0}, "'random' is a float"),
        (WEIGHTS, {"random": np.array(["a"])}, "'random' can't be stored"),
        (WEIGHTS, {"random": np.array([None])}, "'random' can't be stored"),
    ],
)
def test_what_can_not_be_stored_is_refused_at_once(weights: Any, attached: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Snapshot(dense(), weights, attached)


def test_without_a_graph_there_are_no_weights() -> None:
    with pytest.raises(InvalidInput, match="0 tensors was given 2 weights"):
        Snapshot(None, WEIGHTS)
