"""`check_json` lets through what JSON carries unchanged, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.types import TensorSpec, check_json

_LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3) | st.binary(max_size=2)
)
_VALUES = st.recursive(
    _LEAVES | st.sampled_from(["\ud800", np.float64(1.5), np.int64(1)]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=2) | st.integers(0, 3), inner, max_size=3)
        | st.tuples(inner)
    ),
    max_leaves=8,
)


def _exact(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_exact, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(_exact(a[key], b[key]) for key in a)
    return bool(a == b)


@given(_VALUES)
def test_what_passes_comes_back_from_json_exactly(value: Any) -> None:
    try:
        check_json(value, "value")
    except InvalidInput:
        return
    assert _exact(json.loads(json.dumps(value, allow_nan=False).encode()), value)


@given(st.recursive(st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_json_passes(value: Any) -> None:
    assert check_json(value, "value") is value


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("-inf"), (1,), b"x", {1}, 2**64, "\ud800", np.float64(1.5), np.int64(1), 1j, object()],
)
def test_what_json_can_not_carry_is_refused_wherever_it_stands(value: Any) -> None:
    for holder in (value, [0, value], {"a": {"b": [value]}}):
        with pytest.raises(InvalidInput, match="the config holds"):
            check_json(holder, "config")
    if type(value) is not str:
        with pytest.raises(InvalidInput, match="which is no str"):
            check_json({value: 1} if value.__hash__ else {1: value}, "config")


def _nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def test_depth_and_size_are_limited() -> None:
    check_json(_nested(64), "value")
    for hostile in (_nested(65), _nested(100_000)):
        with pytest.raises(InvalidInput, match="nests deeper than 64 levels"):
            check_json(hostile, "value")
    check_json([0] * 99, "value", values=100)
    with pytest.raises(InvalidInput, match="more than 100 values"):
        check_json([0] * 100, "value", values=100)
    bomb: Any = [0] * 10
    for _ in range(30):
        bomb = [bomb] * 10
    with pytest.raises(InvalidInput, match="more than 1000000 values"):
        check_json(bomb, "value")


@pytest.mark.parametrize("shape", [[True], [1.0], [-1], [2**62], [2**40, 2**40], [1] * 65])
def test_a_shape_is_checked_though_an_equal_one_was_read_before(shape: list[Any]) -> None:
    assert TensorSpec.from_json([[1], "float32"]) is TensorSpec.from_json([[1], "float32"])
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="tensor specification"):
            TensorSpec.from_json([shape, "float32"])
