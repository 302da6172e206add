"""Options that are parts of a run's policy: declared once, with the defaults of what they set; limits of size."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click
import pytest

from daskevo.errors import InvalidInput
from daskevo_workflows.cli.nas import nas
from daskevo_workflows.cli.resume import FLAGS
from daskevo_workflows.cli.size_options import LIMITED, changed_limits
from daskevo_workflows.cli.transfer_options import TRANSFER_OPTIONS, typed_transfer
from daskevo_workflows.evaluation.offered_metrics import OF_GRAPHS
from daskevo_workflows.evaluation.transfer import Transfer


def typed(*words: str) -> dict[str, Any]:
    return nas.make_context("nas", ["digits", *words]).params


def test_every_field_of_the_policy_has_an_option_with_its_default() -> None:
    assert {option.field: option.default for option in TRANSFER_OPTIONS} == {
        field.name: field.default for field in fields(Transfer)
    }
    assert typed_transfer(typed()) == Transfer()


def test_what_is_typed_is_the_policy() -> None:
    words = [
        "--inherit-from",
        "parent",
        "--freeze",
        "steps:9",
        "--minimum-layers",
        "2",
        "--unfreeze-epochs",
        "1",
        "--stretch",
        "0.5",
    ]
    assert typed_transfer(typed(*words)) == Transfer("parent", "steps:9", 2, 1, 0.5)
    assert typed_transfer(typed("--no-transfer", "--freeze", "0.5")) == Transfer("none", 0.5)


def test_every_limit_of_a_graph_has_options() -> None:
    assert sorted(LIMITED) == sorted(OF_GRAPHS)
    assert FLAGS["policy.limits.flops"] == "--min-flops/--max-flops"


@pytest.mark.parametrize(
    ("word", "number"),
    [("0", 0), ("250000", 250_000), ("250k", 250_000), ("1.5M", 1_500_000), ("2e9", 2 * 10**9), ("1_000", 1000)],
)
def test_counts(word: str, number: int) -> None:
    assert typed("--max-parameters", word)["max_parameters"] == number


@pytest.mark.parametrize("word", ["-1", "many", "0.5", "1.5k5", "nan", "inf", "1e999", "", "_", "1 M M"])
def test_what_is_no_count(word: str) -> None:
    with pytest.raises(click.BadParameter, match="is no whole number"):
        typed(f"--max-parameters={word}")


def test_each_bound_is_changed_by_itself() -> None:
    options = typed("--max-parameters", "1M", "--min-depth", "2")
    assert changed_limits({}, options) == {"parameters": (None, 10**6), "depth": (2, None)}
    recorded = {"parameters": [10, 5000], "flops": [None, 7.5]}
    assert changed_limits(recorded, options) == {
        "parameters": (10, 10**6),
        "flops": (None, 7.5),
        "depth": (2, None),
    }
    assert changed_limits(recorded, typed()) == {"parameters": (10, 5000), "flops": (None, 7.5)}


def test_limits_that_nothing_is_within_are_refused() -> None:
    with pytest.raises(InvalidInput, match="nothing is at least 10 and at most 5"):
        changed_limits({}, typed("--max-depth", "5", "--min-depth", "10"))
