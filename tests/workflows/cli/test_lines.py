"""Lines for programs have exactly the keys that are promised."""

from __future__ import annotations

import json
import math

import pytest

from daskevo_workflows.cli.json_lines import NAS_KEYS, TUNE_KEYS, VERIFY_KEYS, json_line


def test_the_promised_keys() -> None:
    assert NAS_KEYS == (
        "evaluations",
        "failures",
        "best_quality",
        "best_model",
        "transferred",
        "mean_frozen_share",
        "runtime_s",
        "evaluation_s",
        "repository_s",
        "stored_bytes",
        "full_copy_bytes",
        "live_models",
        "population",
    )
    assert (
        *("trials", "total_steps", "unique_steps", "trained_steps"),
        *("merge_rate", "saving", "runtime_s", "best"),
    ) == TUNE_KEYS
    assert (
        *("clean", "differences", "models", "tensors", "payload_bytes"),
        *("mended", "lost", "foreign", "file_bytes"),
    ) == VERIFY_KEYS


def test_a_line_has_these_keys_in_this_order_and_no_others() -> None:
    line = json_line(VERIFY_KEYS, dict.fromkeys(VERIFY_KEYS, 1) | {"more": 2})
    assert "\n" not in line
    assert list(json.loads(line)) == list(VERIFY_KEYS)


def test_a_missing_key_is_an_error_and_not_a_gap() -> None:
    with pytest.raises(KeyError):
        json_line(VERIFY_KEYS, {"clean": True})


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_null(value: float) -> None:
    assert json.loads(json_line(("x",), {"x": value})) == {"x": None}
