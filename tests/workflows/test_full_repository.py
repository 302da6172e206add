"""A search whose repository is full ends with one sentence, loses nothing, and goes on when there is room."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import RepositoryFull
from daskevo.runs import RunView
from daskevo.search import AgedEvolution
from daskevo_workflows import nas

pytestmark = pytest.mark.processes

WIDE = {"FIRST": (4, 8, 12, 16, 20), "SECOND": (3, 6, 9, 12)}


@pytest.mark.long
def test_a_search_meets_the_quota_and_goes_on_with_the_same_command(
    client: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    import keras

    import daskevo

    quota = 400_000
    repository = daskevo.open(
        tmp_path / "repository", "tiny", client=client, objective="max val_accuracy", shards=8, quota=quota
    )
    # Of somebody else: leaves room for a few models of the search.
    other = keras.Sequential([keras.Input((380,)), keras.layers.Dense(256)])
    with repository.inherit(other) as ballast:
        ballast.put(metrics={"val_accuracy": 0.0}, labels=["user:ballast"])
    problem = tiny(**WIDE)

    def search() -> nas.Result:
        return nas.search(problem, AgedEvolution(20, 2), repository=repository, evaluations=12, run=tmp_path / "run")

    with pytest.raises(RepositoryFull, match=r"has no room for another model.*quota of 400000 bytes") as caught:
        search()
    assert str(tmp_path / "run") in str(caught.value)
    with RunView(tmp_path / "run") as view:
        before = {report.number: report for report in view.reports()}
    assert before
    assert all(report.status == "finished" for report in before.values())
    assert repository.verify().clean
    assert repository.stats()["payload_bytes"] <= quota
    repository.release(ballast.model_id, "user:ballast")
    result = search()
    assert result.stop == ("finished", "12 evaluations finished")
    assert {report.number: report for report in result.reports if report.number in before} == before
    assert repository.verify().clean
