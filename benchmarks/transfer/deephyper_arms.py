"""DeepHyper without us: its own searches and its own evaluator of processes; nothing is inherited, nothing is stored.

What is equal to the other arms: the space (`to_hp_problem`), the problem's `build`, `compile` and `score`, its data,
its epochs and batch size, the number of trainers and their threads, and the fitting, `fast_fit` by
:func:`daskevo_workflows.evaluation.training.train`, which trainers of `daskevo nas` call. What is DeepHyper's: which
candidates are evaluated, in which order, by which process; equal ones are trained again, where our runs share the
result.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from daskevo.space import Candidate
from daskevo.types import Objective
from daskevo_workflows.evaluation.quiet_import import import_keras
from daskevo_workflows.evaluation.training import Stopwatch, train
from daskevo_workflows.problems import refer
from daskevo_workflows.problems.building import build_candidate
from daskevo_workflows.problems.reference import ProblemReference, data_of
from daskevo_workflows.reports.series import EvaluationRow, RunSeries

POPULATION, SAMPLE = 12, 4
"""Of every evolution, ours too. DeepHyper's own 100, and our 50, would make of 60 evaluations a random search."""
SEARCHES: Mapping[str, Mapping[str, Any]] = {
    "deephyper-cbo": {"search": "CBO"},
    "deephyper-evolution": {"search": "RegularizedEvolution", "population_size": POPULATION, "sample_size": SAMPLE},
}
"""Arm -> class of deephyper.hpo, and its settings besides the seed; all others are DeepHyper's."""
RECORD = "evaluations.json"


def is_in(folder: Path) -> bool:
    """Tell whether it was an arm of DeepHyper's that ran in a folder."""
    return (folder / RECORD).exists()


def search(folder: Path, problem: str, arm: str, seed: int, evaluations: int, workers: int) -> None:
    """Run one arm from its beginning to its end."""
    import deephyper.hpo
    from deephyper.evaluator import Evaluator

    from daskevo_plugins.deephyper import to_hp_problem

    reference = refer(problem)
    settings = dict(SEARCHES[arm])
    searches = getattr(deephyper.hpo, settings.pop("search"))
    found = searches(
        to_hp_problem(reference.load().space()), random_state=seed, log_dir=str(folder / "deephyper"), **settings
    )
    # Clean processes, as trainers are, and not copies of this one with its threads.
    multiprocessing.set_start_method("spawn")
    evaluator = Evaluator.create(
        evaluate,
        method="process",
        method_kwargs={"num_workers": workers, "run_function_kwargs": {"reference": reference, "seed": seed}},
    )
    with evaluator:
        # The clock of our runs starts when the cluster stands, too; Keras and the data come in the first evaluations.
        for standing in [evaluator.executor.submit(_stand) for _ in range(workers)]:
            standing.result()
        begun = time.time()
        found.search(evaluator, max_evals=evaluations, max_evals_strict=True)
        runtime_s = time.time() - begun
    # DeepHyper's moments are seconds since its evaluator was made, by another clock.
    zero = time.time() - time.monotonic() + evaluator.timestamp - begun
    rows = [
        {
            "number": number,
            "submitted_s": job.metadata["timestamp_submit"] + zero,
            "gathered_s": job.metadata["timestamp_gather"] + zero,
            "started_s": job.metadata["started"] - begun,
            "ended_s": job.metadata["ended"] - begun,
            **{name: job.metadata[name] for name in ("worker", "quality", "seconds", "candidate", "full_bytes")},
        }
        for number, job in enumerate(sorted(found.history.jobs, key=lambda job: job.metadata["timestamp_submit"]))
    ]
    whole = {"problem": problem, "arm": arm, "seed": seed, "runtime_s": runtime_s, "evaluations": rows}
    (folder / RECORD).write_text(json.dumps(whole))
    (folder / "figures.json").write_text(json.dumps({"evaluations": len(rows), "runtime_s": runtime_s}))


def _stand() -> None:
    """Import what a process needs to be told of a configuration; slow enough that each process gets one of these."""
    import daskevo_plugins.deephyper.spaces  # noqa: F401

    time.sleep(0.5)


def evaluate(job: Any, reference: ProblemReference, seed: int) -> dict[str, Any]:
    """Evaluate one configuration in a process of DeepHyper's, as a trainer does without transfer.

    The reference keeps the problem and its data for as long as the process lives.
    """
    from daskevo_plugins.deephyper import options_of

    started, watch = time.time(), Stopwatch()
    with watch.phase("prepare"):
        import_keras()
        from daskevo.models import seeded

        problem = reference.load()
        data = data_of(reference)
    objective = Objective.parse(problem.objective)
    space = problem.space()
    candidate = space.candidate(options_of(space, job.parameters))
    name = hashlib.blake2b(f"{seed} {candidate.values}".encode(), digest_size=4).digest()
    with seeded(int.from_bytes(name, "big") >> 1):
        with watch.phase("build"):
            model = build_candidate(problem, candidate)
        metrics, _ = train(problem, model, data, watch)
    quality = objective.quality(metrics)
    return {
        "objective": "F_not_finite" if quality is None else objective.rank(quality),
        "metadata": {
            "worker": os.getpid(),
            "quality": quality,
            "started": started,
            "ended": time.time(),
            "seconds": watch.seconds,
            "candidate": candidate.to_json(),
            "full_bytes": sum(int(weight.nbytes) for weight in model.get_weights()),
        },
    }


def read(folder: Path) -> RunSeries:
    """Return what an arm did, as the record of a run of ours is read."""
    kept = json.loads((folder / RECORD).read_text())
    rows = [
        EvaluationRow(
            number=row["number"],
            model_id=f"{folder.name}.{row['number']}",
            status="failed" if row["quality"] is None else "finished",
            asked_transfer=False,
            worker=str(row["worker"]),
            **{name: row[name] for name in ("started_s", "ended_s", "quality", "seconds", "full_bytes")},
        )
        for row in kept["evaluations"]
    ]
    return RunSeries(
        label=kept["arm"],
        arm=kept["arm"],
        run_id=folder.name,
        objective=Objective.parse(refer(kept["problem"]).load().objective),
        evaluations=tuple(sorted(rows, key=lambda row: (row.ended_s, row.number))),
        runtime_s=kept["runtime_s"],
    )


def candidates(folder: Path) -> tuple[str, dict[int, Candidate]]:
    """Return the name of the problem, and the candidates by number."""
    kept = json.loads((folder / RECORD).read_text())
    return kept["problem"], {row["number"]: Candidate.from_json(row["candidate"]) for row in kept["evaluations"]}
