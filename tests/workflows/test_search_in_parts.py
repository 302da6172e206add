"""Searches that train candidates in parts: inherit in the first, go on from their own states, and stop the bad ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.errors import InvalidInput, InvalidProblem, RunFailed
from daskevo.runs import RunView
from daskevo.search import (
    AsynchronousHalving,
    Hyperband,
    MedianStopping,
    PopulationBasedTraining,
    Retry,
)
from daskevo.types import ModelId
from daskevo_workflows import nas
from daskevo_workflows.evaluation.training_part import state_name
from daskevo_workflows.evaluation.transfer import Transfer
from daskevo_workflows.problems import refer
from tests.waiting import wait_for_reports
from tests.workflows.in_parts import InParts

pytestmark = pytest.mark.processes


def search(problem: Path, strategy: Any, repository: Any, folder: Path, evaluations: int = 9, **options: Any) -> Any:
    return nas.search(problem, strategy, repository=repository, evaluations=evaluations, run=folder / "run", **options)


def events(folder: Path, kind: str) -> list[Any]:
    with RunView(folder / "run") as view:
        return view.events(kind)


@pytest.fixture
def another(client: Any, tmp_path: Path) -> Any:
    """A second repository: what is stored in the first one can't be inherited from it."""
    import daskevo

    return daskevo.open(tmp_path / "another", "tiny", client=client, objective="max val_accuracy", shards=8)


@pytest.mark.parametrize("unit", ["epoch", "optimizer step"])
def test_parts_give_the_bits_of_one_piece(
    repository: Any, another: Any, tiny: Callable[..., Path], tmp_path: Path, unit: str
) -> None:
    problem = tiny()
    steps = (1, 3, 4) if unit == "epoch" else (3, 5, 9)
    several = search(problem, InParts(steps), repository, tmp_path / "a", freeze="prefix", unit=unit)
    whole = search(problem, InParts(steps[-1:]), another, tmp_path / "b", freeze="prefix", unit=unit)
    assert several.stop[0] == whole.stop[0] == "exhausted"
    first, *parts = several.reports
    assert [report.step for report in parts] == [step * (4 if unit == "epoch" else 1) for step in steps]
    # Every part says what was inherited when the training began, and froze it.
    assert {(report.ancestor, report.prefix) for report in parts} == {(first.model_id, 2)}
    assert {report.frozen_share for report in parts} == {whole.reports[-1].frozen_share}
    assert whole.reports[-1].frozen_share > 0
    one, other = repository.read(parts[-1].model_id), another.read(whole.reports[-1].model_id)
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert parts[-1].quality == whole.reports[-1].quality
    assert dict(parts[-1].metrics) == dict(whole.reports[-1].metrics)


