"""A study's snapshots in a repository that is a dictionary: their labels, what goes, what others have stored."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daskevo.errors import ModelRetired
from daskevo.runs import RunView
from daskevo.search import AsynchronousHalving, Grid, Random
from daskevo.tuning import Run, Trajectory
from daskevo_workflows.reports.study_reader import read_study
from daskevo_workflows.stage_training.origin import versions
from daskevo_workflows.studies import quota_eviction, snapshot_retention
from daskevo_workflows.studies.stored_snapshots import described
from daskevo_workflows.studies.study import until_stored
from tests.studies.pretending import pretended, small_grid
from tests.studies.threads import ThreadCrew
from tests.waiting import wait_until


class Store:
    """Snapshots of 10 bytes each: name -> line of the list."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}
        self.lock = threading.Lock()

    def add(self, name: str, trajectory: Trajectory, step: int, metrics: Any, labels: Iterable[str]) -> None:
        extra = {"trajectory": described(trajectory, step), "step": step, "versions": versions()}
        row = SimpleNamespace(name=name, step=step, metrics=metrics, extra=extra, labels=tuple(labels))
        with self.lock:
            self.rows[name] = row

    def hold(self, name: str, label: str) -> None:
        with self.lock:
            if name not in self.rows:
                raise ModelRetired(name)
            self.rows[name].labels = tuple({*self.rows[name].labels, label})

    def release(self, name: str, label: str) -> None:
        with self.lock:
            if name not in self.rows:
                raise ModelRetired(name)
            self.rows[name].labels = tuple({*self.rows[name].labels} - {label})
            if not self.rows[name].labels:
                del self.rows[name]

    def snapshots(self) -> list[Any]:
        with self.lock:
            return [SimpleNamespace(**vars(row)) for row in self.rows.values()]

    def snapshot_tensors(self, names: Iterable[str]) -> dict[str, dict[Any, int]]:
        return {name: {(name, 0): 10} for name in names if name in self.rows}

    def stats(self) -> None:
        pass

    def kinds(self) -> dict[int, set[str]]:
        """Return the kinds of labels at each step."""
        found: dict[int, set[str]] = {}
        for row in self.snapshots():
            found.setdefault(row.step, set()).update(label.partition(":")[0] for label in row.labels)
        return found


class Crew(ThreadCrew):
    """Puts what it trains into the store."""

    def __init__(self, shelf: Store, label: str, *names: str, **options: Any) -> None:
        super().__init__(*names, **options)
        self.shelf, self.label = shelf, label
        self.store = {name: row.extra["trajectory"]["key"] for name, row in shelf.rows.items()}

    def put(self, run: Run, step: int, state: str, metrics: Mapping[str, float] | None) -> str:
        name = f"{self.label}-{super().put(run, step, state, metrics)}"
        self.store[name] = state
        self.shelf.add(name, run.trajectory, step, metrics, [f"request:{self.label}"])
        return name


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_retention, "KEEP_S", 0.0)


def label_of(study: Any) -> str:
    return str(study._ledger.info.label)


def open_study(store: Store, folder: Path, name: str = "run", **options: Any) -> tuple[Any, Crew]:
    crew = Crew(store, "nobody", "t0", "t1", **options)
    study = pretended(crew, folder, name=name, stored=store.snapshots(), repository=store)
    crew.label = label_of(study)
    return study, crew


def test_what_nobody_needs_becomes_a_cache_and_needed_again_it_is_kept(tmp_path: Path, prompt: None) -> None:
    store = Store()
    study, _ = open_study(store, tmp_path)
    with study:
        result = study.run(Grid())
        best = result.best()[0].snapshot
    # Where trials part, nothing is waited for any more; each trial's end is kept.
    assert store.kinds() == {4: {"cache"}, 8: {"cache"}, 16: {"request"}}
    assert best in store.rows
    study, _ = open_study(store, tmp_path)
    candidate = next(small_grid().enumerate())
    gate, came = threading.Event(), threading.Event()

    def waits(trajectory: Trajectory, step: int) -> None:
        came.set()
        assert gate.wait(60)

    study.controller.crew.before_step = waits
    with study:
        future = study.submit(candidate, 12)
        assert came.wait(60)
        # Its beginning is one of them.
        wait_until(lambda: store.kinds()[8] == {"cache", "request"})
        gate.set()
        future.result(60)
    assert store.kinds()[8] == {"cache"}


