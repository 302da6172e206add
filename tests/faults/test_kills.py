"""Processes killed at exact steps of put, retire and put of a snapshot; the benchmark `kill_table` has all steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.kills import NOT_REACHED, Bench, Cell, try_scheduler

CELLS = (
    Cell("put", "writer", "call of coordinator begin came back"),
    Cell("put", "writer", "segment written"),
    Cell("put", "writer", "call of provider put came back"),
    Cell("put", "home", "provider: tensors stored"),
    Cell("put", "home", "provider: Put record appended"),
    Cell("put", "owner", "provider: Refer record appended"),
    Cell("retire", "writer", "call of provider ask begins"),
    Cell("retire", "home", "provider: Retire record appended"),
    Cell("retire", "home", "call of provider ask came back"),
    Cell("retire", "owner", "provider: Drop record begins"),
    Cell("snapshot", "writer", "call of coordinator begin came back"),
    Cell("snapshot", "writer", "segment written"),
    Cell("snapshot", "writer", "call of provider put came back"),
    Cell("snapshot", "home", "provider: Put record appended"),
    Cell("snapshot", "owner", "provider: Refer record appended"),
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: Any) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("kills"))
    yield made
    made.close()


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("cell", CELLS, ids=" ".join)
def test_a_kill_at_any_step_loses_nothing_and_leaves_nothing(bench: Bench, cell: Cell) -> None:
    outcome = bench.try_cell(cell)
    if outcome.wrong == (NOT_REACHED,):
        # A provider that is slow to answer is taken for one on another host: nobody writes a file beside it then.
        outcome = bench.try_cell(cell)
    assert outcome.wrong == ()
    assert outcome.answer in ("stored", "retired")


@pytest.mark.long
@pytest.mark.processes
def test_a_scheduler_that_is_killed_takes_nothing_with_it(tmp_path: Path) -> None:
    outcome = try_scheduler(Cell("put", "scheduler", "coordinator: end served begins"), tmp_path / "root")
    assert outcome.wrong == ()
    assert outcome.answer == "died with it"
