"""Studies for real, on a cluster of their own: steps, seconds and what each trial ended with."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import daskevo
from benchmarks.tuning.arms import since_start_s
from benchmarks.tuning.problem import LONGER
from daskevo.runs import RunView
from daskevo.search import Strategy
from daskevo.tuning import GridSpace, Scheduler, Trajectory
from daskevo_workflows import tune
from daskevo_workflows.studies.controller import STARTING, Controller
from daskevo_workflows.studies.crew import DaskCrew
from daskevo_workflows.studies.study_record import OVER, STAGE, WORK

PROBLEM = Path(__file__).with_name("problem.py")

PROBLEMS = {LONGER: PROBLEM.with_name("problem_longer.py")}
"""Files of the problems of grids that have another one."""

OBJECTIVE = "min val_loss"


def train(
    folder: Path,
    studies: Mapping[str, tuple[GridSpace, Callable[[], Strategy]]],
    steps: int,
    trainers: int,
    *,
    problem: Path = PROBLEM,
    batched: bool = True,
) -> dict[str, Any]:
    """Run studies at once, on one controller, and return their figures, added up.

    Parameters
    ----------
    studies:
        Space and strategy by name.
    steps:
        Of a whole training.
    batched:
        False: trainers are given stages, and read their snapshot for each; True: whole paths.

    Returns
    -------
    dict
        ``wall_s`` from the start of this process until the last answer, ``ran_s`` of it since studies are open;
        ``trials`` by what tells them from all others: step, quality, and a digest of all that is stored of them.
    """
    with (
        daskevo.local_cluster(trainers=trainers, dashboard_address=None) as cluster,
        cluster.get_client() as client,
        Controller(DaskCrew(client), Scheduler(batched=batched)) as controller,
        ExitStack() as stack,
        ThreadPoolExecutor(len(studies)) as threads,
    ):
        repository = daskevo.open(folder / "repository", "tuning", client=client, objective=OBJECTIVE)
        opened = {
            name: stack.enter_context(
                tune.study(problem, space, repository=repository, run=folder / name, steps=steps, controller=controller)
            )
            for name, (space, _) in studies.items()
        }
        begun = time.monotonic()
        running = [
            threads.submit(study.run, studies[name][1](), at_once=len(list(study.space.enumerate())))
            for name, study in opened.items()
        ]
        results = [each.result() for each in running]
        ran_s, wall_s = time.monotonic() - begun, since_start_s()
        figures = [study.figures() for study in opened.values()]
        trials: dict[str, Any] = {}
        for name, result in zip(studies, results, strict=True):
            # The best come first, and of a trial that was continued its last step counts.
            for found in sorted(result.best(100_000), key=lambda one: one.step):
                values = "/".join(map(str, found.candidate.values))
                trials[f"{name}/{values}"] = [found.step, found.quality, _digest(repository, found.snapshot)]
        answers = sum(len(result.reports) for result in results)
    # All are told of all works, as their trajectories have one origin, and the first one of the stages.
    first = next(iter(opened.values()))
    works = _works(first.folder, first.origin, [study.space for study in opened.values()])
    return {
        "trials": trials,
        "answers": answers,
        "total_steps": sum(each.total_steps for each in figures),
        "trained_steps": sum(each.trained_steps for each in figures),
        "training_s": sum(each.training_s for each in figures),
        "start_s": sum(each.start_s for each in figures),
        "scoring_s": sum(each.scoring_s for each in figures),
        "work_s": sum(work["s"] for work in works),
        "works": works,
        "ran_s": ran_s,
        "wall_s": wall_s,
        "trainers": trainers,
    }


def _digest(repository: Any, snapshot: str | None) -> str:
    """Return a digest of weights, optimizer and random state."""
    assert snapshot is not None
    stored = repository.read_snapshot(snapshot)
    digest = hashlib.blake2b(digest_size=16)
    for array in (*stored.weights, *(stored.attached[name] for name in sorted(stored.attached))):
        whole = np.ascontiguousarray(array)
        digest.update(f"{whole.dtype} {whole.shape}".encode())
        digest.update(whole.tobytes())
    return digest.hexdigest()


def _works(folder: Path, origin: str, spaces: Iterable[Any]) -> list[dict[str, Any]]:
    """Return what trainers were given: how long each had it, in seconds, and what of it went by for what.

    ``inverse`` is one over the batch size, added up over the steps.
    """
    along = [Trajectory(origin, space.configuration(each)) for space in spaces for each in space.enumerate()]
    with RunView(folder) as view:
        given = {event.facts["work"]: event.time for event in view.events(WORK)}
        over = {event.facts["work"]: event.time for event in view.events(OVER)}
        stages = view.events(STAGE)
    whose = {each.key(stop): each for stop in {event.facts["stop"] for event in stages} for each in along}
    works = {
        work: {
            **dict.fromkeys(("training", "starting", "scoring", "inverse"), 0.0),
            "s": over[work] - begun,
            "steps": 0,
            "built": False,
        }
        for work, begun in given.items()
        if work in over
    }
    for event in stages:
        facts, seconds = event.facts, event.facts["seconds"]
        if (work := works.get(facts["work"])) is None:
            continue
        work["training"] += seconds.get("training", 0.0)
        work["scoring"] += seconds.get("scoring", 0.0)
        work["starting"] += sum(seconds.get(phase, 0.0) for phase in STARTING)
        work["built"] |= "build" in seconds
        work["steps"] += facts["stop"] - facts["start"]
        if facts["stop"]:
            size = whose[facts["state"]].configuration.sequences["batch_size"]
            work["inverse"] += sum(1.0 / size(step) for step in range(facts["start"], facts["stop"]))
    return list(works.values())
