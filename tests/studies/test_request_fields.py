"""Each field of a request, in each way of running: honoured, or refused in one sentence, never dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import InvalidInput
from daskevo.runs import RunRecord, RunState
from daskevo.search import Random, Repeat, Replay, Request, Retry, Stop, View
from daskevo.space import Choice, Space
from daskevo.types import Objective
from daskevo_workflows.evaluation.transfer import Transfer
from daskevo_workflows.execution import candidates
from daskevo_workflows.execution.candidates import Candidates
from daskevo_workflows.execution.search_settings import SearchSettings
from daskevo_workflows.simulate import SimulatedOutcome, layered, layered_space, search
from daskevo_workflows.tabular import load_table, run_on_table
from tests.simulate.costs import costs
from tests.studies.pretending import pretended
from tests.studies.threads import ThreadCrew

SPACE = Space("small", (Choice("width", (1, 2, 3, 4)),))

VALUES: dict[str, Any] = {
    "parent": "another",
    "ancestor": "another",
    "sequence": [1],
    "until_step": 2,
    "transfer": False,
    "training": {"batch_size": 8},
    "priority": 1.0,
    "repeat": 1,
}
"""What the second of two requests asks for. `number`, `model_id` and `candidate` are in every request, `choices` is
filled in by the run, and `continues` has a test of its own."""


class Asks(Random):
    """Asks for some candidates, the last of them with fields of its own."""

    def __init__(self, count: int = 2, **own: Any) -> None:
        super().__init__()
        self.count, self.own = count, own

    def ask(self, view: View) -> list[Request] | Stop:
        answer = super().ask(view)
        if view.next_number >= self.count or isinstance(answer, Stop):
            return Stop("done", "all are asked")
        answer = answer[: self.count - view.next_number]
        return [
            view.request(place, each.candidate, **({} if each.number < self.count - 1 else self._own(each)))
            for place, each in enumerate(answer)
        ]

    def _own(self, request: Request) -> dict[str, Any]:
        return {name: value(request) if callable(value) else value for name, value in self.own.items()}


class Small:
    """Builds nothing: the test says what a candidate's graph is."""

    name = "small"

    def space(self) -> Space:
        return SPACE


class Graph:
    parameters = 1
    nbytes = 4

    def __init__(self, name: bytes) -> None:
        self.ids = [name]


Ran = tuple[Sequence[Request], Sequence[int]]
"""Requests in their order, and their numbers in the order in which they were started."""


