"""A search over a space of mutators, on a real cluster: candidates grow, and inherit what they left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from daskevo.search import AgedEvolution
from daskevo_workflows import nas
from daskevo_workflows.problems import load_problem
from daskevo_workflows.problems.building import space_of

pytestmark = pytest.mark.processes

PROBLEM = Path(__file__).parent / "growing.py"


def test_networks_that_grow_inherit_their_prefix(client: Any, tmp_path: Path) -> None:
    import daskevo

    repository = daskevo.open(tmp_path / "root", "growing", client=client, objective="max val_accuracy", shards=8)
    strategy = AgedEvolution(2, 2)
    result = nas.search(PROBLEM, strategy, repository=repository, evaluations=6, run=tmp_path / "run", seed=4)
    finished = [report for report in result.reports if report.status == "finished"]
    assert len(finished) == 6
    heirs = [report for report in finished if report.transferred]
    assert heirs
    assert all(0 < report.prefix < report.vertices for report in heirs)
    # What the record holds makes the same models again.
    space = space_of(load_problem(PROBLEM))
    for found in result.best(6):
        assert space.decode(found.candidate.to_json()) == found.candidate
        assert space.graph(found.candidate).history or found.candidate.values == (0,)
    # Another process' space is the same one: a finished run is gone on with, and has nothing left to do.
    again = nas.search(PROBLEM, AgedEvolution(2, 2), repository=repository, evaluations=6, run=tmp_path / "run", seed=4)
    assert [report.number for report in again.reports] == [report.number for report in result.reports]
