"""Policies of transfer: from whom, what is frozen, how long is trained; in words, in records, and in real searches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import InvalidInput
from daskevo.search import AgedEvolution, Grid
from daskevo_workflows import nas
from daskevo_workflows.evaluation.transfer import recorded_transfer
from daskevo_workflows.nas import Transfer

WIDE = {"FIRST": (4, 8, 12, 16, 20), "SECOND": (3, 6, 9, 12)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"source": "grandparent"}, "inherit from 'best match', 'parent', 'none'"),
        ({"minimum_layers": -1}, "minimum_layers=-1"),
        ({"unfreeze_epochs": 1.5}, "unfreeze_epochs=1.5"),
        ({"stretch": -0.5}, "stretch=-0.5"),
        ({"stretch": True}, "stretch=True"),
    ],
)
def test_policies_that_can_not_be_followed(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Transfer(**arguments)


@pytest.mark.parametrize(
    "policy",
    [
        Transfer(),
        Transfer("parent", "none", 2, 1, 0.5),
        Transfer(freeze=0.5),
        Transfer(freeze="prefix"),
        Transfer("none"),
        Transfer(freeze="steps:9"),
    ],
)
def test_a_policy_is_in_the_record(policy: Transfer) -> None:
    assert recorded_transfer(policy.to_record()) == policy


def test_a_function_is_not() -> None:
    with pytest.raises(InvalidInput, match=r"of its own to freeze \(len\)"):
        recorded_transfer({"transfer": True, **Transfer(freeze=len).changed()})


def test_epochs_are_stretched_by_what_was_not_inherited() -> None:
    policy = Transfer(stretch=1.0)
    assert [policy.epochs(2, inherited=inherited, layers=4) for inherited in range(5)] == [4, 4, 3, 2, 2]
    assert Transfer().epochs(2, inherited=0, layers=4) == 2


@pytest.mark.processes
def test_candidates_inherit_from_their_parents_only(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    result = nas.search(
        tiny(**WIDE),
        AgedEvolution(3, 2),
        repository=repository,
        evaluations=14,
        run=tmp_path / "run",
        transfer=Transfer("parent"),
    )
    parents = {request.number: request.parent for request in result.requests}
    heirs = [report for report in result.reports if report.transferred]
    assert heirs
    assert all(report.ancestor == parents[report.number] for report in heirs)


@pytest.mark.processes
def test_what_shares_too_little_inherits_nothing(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    """Candidates that differ share one layer with weights at most."""
    problem, strategy = tiny(**WIDE), AgedEvolution(3, 2)
    for least, some in ((2, False), (1, True)):
        run = tmp_path / f"run {least}"
        result = nas.search(
            problem, strategy, repository=repository, evaluations=8, run=run, transfer=Transfer(minimum_layers=least)
        )
        assert any(report.transferred for report in result.reports) == some
        short = [report for report in result.reports if report.transfer and report.transfer.reason == "too few layers"]
        assert short or least == 1  # with whom a candidate shares no layer at all depends on who ends first
        assert not any(report.transferred or report.transfer.inherited for report in short)


@pytest.mark.long
@pytest.mark.processes
def test_what_is_unfrozen_trains_on_and_who_inherits_less_trains_longer(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    policy = Transfer(freeze="prefix", unfreeze_epochs=1, stretch=1.0)
    result = nas.search(
        tiny(**WIDE), AgedEvolution(3, 2), repository=repository, evaluations=10, run=tmp_path / "run", transfer=policy
    )
    (scratch,) = {report.step for report in result.reports if not report.transferred}
    heirs = [report for report in result.reports if report.frozen_share]
    assert heirs
    # From scratch 2 epochs; with two of three layers round(4 / 3), with one round(5 / 3), and one more unfrozen.
    assert {report.step for report in heirs} <= {scratch, scratch * 3 // 2}
    # Everything was trained at last, so nothing of the ancestor's is shared.
    assert all(report.own_bytes == report.full_bytes for report in heirs)


@pytest.mark.processes
def test_candidates_that_differ_by_what_they_load_go_on_from_their_like(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    problem = tiny(FIRST=(4,), ACTIVATION=("relu",), SECOND=(3, 6, 9), IDLE=(0, 1))
    line = '    tensor = keras.layers.Dense(choices["first"], choices["activation"])(inputs)\n'
    load = "keras.Model(inputs, tensor).set_weights([np.full((8, 4), 5.0), np.zeros(4)])"
    text = problem.read_text()
    assert line in text
    problem.write_text(text.replace(line, f'{line}    if choices["idle"]: {load}\n'))
    result = nas.search(problem, Grid(), repository=repository, run=tmp_path / "run")
    loads = {request.model_id: request.candidate.values[3] for request in result.requests}
    assert len(result.reports) == len(loads) == 6
    heirs = [report for report in result.reports if report.transferred]
    assert {loads[report.model_id] for report in heirs} == {0, 1}
    assert all(loads[report.ancestor] == loads[report.model_id] for report in heirs)
    for report in result.reports:
        first = repository.load(report.model_id).layers[1].get_weights()[0]
        assert (first.mean() > 4) == bool(loads[report.model_id])