def test_seconds_as_an_objective_are_those_of_all_parts(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    goals = ["max val_accuracy", "min seconds"]
    _, *parts = search(tiny(), InParts((1, 2, 3)), repository, tmp_path, objective=goals).reports
    spent = np.cumsum([report.seconds["first_step"] + report.seconds["training"] for report in parts])
    assert [report.metrics["seconds"] for report in parts] == pytest.approx(spent, abs=1e-5)


def test_each_part_stores_what_it_changed_and_only_states_that_go_on_stay(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    seen: list[set[str]] = []

    def between(name: ModelId) -> None:
        seen.append({snapshot.name for snapshot in repository.snapshots()})

    result = search(tiny(), InParts((1, 2, 3), between), repository, tmp_path, freeze="prefix")
    first, *parts = result.reports
    # The frozen layer is the ancestor's.
    assert all(report.own_bytes < report.full_bytes for report in parts)
    assert state_name(parts[0].model_id) in seen[0]
    # Nothing continues from the last part, and the states before went with their models.
    assert {snapshot.name for snapshot in repository.snapshots()} == {state_name(first.model_id)}
    kept = {model.model_id for model in repository.models()}
    # The population, and of each candidate the best part.
    best = max(parts, key=lambda report: report.quality)
    assert kept == {first.model_id, parts[-1].model_id, best.model_id}
    assert {found.model_id for found in result.best(5)} == {first.model_id, best.model_id}
    assert result.summary()["live_models"] == len(kept)
    assert repository.verify().clean


def test_a_training_whose_state_is_gone_begins_again(
    repository: Any, another: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """From where it began at first: its own model would be the best match, and is trained already."""

    def lose(name: ModelId) -> None:
        state = state_name(name)
        if repository.status(state).state == "published":
            for label in repository.status(state).labels:
                repository.release(state, label)

    lost = search(tiny(), InParts((1, 3), lose), repository, tmp_path / "a", freeze="prefix")
    whole = search(tiny(), InParts((3,)), another, tmp_path / "b", freeze="prefix")
    (event,) = events(tmp_path / "a", "began again")
    assert "can't be read" in event.message
    assert lost.reports[-1].ancestor == lost.reports[0].model_id
    one, other = repository.read(lost.reports[-1].model_id), another.read(whole.reports[-1].model_id)
    assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.long
@pytest.mark.parametrize(
    "strategy",
    [AsynchronousHalving(1, 4, 2), Retry(Hyperband(1, 4, 2)), MedianStopping(1, 3, least=2)],
    ids=lambda strategy: strategy.name,
)
def test_strategies_stop_bad_candidates_early_and_inherit(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path, strategy: Any
) -> None:
    wide = tiny(FIRST=(4, 8), ACTIVATION=("relu", "tanh"), SECOND=(3, 6, 9, 12))
    result = search(wide, strategy, repository, tmp_path, 24, freeze="prefix", seed=2)
    assert result.stop[0] in ("finished", "exhausted")
    finished = [report for report in result.reports if report.status == "finished"]
    with RunView(tmp_path / "run") as view:
        requests = {request.number: request for request in view.requests()}
    begun = [report for report in finished if requests[report.number].continues is None]
    assert len(finished) - len(begun) > 0
    assert len({requests[report.number].candidate for report in begun}) == len(begun)
    assert {report.step for report in finished} > {4}
    assert any(report.ancestor for report in begun)
    states = {snapshot.name for snapshot in repository.snapshots()}
    assert states <= {state_name(name) for name in result.population()}
    assert repository.verify().clean
    assert not events(tmp_path, "began again")


@pytest.mark.long
def test_killed_in_the_middle_of_a_halving_search(tiny: Callable[..., Path], tmp_path: Path) -> None:
    """Its budget is exact, each part is trained once, and the same call gives what one that was not killed gives."""
    problem = tiny(FIRST=(4, 8, 12), SECOND=(3, 6, 9))
    whole = subprocess.run(command(problem, tmp_path / "whole"), check=True, capture_output=True, text=True)
    for reports in (3, 7):
        process = subprocess.Popen(command(problem, tmp_path / "killed"), start_new_session=True)
        try:
            wait_for_reports(tmp_path / "killed", reports, process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    again = subprocess.run(command(problem, tmp_path / "killed"), check=True, capture_output=True, text=True)
    assert again.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]
    with RunView(tmp_path / "killed" / "run") as view:
        assert sum(report.status == "finished" for report in view.reports()) == 12


def command(problem: Path, folder: Path) -> list[str]:
    return [sys.executable, str(Path(__file__).parent / "search_in_parts_script.py"), str(problem), str(folder)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epochs": 3}, "says how far each candidate is trained"),
        ({"transfer": Transfer(stretch=1.0)}, r"stretch=1\.0 of transfer"),
        ({"transfer": Transfer(unfreeze_epochs=1)}, "unfreeze_epochs=1 of transfer"),
        ({"unit": "batch"}, "'optimizer step'"),
        ({"callbacks": "early stopping"}, "EarlyStopping can't be used"),
        ({"problem": "fit"}, r"a fit\(\) of its own"),
        ({"problem": "layer"}, "nothing in it is trainable"),
    ],
)
def test_what_does_not_go_with_parts_is_refused_before_there_is_a_run(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    import keras

    problem = tiny()
    match options.pop("problem", None):
        case "fit":
            problem.write_text(f"{problem.read_text()}\n\ndef fit(model, *arguments, **options):\n    pass\n")
        case "layer":
            frozen = "\n\nwhole = build\n\ndef build(choices):\n    model = whole(choices)\n"
            problem.write_text(f"{problem.read_text()}{frozen}    model.trainable = False\n    return model\n")
    if "callbacks" in options:
        options["callbacks"] = [keras.callbacks.EarlyStopping("val_accuracy")]
    with pytest.raises(InvalidInput, match=words):
        search(problem, AsynchronousHalving(1, 4, 2), repository, tmp_path, **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("fault", ["reject", "build", "exit in build", "raise", "layer"])
def test_candidates_that_fail_do_not_refuse_a_search_of_others(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path, fault: str
) -> None:
    """Whichever is looked at first: half of them can be trained."""
    for second in (3, 6):
        problem = tiny(FAULTS={second: fault}, FIRST=(4,), ACTIVATION=("relu",))
        result = search(problem, AsynchronousHalving(1, 2, 2), repository, tmp_path / str(second))
        assert {report.status for report in result.reports} == {"finished", "failed"}
        assert {report.failure.kind for report in result.reports if report.failure} <= {"rejected", "build", "error"}


def test_compile_gets_the_model_alone_as_in_one_piece(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    problem = tiny()
    text = problem.read_text() + "\n\nplain = compile\n\ndef compile(model, hyperparametersDEFAULT):\n"
    body = "    assert hyperparameters is None\n    plain(model)\n"
    problem.write_text(text.replace("DEFAULT", "=None") + body)
    result = search(problem, InParts((1, 2)), repository, tmp_path)
    assert {report.status for report in result.reports} == {"finished"}
    problem.write_text(text.replace("DEFAULT", "") + body)
    with pytest.raises(InvalidProblem, match="give the second argument a default"):
        search(problem, InParts((1, 2)), repository, tmp_path / "another")


def test_metrics_that_are_no_numbers_are_left_out_as_in_one_piece(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    problem = tiny()
    problem.write_text(
        problem.read_text()
        + """

plain = score

def compile(model):
    import keras

    classes = keras.metrics.F1Score(average=None)
    model.compile(keras.optimizers.SGD(0.1), "categorical_crossentropy", metrics=[classes], run_eagerly=True)

def callbacks():
    import keras

    return [keras.callbacks.TerminateOnNaN()]

def score(model, data):
    x, y = data.validation
    return plain(model, Data(data.train, (x, y.argmax(1)))) | {"note": "good", "rows": np.ones((2, 2)), "most": 10**400}

whole = data

def data():
    (x, y), (x_val, y_val) = whole().train, whole().validation
    return Data((x, np.eye(2, dtype=np.float32)[y]), (x_val, np.eye(2, dtype=np.float32)[y_val]))
"""
    )
    _, *parts = search(problem, InParts((1, 2)), repository, tmp_path / "a").reports
    one_piece = search(problem, "random", repository, tmp_path / "b", 1).reports
    for report in (*parts, *one_piece):
        assert (report.status, report.failure) == ("finished", None)
        assert report.metrics.keys() == {"loss", "val_accuracy", "most"}
        assert report.metrics["most"] is None


def test_metrics_of_validation_data_are_there_as_in_one_piece(
    client: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    import daskevo

    goal = "min val_loss"
    other = daskevo.open(tmp_path / "repository", "tiny", client=client, objective=goal, shards=8)
    problem = tiny(validate=True)
    # Of a candidate only the best part is kept otherwise.
    strategy = InParts((1, 2), between=lambda name: other.hold(name, "user:kept"))
    _, *parts = search(problem, strategy, other, tmp_path / "a", objective=goal).reports
    (report,) = search(problem, "random", other, tmp_path / "b", 1, objective=goal).reports
    assert {part.metrics.keys() == report.metrics.keys() for part in parts} == {True}
    for part in parts:
        model, (x, y) = other.load(part.model_id), refer(problem).load().data().validation
        model.compile(loss="sparse_categorical_crossentropy")
        assert part.quality == pytest.approx(model.evaluate(x, y, verbose=0), rel=1e-5)


def test_a_problem_that_fails_with_each_candidate_is_refused_before_there_is_a_run(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    problem = tiny(FAULTS={3: "raise", 6: "raise"})
    with pytest.raises(InvalidProblem, match=r"raised ValueError: does not train .*in compile"):
        search(problem, AsynchronousHalving(1, 2, 2), repository, tmp_path)
    assert not (tmp_path / "run").exists()
    with pytest.raises(InvalidProblem, match="makes them, raised ZeroDivisionError"):
        search(tiny(), AsynchronousHalving(1, 2, 2), repository, tmp_path, callbacks=lambda: [1 / 0])
    # Candidates that are too large are not made with weights, here either.
    with pytest.raises(RunFailed, match="nothing finished"):
        search(problem, AsynchronousHalving(1, 2, 2), repository, tmp_path, limits={"parameters": (None, 10)})


def test_a_clone_with_another_model_is_refused(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="with another candidate, whose model is another"):
        search(tiny(), PopulationBasedTraining(1, 4, population=4, share=0.5), repository, tmp_path, 30)


def test_data_whose_order_is_lost_end_the_run_at_once(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    problem = tiny()
    piped = (
        "\n\nwhole = data\n\ndef data():\n    import tensorflow as tf\n\n    found = whole()\n"
        "    return Data((tf.data.Dataset.from_tensor_slices(found.train).batch(16), None), found.validation)\n"
    )
    problem.write_text(problem.read_text() + piped)
    with pytest.raises(InvalidProblem, match=r"can't be trained in parts: the data are a .*whose order can't be found"):
        search(problem, AsynchronousHalving(1, 4, 2), repository, tmp_path)


def test_the_control_arm_is_drawn_for_whole_trainings(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    search(tiny(), AsynchronousHalving(1, 4, 2), repository, tmp_path, 12, control_share=0.5)
    with RunView(tmp_path / "run") as view:
        requests = {request.model_id: request for request in view.requests()}
    continued = [request for request in requests.values() if request.continues is not None]
    assert continued
    assert all(request.transfer == requests[request.continues].transfer for request in continued)
    assert {request.transfer for request in requests.values()} == {True, False}
