"""Arms of the comparison: their names, running one or going on with it, reading it, training its best models again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dask.system import CPU_COUNT

from benchmarks.transfer import deephyper_arms
from daskevo.deploy.worker_environment import trainer_environment
from daskevo.runs import RunView
from daskevo.space import Candidate
from daskevo_workflows.problems import load_problem
from daskevo_workflows.problems.building import build_candidate
from daskevo_workflows.reports.run_reader import read_run
from daskevo_workflows.reports.series import RunSeries

POLICIES = {
    "none": ["--no-transfer"],
    "prefix": ["--freeze", "prefix"],
    "tune": ["--freeze", "none"],
    "half": ["--freeze", "0.5"],
    "trained": ["--freeze", "steps:300"],
    "parent": ["--inherit-from", "parent"],
    "unfreeze": ["--unfreeze-epochs", "1"],
    "stretch": ["--stretch", "1"],
}
"""Policy of transfer -> options of `daskevo nas`."""
TOP = 3
LONGER = 3
ROOT = Path(__file__).parents[2]
"""From where this package can be imported."""


def options(arm: str) -> list[str]:
    """Return an arm's options of `daskevo nas`."""
    strategy, _, policy = arm.rpartition(":")
    size = {"--population": deephyper_arms.POPULATION, "--sample": deephyper_arms.SAMPLE}
    own = [] if strategy else [word for option, number in size.items() for word in (option, str(number))]
    return [*POLICIES[policy], "--strategy", strategy or "evolution", *own]


def check(arm: str) -> str:
    """Return the arm; raises ValueError if there is none of that name."""
    if arm not in deephyper_arms.SEARCHES and arm.rpartition(":")[2] not in POLICIES:
        raise ValueError(arm)
    return arm


def baseline_of(arm: str, arms: Sequence[str]) -> str:
    """Return the arm that an arm is compared with: its strategy's without transfer, evolution's, or the first."""
    strategy, colon, _ = arm.rpartition(":")
    return next((name for name in (f"{strategy}{colon}none", "none") if name in arms), arms[0])


def folder_of(root: Path, problem: str, seed: int, arm: str) -> Path:
    """Return an arm's folder."""
    return root / f"{problem}-{seed}-{arm.replace(':', '-')}"


def finished_in(root: Path, problems: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Yield problem, seed and arm of what is finished in a folder, arms without transfer before those with it."""
    order = ["none", *(policy for policy in POLICIES if policy != "none")]
    found = []
    for problem in problems:
        for done in root.glob(f"{problem}-*/figures.json"):
            seed, _, name = done.parent.name[len(problem) + 1 :].partition("-")
            strategy, _, policy = name.rpartition("-")
            if name in deephyper_arms.SEARCHES:
                found.append((problem, int(seed), len(order), name))
            elif policy in POLICIES:
                found.append((problem, int(seed), order.index(policy), f"{strategy}:{policy}" if strategy else policy))
    for problem, seed, _, arm in sorted(found):
        yield problem, seed, arm


def search(folder: Path, problem: str, arm: str, seed: int, evaluations: int, workers: int) -> None:
    """Run one arm, or go on with it; one of DeepHyper's that was stopped begins again, as its searches do."""
    done = folder / "figures.json"
    if done.exists():
        return
    if arm in deephyper_arms.SEARCHES:
        command = [
            *(sys.executable, "-m", "benchmarks.transfer", str(folder.absolute()), "--deephyper", arm),
            *("--problems", problem, "--seeds", str(seed)),
            *("--evaluations", str(evaluations), "--workers", str(workers)),
        ]
        # As our trainers are: an equal share of the cores each, no more threads than that.
        environment = {**os.environ, **trainer_environment(max(1, CPU_COUNT // workers), None)}
        subprocess.run(command, check=True, cwd=ROOT, env=environment)
        return
    command = [
        *(str(Path(sys.executable).with_name("daskevo")), "nas", problem, "--json"),
        *("--evaluations", str(evaluations), "--workers", str(workers), "--seed", str(seed), "--run", str(folder)),
        *options(arm),
    ]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    done.write_text(ended.stdout.splitlines()[-1])


def read(folder: Path) -> RunSeries:
    """Return what an arm did."""
    return deephyper_arms.read(folder) if deephyper_arms.is_in(folder) else read_run(folder)


def retrained(folder: Path) -> list[dict[str, Any]]:
    """Return the top models' qualities from scratch, trained in a process of their own."""
    done = folder / "retrained.json"
    if not done.exists():
        command = [sys.executable, "-m", "benchmarks.transfer", str(folder.absolute()), "--retrain"]
        subprocess.run(command, check=True, cwd=ROOT)
    return json.loads(done.read_text())


def retrain(folder: Path) -> None:
    """Train the best candidates of a run from scratch; what each scores after 1 and after `LONGER` times the epochs."""
    import keras

    run, (name, candidates) = read(folder), _candidates(folder)
    problem = load_problem(name)
    data, rows = problem.data(), []
    for evaluation in run.best(TOP):
        keras.utils.set_random_seed(evaluation.number)
        model = build_candidate(problem, candidates[evaluation.number])
        problem.compile(model)
        row: dict[str, Any] = {"model_id": evaluation.model_id, "in_search": evaluation.quality}
        for name, epochs in (("once", problem.epochs), ("longer", problem.epochs * (LONGER - 1))):
            model.fit(*data.train, epochs=epochs, batch_size=problem.batch_size, verbose=0)
            row[name] = float(problem.score(model, data)[run.objective.metric])
        rows.append(row)
    (folder / "retrained.json").write_text(json.dumps(rows))


def _candidates(folder: Path) -> tuple[str, dict[int, Candidate]]:
    """Return the name of the problem, and the candidates by number."""
    if deephyper_arms.is_in(folder):
        return deephyper_arms.candidates(folder)
    with RunView(folder) as view:
        name = view.info.identity["problem"]["name"]
        return name, {request.number: request.candidate for request in view.requests()}
