"""Ancestors that go at any moment of a search, searches beside each other, and models that are lost under a search."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import daskevo
from daskevo.errors import ModelRetired, UnknownModel
from daskevo.runs import RunView
from daskevo.search import AgedEvolution, Random
from daskevo_workflows import nas
from daskevo_workflows.execution.progress import Progress
from daskevo_workflows.execution.running_task import RunningTask
from daskevo_workflows.execution.running_tasks import RunningTasks

pytestmark = pytest.mark.processes

WIDE = {"FIRST": (4, 8, 12, 16, 20), "SECOND": (3, 6, 9, 12)}


def retire_all(repository: Any) -> list[str]:
    """Retire whatever there is, as housekeeping by somebody else would."""
    gone = []
    for model in repository.models():
        try:
            repository.retire(model.model_id)
        except (ModelRetired, UnknownModel):
            continue
        gone.append(str(model.model_id))
    return gone


def look(repository: Any) -> None:
    """See that nothing is reserved by anybody, and that all that is left is whole."""
    until = time.monotonic() + 60
    while (stats := repository.stats())["live_attempts"] or stats["unsettled"]:
        assert time.monotonic() < until, stats
        time.sleep(0.05)
    verification = repository.verify()
    assert verification.clean, verification.differences
    for model in repository.models():
        assert repository.read(model.model_id)


def test_ancestors_that_are_retired_in_a_search(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    gone: list[str] = []
    marks = tmp_path / "marks"
    marks.mkdir()

    def while_it_trains(progress: Progress) -> None:
        if any(marks.glob("*-*")):
            gone.extend(retire_all(repository))

    problem = tiny(**WIDE, MARKS=str(marks))
    result = nas.search(
        problem,
        AgedEvolution(4, 2),
        repository=repository,
        freeze="prefix",
        evaluations=8,
        run=tmp_path / "run",
        on_progress=while_it_trains,
    )
    assert result.stop == ("finished", "8 evaluations finished")
    assert result.summary()["failures"] == 0
    assert gone
    look(repository)
    retire_all(repository)
    stats = repository.stats()
    assert (stats["models"], stats["tensors"], stats["payload_bytes"], stats["references"]) == (0, 0, 0, 0)


@pytest.mark.long
def test_the_best_match_goes_before_it_is_used_and_the_next_best_after(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One evaluation, whose query is answered when its best match goes, and whose ancestor goes when it trains."""
    marks = tmp_path / "marks"
    marks.mkdir()
    # All share the first layer: whatever lives is a match.
    one = {"FIRST": (4,), "ACTIVATION": ("relu",), "SECOND": tuple(range(3, 13)), "MARKS": str(marks)}
    kept = nas.search(tiny(**one), AgedEvolution(4, 2), repository=repository, evaluations=4, run=tmp_path / "kept")
    tensors = {report.model_id: [*repository.read(report.model_id).values()] for report in kept.reports}
    for path in marks.iterdir():
        path.unlink()
    query, before, after = repository.query_futures, [], []

    def answered(*arguments: Any, **options: Any) -> Any:
        future = query(*arguments, **options)
        (match,) = future.result(timeout=120)
        repository.retire(match.model_id)
        before.append(match.model_id)
        return future

    def while_it_trains(progress: Progress) -> None:
        if any(marks.glob("*-*")) and not after:
            after.extend(retire_all(repository))
            (marks / "go on").touch()

    monkeypatch.setattr(repository, "query_futures", answered)
    result = nas.search(
        tiny(**one, FAULTS=dict.fromkeys(one["SECOND"], "hang at first")),
        AgedEvolution(4, 2),
        repository=repository,
        freeze="prefix",
        evaluations=1,
        run=tmp_path / "run",
        seed=5,
        on_progress=while_it_trains,
    )
    assert result.stop == ("finished", "1 evaluations finished")
    (report,) = result.reports
    assert len(before) == 1
    assert {*before, *after} == {*tensors}
    assert report.ancestor in after
    first = [array.tobytes() for array in repository.read(report.model_id).values()][:2]
    assert first == [array.tobytes() for array in tensors[report.ancestor][:2]]
    look(repository)
    assert retire_all(repository) == [report.model_id]
    stats = repository.stats()
    assert (stats["models"], stats["tensors"], stats["payload_bytes"], stats["references"]) == (0, 0, 0, 0)


@pytest.mark.long
def test_two_searches_in_one_repository(client: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    """The labels of the first are released while the second, of another client, inherits from its models."""
    root = tmp_path / "root"
    first = daskevo.open(root, "tiny", client=client, objective="max val_accuracy", shards=8)
    problem = tiny(**WIDE)

    def one(repository: Any, name: str, evaluations: int, seed: int) -> nas.Result:
        return nas.search(
            problem,
            AgedEvolution(4, 2),
            repository=repository,
            freeze="prefix",
            evaluations=evaluations,
            run=tmp_path / name,
            seed=seed,
        )

    with daskevo_client(client) as other, ThreadPoolExecutor(1) as threads:
        second = daskevo.open(root, "tiny", client=other)
        begun = one(first, "one", 6, 1)
        running = threads.submit(one, second, "two", 12, 2)
        released: set[str] = set()
        beside = one(first, "three", 6, 3)
        for label in (f"population:{begun.info.label}", f"best:{begun.info.label}"):
            released |= {str(name) for name in first.release_label(label)[0]}
        found = running.result(timeout=240)
    assert released
    for result, count in ((begun, 6), (beside, 6), (found, 12)):
        assert result.stop == ("finished", f"{count} evaluations finished")
        assert result.summary()["failures"] == 0
        with RunView(result.folder) as view:
            assert len([unit for unit in view.units() if unit.kind == "evaluate" and unit.state == "done"]) == count
    # They inherit from each other's models, and neither gives the other's back.
    names = {str(report.model_id) for report in begun.reports}
    assert any(report.ancestor in names for report in (*beside.reports, *found.reports))
    look(first)
    alive = {str(model.model_id) for model in first.models()}
    assert alive >= set(map(str, found.population())) | set(map(str, beside.population()))
    for result in (beside, found):
        for kind in ("population", "best"):
            first.release_label(f"{kind}:{result.info.label}")
    stats = first.stats()
    assert (stats["models"], stats["tensors"], stats["payload_bytes"], stats["references"]) == (0, 0, 0, 0)


@pytest.mark.long
def test_two_searches_on_one_client_both_hear_their_trainers(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise every evaluation of one of them would count as not begun after the set-up time."""
    heard: dict[str, set[tuple[int, str]]] = {"one": set(), "two": set()}
    said = RunningTasks.said

    def hear(tasks: RunningTasks, task: RunningTask, message: Mapping[str, Any], *, cancelled: bool) -> None:
        heard[tasks.record.folder.name].add((task.number, message["what"]))
        said(tasks, task, message, cancelled=cancelled)

    monkeypatch.setattr(RunningTasks, "said", hear)

    def search(name: str) -> nas.Result:
        return nas.search(tiny(**WIDE), Random(), repository=repository, evaluations=6, run=tmp_path / name)

    with ThreadPoolExecutor(2) as threads:
        results = dict(zip(heard, threads.map(search, heard), strict=True))
    for name, result in results.items():
        assert result.stop == ("finished", "6 evaluations finished")
        numbers = {report.number for report in result.reports if report.status == "finished"}
        assert {(number, what) for number in numbers for what in ("begun", "ready", "chosen")} <= heard[name]
    look(repository)


def daskevo_client(client: Any) -> Any:
    """Return another client of the same cluster."""
    from distributed import Client

    return Client(client.scheduler.address, set_as_default=False)