def in_nas(strategy: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Ran:
    """Ask, build and order as `nas.search` does, and train nothing."""
    monkeypatch.setattr(candidates, "graph_and_key", lambda problem, point: (Graph(bytes(point.values)), b""))
    record = RunRecord(folder / "search", {"problem": "small"})
    state = RunState(Objective.parse("max quality"), 4, record.info.label)
    strategy.start(SPACE, [Objective.parse("max quality")], 0)
    made = Candidates(Small(), strategy, record, state, SearchSettings(**settings), list, lambda report: None)  # type: ignore[arg-type]
    try:
        made.prepare(2)
        made.prepare(2)
    finally:
        record.close()
    return list(state.requests.values()), [request.number for request in made.ready]


def in_parts(strategy: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    return in_nas(strategy, folder, monkeypatch, unit="epoch")


def in_study(strategy: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    with pretended(ThreadCrew("t0"), folder) as study:
        result = study.run(strategy, at_once=2)
    return result.requests, [request.number for request in result.requests]


def on_table(strategy: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    run = run_on_table(strategy, load_table(), 2, seed=0, at_once=2)
    return run.requests, [report.number for report in run.reports]


def simulated(strategy: Any) -> SimulatedOutcome:
    space = layered_space(3)
    return search(strategy, space, layered(space), trainers=2, evaluations=4, costs=costs(), providers=1)


def in_simulation(strategy: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    outcome = simulated(strategy)
    started = sorted(outcome.reports, key=lambda report: str(report.worker))
    return sorted(outcome.requests, key=lambda request: request.number), [report.number for report in started]


REFUSES: dict[Callable[..., Ran], set[str]] = {
    in_nas: {"sequence"},
    in_parts: {"sequence"},
    in_study: {"ancestor", "sequence", "training", "priority", "repeat"},
    # It has whole epochs only; a table's own test has these.
    on_table: {"ancestor", "sequence", "training", "until_step"},
    in_simulation: {"ancestor", "sequence", "training", "until_step"},
}


def test_the_table_has_every_field() -> None:
    named = {"number", "model_id", "candidate", "choices", "continues"}
    assert {field.name for field in fields(Request)} == {*VALUES, *named}


@pytest.mark.parametrize("field", VALUES)
@pytest.mark.parametrize("mode", REFUSES, ids=lambda mode: mode.__name__)
def test_a_field_is_honoured_or_refused(
    mode: Callable[..., Ran], field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {field: VALUES[field]}
    if mode is in_parts:
        own.setdefault("until_step", 1)
    strategy = Asks(**own) if mode is not in_parts else Asks(1, **own)
    if field in REFUSES[mode]:
        with pytest.raises(InvalidInput, match=r"request 1|over time|whole epochs"):
            mode(strategy, tmp_path, monkeypatch)
        return
    requests, started = mode(strategy, tmp_path, monkeypatch)
    assert getattr(requests[-1], field) == VALUES[field]
    if field == "priority" and mode is not in_parts:
        assert started == [1, 0]


@pytest.mark.parametrize(
    "strategy", [lambda: Repeat(Random(), 3), lambda: Retry(Repeat(Random(), 2))], ids=["repeat", "within"]
)
def test_a_study_refuses_repeats_before_anything_is_trained(strategy: Callable[[], Any], tmp_path: Path) -> None:
    crew = ThreadCrew("t0")
    with pretended(crew, tmp_path) as study:
        with pytest.raises(InvalidInput, match=r"[23] times.*nas\.search"):
            study.run(strategy())
        assert not study.result().requests
        once = study.run(Repeat(Random(), 1), evaluations=2)
    assert [report.status for report in once.reports] == ["finished"] * 2


def test_a_study_trains_nothing_of_a_refused_answer(tmp_path: Path) -> None:
    crew = ThreadCrew("t0")
    with pretended(crew, tmp_path) as study, pytest.raises(InvalidInput, match="seed"):
        study.run(Asks(1, repeat=2))
    assert not crew.trained


def test_a_simulated_request_without_ancestor_inherits_nothing() -> None:
    outcome = simulated(Asks(4, ancestor=None))
    alone = next(report for report in outcome.reports if report.number == 3)
    assert alone.ancestor is None
    assert next(report for report in simulated(Asks(4)).reports if report.number == 3).ancestor is not None


class Continues(Asks):
    """Goes on with its first candidate."""

    def ask(self, view: View) -> list[Request] | Stop:
        if view.next_number == 0:
            return [view.request(0, SPACE.candidate({"width": 1}), until_step=1, training={"batch_size": 4}, repeat=1)]
        if view.next_number == 1:
            own = {"until_step": 2, "ancestor": None, **self.own}
            return [view.request(0, SPACE.candidate({"width": 1}), continues=f"{view.prefix}-00000", **own)]
        return Stop("done", "all are asked")


@pytest.mark.parametrize(
    "own", [{"training": {"batch_size": 8}}, {"repeat": 2}, {"ancestor": "another"}, {"transfer": False}], ids=str
)
def test_a_training_that_goes_on_is_not_changed(
    own: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go(strategy: Any, name: str) -> Request:
        requests, _ = in_nas(strategy, tmp_path / name, monkeypatch, unit="epoch")
        return requests[1]

    request = go(Continues(), "as it was")
    assert (request.training, request.repeat, request.ancestor) == ({"batch_size": 4}, 1, None)
    again = go(Continues(training={"batch_size": 4}, repeat=1), "said again")
    assert (again.training, again.repeat) == (request.training, request.repeat)
    with pytest.raises(InvalidInput, match="request 1"):
        go(Continues(**own), "changed")


class Misnumbered(Asks):
    """Gives all requests of an answer the same number."""

    def ask(self, view: View) -> list[Request] | Stop:
        answer = super().ask(view)
        return answer if isinstance(answer, Stop) else [view.request(0, request.candidate) for request in answer]


@pytest.mark.parametrize("mode", [in_nas, in_study, on_table, in_simulation], ids=lambda mode: mode.__name__)
def test_a_request_that_is_numbered_otherwise_is_refused(
    mode: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput, match=r"numbers a request 0 .* where 1 and .*view\.request"):
        mode(Misnumbered(), tmp_path, monkeypatch)


def test_a_policy_that_trains_on_after_the_last_step_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Transfer(unfreeze_epochs=1)
    with pytest.raises(InvalidInput, match="unfreeze_epochs"):
        in_nas(Asks(1, until_step=3), tmp_path, monkeypatch, transfer=policy)
    in_nas(Asks(1), tmp_path / "without", monkeypatch, transfer=policy)


def test_a_search_is_told_once_how_far_it_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="say one of them"):
        in_nas(Asks(1, training={"epochs": 2}, until_step=3), tmp_path, monkeypatch)


def test_a_table_continues_what_it_has_trained_with_the_same_seed() -> None:
    table = load_table()

    class Goes(Asks):
        def ask(self, view: View) -> list[Request] | Stop:
            candidate = next(iter(table.space.enumerate()))
            own = {} if view.next_number == 0 else {"continues": f"{view.prefix}-00000", **self.own}
            own = {"until_step": table.steps_per_epoch * (1 + view.next_number), **own}
            return [view.request(0, candidate, **own)]

    run = run_on_table(Goes(), table, 2, seed=0)
    assert [report.quality for report in run.reports] == list(table[run.requests[0].candidate].qualities[0][:2])
    for own in ({"repeat": 1}, {"continues": "stranger"}, {"until_step": table.steps_per_epoch}):
        with pytest.raises(InvalidInput, match="continues"):
            run_on_table(Goes(**own), table, 2, seed=0)


def test_a_replay_repeats() -> None:
    table = load_table()
    run = run_on_table(Repeat(Random(), 3), table, 6, seed=0)
    again = run_on_table(Replay(run.requests, run.reports), table, 6, seed=0)
    assert [report.quality for report in again.reports] == [report.quality for report in run.reports]
    assert len(again.finished) == 6
