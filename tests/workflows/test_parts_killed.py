"""A trainer or a provider is killed at each step of a part: the search gives the bits of one that was left alone."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.runs import RunView
from daskevo_workflows import nas
from daskevo_workflows.evaluation.training_part import state_name
from tests.workflows.in_parts import InParts

pytestmark = [pytest.mark.processes, pytest.mark.long]

STEPS = ("read state", "build", "compile", "score", "put", "put state", "state put")
PARTS = (1, 2, 4)
WAIT = '''

import functools

import daskevo.repository.inheritance as _inheritance
import daskevo.repository.snapshots as _snapshots


def _wait_at(step):
    """Let whoever kills know that this step is reached, in the part that is meant, and wait until that is done."""
    if step != {step!r}:
        return
    folder = Path({folder!r})
    reached = len(list(folder.iterdir()))
    (folder / f"{{reached}} {{os.getpid()}}").touch()
    while reached == {part} and not (folder.parent / "go on").exists():
        time.sleep(0.02)


def _waiting(function, before=None, after=None):
    @functools.wraps(function)
    def wrapped(*arguments, **options):
        _wait_at(before)
        found = function(*arguments, **options)
        _wait_at(after)
        return found

    return wrapped


def _is_on_a_trainer():
    from distributed import get_worker

    try:
        return bool(get_worker())
    except ValueError:
        return False


if _is_on_a_trainer():
    _snapshots.Snapshots.read_snapshot = _waiting(_snapshots.Snapshots.read_snapshot, "read state")
    _snapshots.Snapshots.put_snapshot = _waiting(_snapshots.Snapshots.put_snapshot, "put state", "state put")
    _inheritance.Inheritance.put = _waiting(_inheritance.Inheritance.put, "put")
    build, compile, score = _waiting(build, "build"), _waiting(compile, "compile"), _waiting(score, "score")
'''


def kill(client: Any, victim: str, folder: Path, part: int, killed: list[int]) -> None:
    """Kill the process that waits, or the provider's; then let whoever is there go on."""
    until = time.monotonic() + 120
    while not (waiting := list(folder.glob(f"{part} *"))):
        if time.monotonic() > until:
            return
        time.sleep(0.02)
    pid = int(waiting[0].name.partition(" ")[2])
    if victim == "provider":
        (address,) = [address for address, worker in workers(client).items() if worker["name"] == "provider-0"]
        pid = client.run(os.getpid, workers=[address])[address]
    os.kill(pid, signal.SIGKILL)
    killed.append(pid)
    (folder.parent / "go on").touch()


def workers(client: Any) -> dict[str, Any]:
    found: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return found


def search(problem: Path, repository: Any, folder: Path) -> tuple[Any, list[tuple[Any, ...]], dict[Any, Any]]:
    result = nas.search(
        problem, InParts(PARTS), repository=repository, evaluations=9, run=folder, freeze="prefix", seed=5
    )
    reports = [(report.number, report.status, report.step, report.quality, report.prefix) for report in result.reports]
    return result, reports, repository.read(result.reports[-1].model_id)


@pytest.fixture(scope="module")
def alone(client: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[tuple[Any, ...]], dict[Any, Any]]:
    """What a search gives that is left alone."""
    import daskevo

    folder = tmp_path_factory.mktemp("alone")
    problem = folder / "tiny.py"
    problem.write_text((Path(__file__).parent / "tiny.py").read_text())
    repository = daskevo.open(folder / "repository", "tiny", client=client, objective="max val_accuracy", shards=8)
    return search(problem, repository, folder / "run")[1:]


@pytest.mark.parametrize(
    ("step", "victim", "part"),
    [
        *((step, victim, 2) for step in STEPS for victim in ("trainer", "provider")),
        ("put state", "trainer", 1),
    ],
)
def test_killed_at_each_step(
    client: Any,
    repository: Any,
    alone: tuple[list[tuple[Any, ...]], dict[Any, Any]],
    tiny: Callable[..., Path],
    tmp_path: Path,
    step: str,
    victim: str,
    part: int,
) -> None:
    reached = tmp_path / "reached"
    reached.mkdir()
    # The candidate in parts comes second; nothing is read before its second part, and the first one's is a piece.
    place = part - 1 if step == "read state" else part
    problem = tiny()
    problem.write_text(problem.read_text() + WAIT.format(step=step, folder=str(reached), part=place))
    killed: list[int] = []
    thread = threading.Thread(target=kill, args=(client, victim, reached, place, killed))
    thread.start()
    result, reports, weights = search(problem, repository, tmp_path / "run")
    thread.join()
    assert killed
    assert reports == alone[0]
    assert weights.keys() == alone[1].keys()
    assert all(np.array_equal(weights[name], alone[1][name]) for name in weights)
    assert repository.verify().clean
    # The last part has no state, and those before went with their models.
    assert {each.name for each in repository.snapshots()} <= {state_name(name) for name in result.population()}
    with RunView(tmp_path / "run") as view:
        again = view.events("began again")
    # Only a trainer that dies between the model and its state loses that.
    assert bool(again) <= (victim == "trainer" and step == "put state")
