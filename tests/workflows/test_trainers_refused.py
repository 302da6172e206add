"""A trainer that came later and would train with other versions gets no task, and costs no candidate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import NoTrainer
from daskevo.runs import RunView
from daskevo.search import Grid, Random
from daskevo_workflows import nas, tune
from daskevo_workflows.execution import trainer_upkeep

pytestmark = pytest.mark.processes


def disguise(real: bool) -> None:
    """Have this process say that its Keras is another one, or what it is."""
    from daskevo.deploy import settings

    if not hasattr(settings, "real_versions"):
        settings.real_versions = settings.versions
    real_versions = settings.real_versions
    settings.versions = real_versions if real else lambda: {**real_versions(), "keras": "0.1"}


def addresses(client: Any, *names: str) -> list[str]:
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return [address for address, about in workers.items() if about["name"] in names]


@pytest.fixture
def other(client: Any, repository: Any) -> Iterator[Callable[..., None]]:
    """Makes trainers those of another Keras, after the repository was opened."""
    yield lambda *names: client.run(disguise, False, workers=addresses(client, *names))
    client.run(disguise, True, workers=addresses(client, "trainer-0", "trainer-1"))


def refusals(folder: Path) -> list[Any]:
    with RunView(folder) as view:
        return [event for event in view.events() if event.kind == "trainer refused"]


def test_a_search_does_without_it(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path, other: Callable[..., None]
) -> None:
    other("trainer-0")
    result = nas.search(tiny(), Random(), repository=repository, evaluations=4, run=tmp_path / "run")
    reports = [report for report in result.reports if report.status != "duplicate"]
    assert {(report.status, report.worker) for report in reports} == {("finished", "trainer-1")}
    (refusal,) = refusals(tmp_path / "run")
    assert "the client runs" in refusal.message
    assert "but worker 'trainer-0' runs daskevo" in refusal.message
    assert "keras 0.1" in refusal.message


def test_a_study_does_without_it(
    repository: Any, tuned: Callable[..., Path], tmp_path: Path, other: Callable[..., None]
) -> None:
    other("trainer-1")
    with tune.study(tuned(), repository=repository, run=tmp_path / "run", seed=3) as study:
        result = study.run(Grid())
        assert {report.status for report in result.reports} == {"finished"}
    assert [event.facts["worker"] for event in refusals(tmp_path / "run")] == ["trainer-1"]


def test_where_there_is_no_other_the_search_says_why(
    repository: Any,
    tiny: Callable[..., Path],
    tmp_path: Path,
    other: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trainer_upkeep, "NO_TRAINER_S", 1.0)
    other("trainer-0", "trainer-1")
    with pytest.raises(NoTrainer, match=r"but those that are of no use \(.*worker 'trainer-0' runs .*keras 0\.1"):
        nas.search(tiny(), Random(), repository=repository, evaluations=4, run=tmp_path / "run")
    with RunView(tmp_path / "run") as view:
        assert not view.reports()
