"""Searches on a real local cluster: budgets, transfer, labels, duplicates, failures, limits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.errors import InvalidInput, RunMismatch, ScopeMismatch
from daskevo.runs import RunView
from daskevo.search import AgedEvolution, Random, Replay, Request, Stop, View
from daskevo_workflows import nas
from daskevo_workflows.execution.progress import Progress
from daskevo_workflows.problems import refer
from tests.chaos.ledger import digests
from tests.workflows.waiting import wait_for_workers

pytestmark = pytest.mark.processes

WIDE = {"FIRST": (4, 8, 12, 16, 20), "SECOND": (3, 6, 9, 12)}


def search(problem: Any, repository: Any, folder: Path, evaluations: int, **options: Any) -> nas.Result:
    """Search; what is inherited is frozen, so that models share tensors however short they train."""
    strategy = options.pop("strategy", None) or AgedEvolution(4, 2)
    options.setdefault("freeze", "prefix")
    return nas.search(problem, strategy, repository=repository, evaluations=evaluations, run=folder / "run", **options)


def labels(repository: Any) -> dict[str, set[str]]:
    return {model.model_id: set(model.labels) for model in repository.models()}


def test_digits_from_beginning_to_end(client: Any, tmp_path: Path) -> None:
    """The main job, small: everything that is promised of a run holds for a real one."""
    import daskevo

    repository = daskevo.open(tmp_path / "root", "digits", client=client, objective="max val_accuracy", shards=8)
    seen: list[Progress] = []
    result = search("digits", repository, tmp_path, 10, seed=1, on_progress=seen.append, keep_best=2)

    assert result.stop == ("finished", "10 evaluations finished")
    finished = [report for report in result.reports if report.status == "finished"]
    assert len(finished) == 10
    assert [progress.finished for progress in seen] == sorted(progress.finished for progress in seen)
    assert seen[-1].finished == 10
    assert seen[-1].best_quality == result.best(1)[0].quality == max(report.quality for report in finished)

    # Who inherited froze something; what was inherited was not stored again.
    heirs = [report for report in finished if report.transferred]
    assert heirs
    for report in heirs:
        assert report.ancestor in {other.model_id for other in finished}
        assert 0 < report.own_bytes < report.full_bytes
        assert 0 < report.frozen_share < 1
        assert 0 < report.prefix < report.vertices
    # Why no more was inherited is in each report, in few bytes.
    for report in finished:
        assert report.transfer is not None
        assert (report.transfer.inherited > 0) == report.transferred
        assert report.transfer.inherited < report.transfer.layers
        assert report.transfer.nbytes < report.full_bytes
        assert len(json.dumps(asdict(report.transfer))) < 500
    assert finished[0].transfer.reason == "no match"
    assert {report.transfer.reason for report in heirs} <= {"other settings", "another layer", "other connections"}
    phases = {"prepare", "build", "query", "inherit", "compile", "first_step", "training", "scoring", "put"}
    assert all(set(report.seconds) == phases for report in finished)
    assert all(report.step == 45 for report in finished)

    # The best trained model, with its score.
    best = result.best(3)
    assert [found.quality for found in best] == sorted((found.quality for found in best), reverse=True)
    x, y = refer("digits").load().data().validation
    for found in best[:2]:
        assert np.mean(np.asarray(found.model(x)).argmax(1) == y) == pytest.approx(found.quality)
        assert found.lineage[0].model_id == found.model_id

    # The living are the population and the best, labelled so; everything else is retired.
    run = result.info.label
    population = result.population()
    assert len(population) == 4
    expected = {name: {f"population:{run}"} for name in population}
    for found in best[:2]:
        expected.setdefault(found.model_id, set()).add(f"best:{run}")
    assert labels(repository) == expected
    verification = repository.verify()
    assert verification.clean
    assert verification.models == len(expected)

    # Figures agree with the repository.
    summary = json.loads(json.dumps(result.summary()))
    assert summary["evaluations"] == 10
    assert summary["failures"] == 0
    assert summary["transferred"] == len(heirs)
    assert summary["live_models"] == len(expected)
    assert summary["stored_bytes"] == verification.payload_bytes
    assert summary["full_copy_bytes"] >= summary["stored_bytes"]
    assert summary["population"] == 4
    assert 0 < summary["repository_s"] < summary["evaluation_s"]
    frame = result.frame()
    assert len(frame) == len(result.requests)
    assert (frame["status"] == "finished").sum() == 10
    reasons = dict(zip(frame["number"], frame["no_more"], strict=True))
    assert all(reasons[report.number] == report.transfer.reason for report in finished)
    assert best[0].transfer == next(r.transfer for r in finished if r.model_id == best[0].model_id)
    with RunView(result.folder) as view:
        units = [unit for unit in view.units() if unit.kind == "evaluate"]
        assert len(units) == 10
        assert all(unit.state == "done" and unit.started and unit.ended and unit.worker for unit in units)
        assert view.sessions()[-1].ended == "finished"

    # The same call again finds it finished; nothing is evaluated.
    again = search("digits", repository, tmp_path, 10, seed=1, keep_best=2)
    assert [report.number for report in again.reports] == [report.number for report in result.reports]

    # After the last label nothing is left.
    repository.release_label(f"population:{run}")
    repository.release_label(f"best:{run}")
    assert repository.stats()["payload_bytes"] == 0
    assert repository.stats()["tensors"] == 0
    assert repository.verify().clean


def test_without_transfer_nothing_is_inherited(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    result = search(tiny(**WIDE), repository, tmp_path, 8, transfer=False)
    assert all(report.ancestor is None and report.frozen_share == 0 for report in result.reports)
    assert all(report.own_bytes == report.full_bytes for report in result.reports)
    assert {report.transfer.reason for report in result.reports} == {"not asked"}


@pytest.mark.long
def test_fine_tuning_inherits_and_freezes_nothing(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    result = search(tiny(**WIDE), repository, tmp_path, 12, freeze="none")
    heirs = [report for report in result.reports if report.transferred]
    assert heirs
    assert all(report.frozen_share == 0 and report.prefix > 0 for report in heirs)


@pytest.mark.long
def test_a_control_arm_within_the_run(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    result = search(tiny(**WIDE), repository, tmp_path, 16, control_share=0.5)
    control = {request.number for request in result.requests if not request.transfer}
    assert 3 <= len(control) <= 13
    assert all(not report.transferred for report in result.reports if report.number in control)
    assert any(report.transferred for report in result.reports if report.number not in control)


def test_each_evaluation_that_inherits_is_matched_by_futures_before_a_trainer_is_free(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    result = search(tiny(**WIDE), repository, tmp_path, 16, control_share=0.25)
    inheriting = {request.number for request in result.requests if request.transfer}
    begun = {report.number for report in result.reports if report.status != "duplicate"}
    with RunView(result.folder) as view:
        units = view.units()
    matched = {number: unit for unit in units if unit.kind == "match" for number in unit.numbers}
    assert {*matched} == inheriting & begun
    assert {unit.state for unit in matched.values()} == {"done"}
    # All but the first batch, for which trainers wait, are asked while an earlier evaluation runs.
    ended = {unit.numbers[0]: unit.ended for unit in units if unit.kind == "evaluate"}
    ahead = [n for n, unit in matched.items() if any(k < n and unit.submitted < ended[k] for k in ended)]
    assert len(ahead) >= len(matched) - 3
    # A model that was under way when its heir was asked for is no ancestor.
    told = [report.model_id for report in result.reports]
    assert all(report.ancestor in told[:at] for at, report in enumerate(result.reports) if report.ancestor)


@pytest.mark.long
def test_bytes_stay_bounded_over_many_evaluations(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    """By population, best, and what two trainers may have on their way and inherit from, however long the run."""
    first, second = tuple(range(2, 30)), tuple(range(2, 20))
    largest = 4 * (9 * first[-1] + (first[-1] + 1) * second[-1] + 2 * (second[-1] + 1))
    # Each trainer is sent one more before the report of the one before is taken in, and what leaves is kept until those
    # that were matched before have chosen.
    under_way = 2 * 2 + 2
    seen: list[tuple[int, int]] = []

    def look(progress: Progress) -> None:
        if progress.finished > len(seen):
            stats = repository.stats()
            seen.extend([(stats["models"], stats["payload_bytes"])] * (progress.finished - len(seen)))

    result = search(tiny(FIRST=first, SECOND=second), repository, tmp_path, 60, keep_best=2, on_progress=look)
    assert len(seen) == 60
    assert max(models for models, _ in seen) <= 4 + 2 + under_way
    assert max(nbytes for _, nbytes in seen) <= (4 + 2 + 2 * under_way) * largest
    # Over the second half it is flat: the number of models, and bytes far below all that was put.
    assert all(4 <= models <= 4 + 2 + under_way for models, _ in seen[30:])
    assert max(nbytes for _, nbytes in seen[30:]) < sum(report.own_bytes or 0 for report in result.reports) / 2
    # What is said of bytes, and of those that sharing saves, is what the models' records and the folder say.
    stats, verification = repository.stats(), repository.verify()
    assert verification.clean, verification.differences
    records = [repository.record(model.model_id) for model in repository.models()]
    assert len(records) == stats["models"] <= 4 + 2
    sizes = [[key.spec.nbytes for key in record.architecture.tensors] for record in records]
    assert stats["full_copy_bytes"] == sum(map(sum, sizes)) == result.summary()["full_copy_bytes"]
    used = {
        (entry.owner, entry.number): nbytes
        for record, of_model in zip(records, sizes, strict=True)
        for entry, nbytes in zip(record.owner_map.entries, of_model, strict=True)
    }
    assert stats["payload_bytes"] == sum(used.values()) == result.summary()["stored_bytes"]
    files = [path.stat().st_size for path in (tmp_path / "repository").rglob("*.seg")]
    assert stats["file_bytes"] == sum(files) <= verification.file_bytes
    assert stats["memory_bytes"] <= stats["payload_bytes"]


class SlowToTell(AgedEvolution):
    """Takes its time with a report, so that the next evaluation chooses its ancestor before anything follows of it."""

    def tell(self, request: Any, report: Any) -> None:
        time.sleep(0.3)
        super().tell(request, report)


@pytest.mark.long
def test_one_trainer_and_the_same_seed_give_the_same_run(tiny: Callable[..., Path], tmp_path: Path) -> None:
    import daskevo

    problem = tiny(**WIDE)
    found = []
    with daskevo.local_cluster(trainers=1, dashboard_address=None) as cluster, cluster.get_client() as client:
        for name, strategy, seed, count in (
            *(("a", AgedEvolution, 7, 12), ("b", SlowToTell, 7, 12)),
            ("c", AgedEvolution, 8, 3),
        ):
            repository = daskevo.open(tmp_path / f"root-{name}", "tiny", client=client, shards=4)
            result = search(problem, repository, tmp_path / name, count, seed=seed, strategy=strategy(4, 2))
            number = {report.model_id: report.number for report in result.reports}
            found.append(
                [
                    (report.number, request.candidate, report.quality, number.get(report.ancestor))
                    for report, request in zip(result.reports, result.requests, strict=True)
                ]
            )
            assert {report.worker for report in result.reports} == {"trainer-0"}
    assert found[0] == found[1]
    assert found[0][:3] != found[2]


@pytest.mark.long
def test_a_run_of_two_trainers_replays_to_the_same_models(
    client: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """Bit for bit, though others are done first this time."""
    import daskevo

    problem = tiny(**WIDE)
    found = []
    strategy: Any = AgedEvolution(4, 2)
    for name in ("recorded", "replayed"):
        repository = daskevo.open(tmp_path / name, "tiny", client=client, objective="max val_accuracy", shards=4)
        result = search(problem, repository, tmp_path / f"run {name}", 12, seed=3, strategy=strategy, keep_best=12)
        found.append({tuple(digests(repository.read(one.model_id).values())): one.quality for one in result.best(12)})
        strategy = Replay(result.requests, result.reports)
    assert len(found[0]) == 12
    assert found[0] == found[1]
    assert any(report.transferred for report in result.reports)


def test_duplicates_reuse_the_score_and_an_exhausted_space_ends_the_run(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    problem = tiny(IDLE=(0, 1, 2), MARKS=str(marks))
    result = search(problem, repository, tmp_path, 100)
    assert result.stop[0] == "exhausted"
    assert "24" in result.stop[1]
    counts = result.frame()["status"].value_counts().to_dict()
    assert counts == {"finished": 8, "duplicate": 16}
    assert len(list(marks.iterdir())) == 8
    by_number = {report.number: report for report in result.reports}
    for report in result.reports:
        if report.status == "duplicate":
            original = by_number[report.duplicate_of]
            assert (report.quality, report.model_id) == (original.quality, original.model_id)
            assert original.status == "finished"
    assert result.summary()["evaluations"] == 8


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"sequence": [{"learning_rate": 0.1}]}, r"'tuner' asks for hyper-parameters over time \(`sequence`\)"),
        ({"continues": "earlier"}, "'tuner' continues the training of 'earlier': the run has asked for no such model"),
    ],
)
def test_a_strategy_that_asks_for_what_no_evaluation_does_is_refused(
    asked: dict[str, Any], said: str, repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    class Tuner(Random):
        name = "tuner"

        def ask(self, view: View) -> list[Request] | Stop:
            answer = super().ask(view)
            assert not isinstance(answer, Stop)
            return [replace(request, **asked) for request in answer]

    with pytest.raises(InvalidInput, match=said):
        search(tiny(), repository, tmp_path, 2, strategy=Tuner())
    with RunView(tmp_path / "run") as view:
        assert view.requests() == []
        assert view.sessions()[-1].ended == "error"


def test_the_searchs_time_limit(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    problem = tiny(**WIDE, FAULTS=dict.fromkeys(WIDE["SECOND"], "slow"))
    result = search(problem, repository, tmp_path, 40, time_limit_s=4)
    assert result.stop[0] == "time limit"
    assert len(result.reports) < 20
    again = search(problem, repository, tmp_path, len(result.reports) + 2, time_limit_s=600)
    assert again.stop[0] == "finished"
    assert repository.verify().clean


@pytest.mark.long
def test_trainers_are_recycled(client: Any, repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    trainers = {"trainer-0", "trainer-1"}
    before = wait_for_workers(client, trainers)
    result = search(tiny(**WIDE), repository, tmp_path, 12, recycle_after=3)
    assert result.stop[0] == "finished"
    with RunView(result.folder) as view:
        recycled = [event.facts["worker"] for event in view.events("recycled")]
    # Four lives of three evaluations each, whoever had them.
    assert len(recycled) >= 2
    after = wait_for_workers(client, trainers)
    assert {name for name in trainers if before[name] != after[name]} == set(recycled)


def test_callbacks_pass_through(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    """Early stopping, given as a list and as a function: fresh for every evaluation."""
    import keras

    stopper = keras.callbacks.EarlyStopping("loss", min_delta=1e6, patience=2)
    result = search(tiny(), repository, tmp_path, 3, callbacks=[stopper], epochs=50)
    assert [report.step for report in result.reports] == [4 * 3] * 3
    made = search(tiny(), repository, tmp_path / "other", 3, callbacks=lambda: [stopper], epochs=50)
    assert [report.step for report in made.reports] == [4 * 3] * 3


def test_another_run_in_the_folder(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    problem = tiny()
    search(problem, repository, tmp_path, 2)
    for options in (
        {"seed": 5},
        {"transfer": False},
        {"strategy": Random()},
        {"freeze": "none"},
        {"epochs": 3},
        {"callbacks": list},
    ):
        with pytest.raises(RunMismatch):
            search(problem, repository, tmp_path, 2, **options)
    with pytest.raises(RunMismatch, match="source has changed"):
        search(tiny(FIRST=(4, 8, 12)), repository, tmp_path, 2)
    # A larger budget is the same run.
    assert len(search(problem, repository, tmp_path, 4).reports) == 4


@pytest.mark.parametrize(
    "options",
    [
        {"evaluations": 0},
        {"control_share": 2},
        {"recycle_after": 0},
        {"keep_best": 0},
        {"epochs": 0},
        {"seed": -1},
        {"strategy": "evolutoin"},
        {"strategy": object()},
        {"objective": "val_accuracy"},
        {"freeze": "everything"},
    ],
)
def test_impossible_searches(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path, options: dict[str, Any]
) -> None:
    arguments = {"strategy": "random", "evaluations": 2} | options
    with pytest.raises(InvalidInput):
        nas.search(tiny(), repository=repository, run=tmp_path / "run", **arguments)
    assert not (tmp_path / "run").exists()


def test_an_objective_that_the_scope_has_not(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(ScopeMismatch):
        search(tiny(), repository, tmp_path, 2, objective="min loss")


def test_refining_trains_the_winners_in_full(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    problem = tiny(**WIDE)
    result = search(problem, repository, tmp_path, 8)
    best = result.best(2)
    with pytest.raises(InvalidInput, match="pass it"):
        nas.refine(best)
    with pytest.raises(InvalidInput, match="another problem"):
        nas.refine(best, tiny())
    refined = nas.refine(best, problem, epochs=6, patience=6)
    assert {one.found.model_id for one in refined} == {found.model_id for found in best}
    for one in refined:
        assert one.report.status == "finished"
        assert one.report.step == 24
        assert one.report.frozen_share == 0
        assert one.report.ancestor == one.found.model_id
        assert one.quality >= one.found.quality - 1e-6  # what it began with stays where no epoch was better
        assert all(layer.trainable for layer in one.model.layers)
    again = nas.refine(best, problem, epochs=6, patience=6)
    assert {one.model_id: one.quality for one in again} == {one.model_id: one.quality for one in refined}
    scratch = nas.refine(best, problem, epochs=2, from_scratch=True)
    assert all(one.report.ancestor is None and one.report.step == 8 for one in scratch)
    assert repository.verify().clean
