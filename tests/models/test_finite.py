"""Weights that are nan or inf are found, in any dtype, and large ones are not taken for them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from daskevo.errors import InvalidInput, NotFinite
from daskevo.models import check_finite
from daskevo.models.finite import is_finite
from tests.cluster.helpers import chain


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4", ml_dtypes.bfloat16, "complex64"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_found_wherever_it_is(dtype: Any, value: float) -> None:
    array = np.ones((7, 3), dtype)
    assert is_finite(array)
    for place in ((0, 0), (3, 1), (6, 2)):
        lost = array.copy()
        lost[place] = value
        assert not is_finite(lost)
        assert not is_finite(np.asfortranarray(lost))


def test_what_can_be_none_is_finite() -> None:
    assert is_finite(np.full(1000, 3e38, "float32"))  # its squares are not
    assert is_finite(np.full(1000, -1e308))
    assert is_finite(np.full(100, 6e4, "float16"))
    for array in (np.zeros(0, "float32"), np.float32(1).reshape(()), np.ones(3, bool), np.array(["nan"]), np.arange(5)):
        assert is_finite(array)


def test_how_many_and_one_of_them_are_said() -> None:
    graph = chain(4, 3)
    arrays = {number: np.ones(key.spec.shape, key.spec.dtype) for number, key in enumerate(graph.tensors)}
    check_finite(graph, arrays)
    arrays[2][0, 0] = np.nan
    arrays[3][1] = -np.inf
    with pytest.raises(NotFinite, match=r"2 of the model's 4 weights .* such as weight 0 of layer '") as caught:
        check_finite(graph, arrays)
    assert caught.value.numbers == [2, 3]
    assert isinstance(caught.value, InvalidInput)