def test_who_leaves_a_strategy_is_kept_no_more_but_for_the_best(tmp_path: Path, prompt: None) -> None:
    store = Store()
    study, _ = open_study(store, tmp_path)
    with study:
        study.run(Random(keep=1), evaluations=12)
    ends = [row.labels[0].partition(":")[0] for row in store.rows.values() if row.step == 16]
    assert sorted(ends).count("request") in (5, 6)
    assert ends.count("cache") == 12 - ends.count("request")
    # Who left stays so in the record.
    study, _ = open_study(store, tmp_path)
    with study:
        held = study.controller.call(study._ledger.held)
    assert len(held) == ends.count("request")


def test_a_trial_that_may_go_on_finds_its_snapshot(tmp_path: Path, prompt: None) -> None:
    store = Store()
    study, crew = open_study(store, tmp_path)
    with study:
        result = study.run(AsynchronousHalving(1, 16, 4, candidates=12))
    with RunView(tmp_path / "run") as view:
        assert all("gone" not in event.kind for event in view.events())
    assert set(crew.trained.values()) == {1}
    best = result.best(5)
    assert all(found.snapshot in store.rows for found in best)
    for found in best:
        assert any(label.startswith("request:") for label in store.rows[found.snapshot].labels)


def test_room_is_made_by_what_nobody_needs(tmp_path: Path, prompt: None) -> None:
    store = Store()
    study, crew = open_study(store, tmp_path)
    with study:
        study.run(Grid())
        controller, keeper = study.controller, study._keeper
        until_stored(controller)
        wait_until(lambda: store.kinds()[4] == {"cache"} and store.kinds()[8] == {"cache"})
        before = dict(store.rows)
        spare = [name for name, row in before.items() if row.labels[0].startswith("cache:")]
        controller.call(lambda: keeper.make_room("work", 3, 15))
        wait_until(lambda: crew.rooms == [("work", True)])
        gone = before.keys() - store.rows.keys()
        assert len(gone) == 2
        assert gone <= set(spare)
        # All that may go would not be enough: nothing goes.
        controller.call(lambda: keeper.make_room("other", 3, 10 * len(spare)))
        wait_until(lambda: crew.rooms[1:] == [("other", False)])
        assert len(store.rows) == len(before) - 2
        names = {name for node in controller.plan.nodes for name in node.snapshots.values()}
        assert not names & gone
        for tries in range(quota_eviction.ROUNDS):
            controller.call(lambda: keeper.make_room("again", 3, 1_000))
            wait_until(lambda tries=tries: len(crew.rooms) == 3 + tries)
        assert not any(made for _, made in crew.rooms[1:])
    with RunView(tmp_path / "run") as view:
        events = [event for event in view.events() if event.kind == "evicted"]
    assert [event.facts["snapshots"] for event in events] == [2]


def test_what_two_processes_stored_is_kept_once_and_counted(tmp_path: Path, prompt: None) -> None:
    store = Store()
    one, _ = open_study(store, tmp_path, "one")
    two, crew = open_study(store, tmp_path, "two")
    with one, two:
        for study in (one, two):
            study.run(Grid())
            until_stored(study.controller)
        assert set(crew.trained.values()) == {1}
        before = len(store.rows)
        labels = label_of(one), label_of(two)
    # `two` closed first, and its states are the later ones: `one` keeps these instead of its own.
    counts = [read_study(tmp_path / name).figures.duplicates for name in ("one", "two")]
    assert sum(counts) == before // 2 == len(store.rows)
    keys = [row.extra["trajectory"]["key"] for row in store.rows.values()]
    assert len(set(keys)) == len(keys)
    for row in store.rows.values():
        assert {label.partition(":")[2] for label in row.labels} == set(labels)
    again, crew = open_study(store, tmp_path, "one")
    with again:
        result = again.run(Grid())
        assert result.figures.duplicates == counts[0]
        assert result.best()[0].snapshot in store.rows
    assert not crew.trained
