"""Does transfer pay, and which way of it? Arms of the same search, paired by problem and seed.

    python tests/benchmarks/transfer.py FOLDER [--arms none prefix tune] [--problems flights fashion-mnist]
        [--seeds 0 1] [--evaluations 100]

An arm is a policy of transfer (`POLICIES`), or a strategy and a policy, such as ``random:prefix``; alone it is that of
aged evolution. Each is compared with the arm of the same strategy that inherits nothing, or with the first if there is
none. Each arm is one `daskevo nas` process on a cluster of its own; arms of one problem and seed follow each other, so
that a drift of the machine meets all of them. The best three of each arm are then trained again from scratch, as long
as an evaluation and three times as long. Everything that is finished is kept in FOLDER: the same command goes on where
it was stopped. The table goes to standard output, all figures to FOLDER/summary.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from daskevo.runs import RunView
from daskevo_workflows.problems import load_problem
from daskevo_workflows.problems.building import build_candidate
from daskevo_workflows.reports.reading import read_run
from daskevo_workflows.reports.series import RunSeries, cumulative_bytes, first_reaching, high_quality, late

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


def options(arm: str) -> list[str]:
    """Return an arm's options of `daskevo nas`."""
    strategy, _, policy = arm.rpartition(":")
    return [*POLICIES[policy], "--strategy", strategy or "evolution"]


def baseline_of(arm: str, arms: Sequence[str]) -> str:
    """Return the arm that an arm is compared with."""
    strategy, colon, _ = arm.rpartition(":")
    return f"{strategy}{colon}none" if f"{strategy}{colon}none" in arms else arms[0]


def search(folder: Path, problem: str, arm: str, seed: int, evaluations: int, workers: int) -> dict[str, Any]:
    """Run one arm (or go on with it) and return the figures of its last line."""
    done = folder / "figures.json"
    if not done.exists():
        command = [
            *(str(Path(sys.executable).with_name("daskevo")), "nas", problem, "--json"),
            *("--evaluations", str(evaluations), "--workers", str(workers), "--seed", str(seed), "--run", str(folder)),
            *options(arm),
        ]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        done.write_text(ended.stdout.splitlines()[-1])
    return json.loads(done.read_text())


def retrained(folder: Path) -> list[dict[str, Any]]:
    """Return the top models' qualities from scratch, trained in a process of their own."""
    done = folder / "retrained.json"
    if not done.exists():
        subprocess.run([sys.executable, __file__, "--retrain", str(folder)], check=True)
    return json.loads(done.read_text())


def retrain(folder: Path) -> None:
    """Train the best candidates of a run from scratch; what each scores after 1 and after `LONGER` times the epochs."""
    import keras

    run = read_run(folder)
    with RunView(folder) as view:
        requests = {request.number: request for request in view.requests()}
        problem = load_problem(view.info.identity["problem"]["name"])
    data, rows = problem.data(), []
    for evaluation in run.best(TOP):
        keras.utils.set_random_seed(evaluation.number)
        model = build_candidate(problem, requests[evaluation.number].candidate)
        problem.compile(model)
        row: dict[str, Any] = {"model_id": evaluation.model_id, "in_search": evaluation.quality}
        for name, epochs in (("once", problem.epochs), ("longer", problem.epochs * (LONGER - 1))):
            model.fit(*data.train, epochs=epochs, batch_size=problem.batch_size, verbose=0)
            row[name] = float(problem.score(model, data)[run.objective.metric])
        rows.append(row)
    (folder / "retrained.json").write_text(json.dumps(rows))


