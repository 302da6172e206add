"""Which data a run goes on with: its own; where it has gone on with others, its results say so."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daskevo.errors import RunMismatch
from daskevo_workflows.execution.event_kinds import DATA, OTHER_DATA
from daskevo_workflows.execution.run_data import RunData
from daskevo_workflows.problems.content import PYTHON
from daskevo_workflows.reports.series import Happening, say_other_data


class Events:
    """A record that holds events only."""

    folder = Path("run")

    def __init__(self, *held: tuple[str, dict[str, Any]], resumed: bool = True) -> None:
        self.held = list(held)
        self.resumed = resumed

    def events(self, kind: str) -> list[Any]:
        return [SimpleNamespace(facts=facts) for name, facts in self.held if name == kind]

    def event(self, kind: str, message: str, number: int | None = None, **facts: Any) -> None:
        self.held.append((kind, facts))


def data_of_run(record: Events, *, has_finished: bool = True, is_versioned: bool = False) -> RunData:
    return RunData(record, has_finished=has_finished, is_versioned=is_versioned)  # type: ignore[arg-type]


def test_data_that_differ_in_the_session_that_a_run_began_in_are_said_once() -> None:
    record = Events(resumed=False)
    data = data_of_run(record, has_finished=False)
    for rows in ("a", None, "b", "a", "b"):
        data.seen(rows, "trainer")
    assert [kind for kind, _ in record.held] == [DATA, OTHER_DATA]
    assert data.allowed == ()
    record.resumed = True
    data_of_run(record).seen("c", "trainer")  # such a run goes on, and its results say what they are worth
    assert [kind for kind, _ in record.held] == [DATA, OTHER_DATA, OTHER_DATA]
    happened = [Happening(0.0, kind, None, "") for kind, _ in record.held]
    assert "can't be compared" in say_other_data(happened)
    assert say_other_data(happened[:1]) == ""


def test_which_runs_go_on_with_other_data() -> None:
    begun = (DATA, {"digest": "a", "python": PYTHON})
    assert data_of_run(Events(begun)).allowed == ("a",)
    assert data_of_run(Events((DATA, {"digest": "a"}))).allowed == ("a",)
    with pytest.raises(RunMismatch, match="problem_version"):
        data_of_run(Events(begun)).seen("b", "trainer")
    data_of_run(Events(begun)).seen("a", "trainer")
    for data in (
        data_of_run(Events()),  # of an earlier daskevo
        data_of_run(Events(begun), has_finished=False),
        data_of_run(Events(begun), is_versioned=True),
        data_of_run(Events((DATA, {"digest": "a", "python": "2.7"}))),
    ):
        assert data.allowed == ()
        data.seen("b", "trainer")
    mended = Events(begun)
    data_of_run(mended, has_finished=False).seen("b", "trainer")
    assert data_of_run(mended).allowed == ("b",)
