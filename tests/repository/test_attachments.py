"""What can't be attached is refused before anything is stored, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from daskevo.errors import InvalidInput
from daskevo.repository.attachments import plain_extra, plain_metrics


def test_what_is_kept() -> None:
    metrics = {"auc": np.float32(0.5), "loss": float("nan"), "steps": 2**64 - 1, "by_class": np.array([1, 2])}
    assert plain_metrics(metrics) == {"auc": 0.5, "loss": None, "steps": 2**64 - 1, "by_class": [1, 2]}
    assert plain_extra({"a": (1, 2.5)}) == {"a": [1, 2.5]}


def test_names_that_json_cannot_carry() -> None:
    with pytest.raises(InvalidInput, match="names of metrics"):
        plain_metrics({"\ud800": 0.5})


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, "\ud800", {"deep": [2**70]}, object()])
def test_what_json_cannot_carry(value: Any) -> None:
    with pytest.raises(InvalidInput, match="metric 'score'"):
        plain_metrics({"score": value})
    with pytest.raises(InvalidInput, match="`extra`"):
        plain_extra(value)