def figures(run: RunSeries, told: dict[str, Any], baseline: RunSeries, again: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what one arm gave, targets taken from the arm without transfer."""
    seconds = [evaluation.total_s for evaluation in run.finished]
    _, own, full = cumulative_bytes(run)[-1]
    targets = {"p90": high_quality(baseline), "best": baseline.best(1)[0].quality}
    return {
        "evaluations": told["evaluations"],
        "failures": told["failures"],
        "runtime_s": told["runtime_s"],
        "late_evaluation_s": statistics.mean(evaluation.total_s for evaluation in late(run)),
        "evaluation_mean_s": statistics.mean(seconds),
        "evaluation_deviation_s": statistics.stdev(seconds),
        "best": told["best_quality"],
        "mean": statistics.mean(e.quality for e in run.scored if e.quality is not None),
        **{f"to_{name}": first_reaching(run, target) for name, target in targets.items() if target is not None},
        "mean_frozen_share": told["mean_frozen_share"],
        "transferred": told["transferred"],
        "repository_share": told["repository_s"] / told["evaluation_s"],
        "not_retired_stored_bytes": own,
        "not_retired_full_bytes": full,
        "stored_bytes": told["stored_bytes"],
        "full_copy_bytes": told["full_copy_bytes"],
        "phases_s": {
            phase: sum(e.seconds.get(phase, 0.0) for e in run.finished) / len(run.finished)
            for phase in sorted({phase for e in run.finished for phase in e.seconds})
        },
        "retrained": again,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--arms", nargs="+", default=["none", "prefix", "tune"])
    parser.add_argument("--problems", nargs="+", default=["flights", "fashion-mnist"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--evaluations", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--retrain", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.retrain is not None:
        retrain(asked.retrain)
        return
    if asked.folder is None:
        parser.error("FOLDER is missing")
    asked.folder.mkdir(parents=True, exist_ok=True)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{asked.evaluations} evaluations, {asked.workers} trainers, {machine}\n")
    table: list[dict[str, Any]] = []
    for problem in asked.problems:
        for seed in asked.seeds:
            folders = {arm: asked.folder / f"{problem}-{seed}-{arm.replace(':', '-')}" for arm in asked.arms}
            told = {
                arm: search(folder, problem, arm, seed, asked.evaluations, asked.workers)
                for arm, folder in folders.items()
            }
            rows: dict[str, dict[str, Any]] = {}
            for arm, folder in folders.items():
                baseline = read_run(folders[baseline_of(arm, asked.arms)])
                row = figures(read_run(folder), told[arm], baseline, retrained(folder))
                rows[arm] = {"problem": problem, "seed": seed, "arm": arm, **row}
            for arm, row in rows.items():
                show(row, rows[baseline_of(arm, asked.arms)])
            table += rows.values()
            (asked.folder / "summary.json").write_text(json.dumps({"machine": machine, "arms": table}, indent=1))


def show(row: dict[str, Any], baseline: dict[str, Any]) -> None:
    """Print one arm beside the arm without transfer."""

    def ratio(name: str) -> str:
        return f"{row[name]:.1f} s ({row[name] / baseline[name]:.2f}x)"

    def reached(name: str) -> str:
        return "never" if row[name] is None else f"{row[name][0]} evaluations, {row[name][1]:.0f} s"

    def bytes_of(stored: str, full: str) -> str:
        return f"{row[stored] / 1e6:.1f} of {row[full] / 1e6:.1f} MB ({row[full] / max(1, row[stored]):.1f}x less)"

    print(f"## {row['problem']}, seed {row['seed']}, {row['arm']}")
    print(
        f"runtime {ratio('runtime_s')}; late evaluations {ratio('late_evaluation_s')}; "
        f"an evaluation {row['evaluation_mean_s']:.2f} +- {row['evaluation_deviation_s']:.2f} s"
    )
    print(
        f"best {row['best']:.4f}, mean {row['mean']:.4f}; to the baseline's 90th percentile: {reached('to_p90')}; "
        f"to its best: {reached('to_best')}"
    )
    again = row["retrained"]
    print(
        "top 3 in search / from scratch / from scratch 3x longer: "
        + "; ".join(f"{r['in_search']:.4f} / {r['once']:.4f} / {r['longer']:.4f}" for r in again)
    )
    print(
        f"frozen {row['mean_frozen_share']:.0%} of vertices on average; {row['transferred']} inherited; repository "
        f"{row['repository_share']:.1%} of evaluation time"
    )
    print(
        f"not retired {bytes_of('not_retired_stored_bytes', 'not_retired_full_bytes')}; living "
        f"{bytes_of('stored_bytes', 'full_copy_bytes')}"
    )
    print(
        "phases: " + ", ".join(f"{phase} {seconds:.3f} s" for phase, seconds in row["phases_s"].items()) + "\n",
        flush=True,
    )


if __name__ == "__main__":
    main()
