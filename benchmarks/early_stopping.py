"""Stop bad candidates early, inherit, or both: the best quality after equal seconds, beside Optuna with its pruner.

    python -m benchmarks.early_stopping FOLDER [--seconds 60] [--problems fashion-mnist covertype] [--seeds 0 1 2]

Arms: aged evolution that inherits and trains each candidate in one piece; asynchronous halving that inherits, and the
same from scratch; Optuna's TPE with its successive halving pruner, in as many processes as there are trainers, without
daskevo. All have the problem's own `build`, `compile`, data and `score`, and at most `--most` epochs per candidate;
evolution trains each for as many. Time begins when every process has Keras and the data. The arms of a problem and seed
follow each other, each in a process of its own; what is finished is kept in FOLDER, and the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import daskevo
from daskevo.search import AgedEvolution, AsynchronousHalving, Strategy
from daskevo_workflows import nas
from daskevo_workflows.evaluation.quiet_import import import_keras
from daskevo_workflows.problems import load_problem, refer
from daskevo_workflows.problems.reference import data_of

ETA = 3
ARMS = ("evolution, inheriting", "asha, inheriting", "asha, from scratch", "optuna")


def searched(given: argparse.Namespace, problem: str, seed: int, arm: str) -> dict[str, Any]:
    """Search with daskevo; return what was found."""
    strategy: Strategy = AgedEvolution(10, 3)
    if arm != ARMS[0]:
        strategy = AsynchronousHalving(1, given.most, ETA)
    folder = Path(given.folder) / f"{problem}-{seed}-{arm.replace(', ', '-').replace(' ', '-')}"
    with (
        daskevo.local_cluster(trainers=given.workers, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        objective = load_problem(problem).objective
        repository = daskevo.open(folder / "repository", problem, client=client, objective=objective)
        trainers = [
            address
            for address, worker in client.scheduler_info(n_workers=-1)["workers"].items()
            if str(worker["name"]).startswith("trainer")
        ]
        client.run(_ready, problem, workers=trainers)
        result = nas.search(
            problem,
            strategy,
            repository=repository,
            evaluations=10_000,
            run=folder / "run",
            seed=seed,
            transfer=arm != ARMS[2],
            epochs=given.most if arm == ARMS[0] else None,
            time_limit_s=given.seconds,
        )
    finished = [report for report in result.reports if report.status == "finished"]
    return {
        "best": max((report.quality for report in finished), default=0.0),
        "models": len({result.requests[report.number].candidate for report in finished}),
        "evaluations": len(finished),
        "inherited": sum(report.ancestor is not None for report in finished),
    }


def _ready(problem: str) -> None:
    """Import Keras and prepare the data."""
    import_keras()
    data_of(refer(problem))


def pruned(given: argparse.Namespace, problem: str, seed: int) -> dict[str, Any]:
    """Search with Optuna alone; return what was found."""
    import optuna

    place = Path(given.folder) / f"{problem}-{seed}-optuna.log"
    place.unlink(missing_ok=True)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(given.workers)
    processes = [
        context.Process(target=_optimize, args=(given, problem, seed * 1_000 + number, str(place), barrier))
        for number in range(given.workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    study = optuna.load_study(study_name="benchmark", storage=_storage(str(place)))
    reached = [max(trial.intermediate_values.values()) for trial in study.trials if trial.intermediate_values]
    return {"best": max(reached, default=0.0), "models": len(reached), "evaluations": len(reached), "inherited": 0}


def _storage(place: str) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(place))


def _optimize(given: argparse.Namespace, name: str, seed: int, place: str, barrier: Any) -> None:
    """Be one of Optuna's processes."""
    import optuna

    import_keras()
    problem = load_problem(name)
    data, space = problem.data(), problem.space()  # type: ignore[attr-defined]
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        study_name="benchmark",
        storage=_storage(place),
        direction="maximize",
        load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=ETA),
    )
    metric = problem.objective.partition(" ")[2]
    barrier.wait()
    until = time.monotonic() + given.seconds

    def objective(trial: Any) -> float:
        # By number: Optuna's storage takes no lists as options.
        chosen = {
            choice.name: choice.options[trial.suggest_categorical(choice.name, list(range(len(choice.options))))]
            for choice in space.choices
        }
        model = problem.build(chosen)  # type: ignore[attr-defined]
        problem.compile(model)  # type: ignore[call-arg]
        x, y = data.train[:2]
        quality = 0.0
        for epoch in range(given.most):
            model.fit(x, y, batch_size=problem.batch_size, epochs=1, verbose=0)
            quality = float(problem.score(model, data)[metric])
            if time.monotonic() > until:
                raise optuna.TrialPruned
            trial.report(quality, epoch + 1)
            if trial.should_prune():
                raise optuna.TrialPruned
        return quality

    study.optimize(objective, timeout=given.seconds)


def table(rows: Mapping[str, Mapping[str, Any]], given: argparse.Namespace) -> str:
    """Return the medians over seeds as a table."""
    lines = [
        f"{given.seconds:g} s with {given.workers} trainers; median over {len(given.seeds)} seeds (lowest to highest)",
        "",
        "| problem | arm | best | candidates | evaluations | inherited |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for problem in given.problems:
        for arm in ARMS:
            found = [rows[key] for seed in given.seeds if (key := f"{problem} {seed} {arm}") in rows]
            if not found:
                continue
            best = sorted(row["best"] for row in found)
            counts = [f"{statistics.median(row[name] for row in found):g}" for name in ("models", "evaluations")]
            share = statistics.median(row["inherited"] / max(1, row["evaluations"]) for row in found)
            lines.append(
                f"| {problem} | {arm} | {statistics.median(best):.4f} ({best[0]:.4f} to {best[-1]:.4f}) | "
                f"{' | '.join(counts)} | {share:.0%} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Measure all arms that are missing in the folder, and print the table."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.early_stopping",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--problems", nargs="+", default=["fashion-mnist", "covertype"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--most", type=int, default=9)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.arm is not None:
        problem, seed = given.problems[0], given.seeds[0]
        found = pruned(given, problem, seed) if given.arm == "optuna" else searched(given, problem, seed, given.arm)
        print(json.dumps(found))
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    kept = given.folder / "early_stopping.json"
    rows: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    for problem in given.problems:
        for seed in given.seeds:
            for arm in ARMS:
                key = f"{problem} {seed} {arm}"
                if key in rows:
                    continue
                words = [sys.executable, "-m", "benchmarks.early_stopping", str(given.folder), "--arm", arm]
                words += ["--seconds", str(given.seconds), "--problems", problem, "--seeds", str(seed)]
                words += ["--most", str(given.most), "--workers", str(given.workers)]
                ended = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
                rows[key] = json.loads(ended.stdout.splitlines()[-1])
                kept.write_text(json.dumps(rows, indent=1))
                print(key, rows[key], file=sys.stderr, flush=True)
    print(table(rows, given))


if __name__ == "__main__":
    main()
