"""Does transfer pay, and which way of it? Arms of the same search, paired by problem and seed.

    python -m benchmarks.transfer FOLDER [--arms none prefix tune deephyper-cbo deephyper-evolution]
        [--problems flights fashion-mnist] [--seeds 0 1] [--evaluations 100]
    python -m benchmarks.transfer --summary FOLDER_OR_FILE [--arms ...] [--problems ...] [--seeds ...]

An arm is a policy of transfer (`arms.POLICIES`), or a strategy and a policy, such as ``random:prefix``; alone it is
that of aged evolution; or DeepHyper without us (`deephyper_arms.SEARCHES`). Each is compared with the arm of the same
strategy that inherits nothing, or with evolution's, or with the first. Each arm is one `daskevo nas` process on a
cluster of its own, or one of DeepHyper with its pool of processes; arms of one problem and seed follow each other, so
that a drift of the machine meets all of them. The best three of each arm are then trained again from scratch, as long
as an evaluation and three times as long. Everything that is finished is kept in FOLDER: the same command goes on where
it was stopped. Figures and tables go to standard output, all figures to FOLDER/summary.json. ``--summary`` trains
nothing: it makes both of what is finished in FOLDER by now, whichever arms and seeds these are; of a file of figures,
such as docs/measured/transfer.json, it makes the tables. Arms, problems and seeds that are named leave out the others.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.transfer import arms, deephyper_arms
from benchmarks.transfer.figures import figures
from benchmarks.transfer.tables import show, summary
from daskevo_workflows.problems.reference import BUILT_IN


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.transfer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--arms", nargs="+", type=arms.check, help="none prefix tune if not given")
    parser.add_argument("--problems", nargs="+", help="flights fashion-mnist if not given")
    parser.add_argument("--seeds", nargs="+", type=int, help="0 1 if not given")
    parser.add_argument("--evaluations", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--summary", action="store_true", help="of what is finished")
    parser.add_argument("--deephyper", help=argparse.SUPPRESS)
    parser.add_argument("--retrain", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.retrain:
        arms.retrain(asked.folder)
    elif asked.deephyper:
        size = (asked.evaluations, asked.workers)
        deephyper_arms.search(asked.folder, asked.problems[0], asked.deephyper, asked.seeds[0], *size)
    elif asked.summary:
        rows = kept(asked.folder) if asked.folder.is_file() else write(asked.folder, of_finished(asked.folder))
        print(summary([row for row in rows if _is_meant(row, asked)]))
    else:
        asked.arms = asked.arms or ["none", "prefix", "tune"]
        asked.problems = asked.problems or ["flights", "fashion-mnist"]
        asked.seeds = asked.seeds or [0, 1]
        measure(asked)


def _is_meant(row: dict[str, Any], asked: argparse.Namespace) -> bool:
    meant = {"arm": asked.arms, "problem": asked.problems, "seed": asked.seeds}
    return all(named is None or row[name] in named for name, named in meant.items())


def measure(asked: argparse.Namespace) -> None:
    """Run all that isn't finished, show each arm, and the tables in the end."""
    asked.folder.mkdir(parents=True, exist_ok=True)
    print(f"{asked.evaluations} evaluations, {asked.workers} trainers, {machine()}\n", flush=True)
    table: list[dict[str, Any]] = []
    for problem in asked.problems:
        for seed in asked.seeds:
            for arm in asked.arms:
                folder = arms.folder_of(asked.folder, problem, seed, arm)
                arms.search(folder, problem, arm, seed, asked.evaluations, asked.workers)
            for arm in asked.arms:
                arms.retrained(arms.folder_of(asked.folder, problem, seed, arm))
            rows = compared(asked.folder, problem, seed, asked.arms)
            for row in rows.values():
                show(row, rows[row["baseline"]])
            table += rows.values()
            write(asked.folder, table)
    print(summary(table))


def compared(folder: Path, problem: str, seed: int, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return arm -> figures of what ran with one seed."""
    places = {arm: arms.folder_of(folder, problem, seed, arm) for arm in names}
    runs = {arm: arms.read(place) for arm, place in places.items()}
    rows = {}
    for arm, place in places.items():
        again = arms.retrained(place) if (place / "retrained.json").exists() else []
        baseline = arms.baseline_of(arm, names)
        about = {"problem": problem, "seed": seed, "arm": arm, "baseline": baseline}
        rows[arm] = {**about, **figures(runs[arm], runs[baseline], again)}
    return rows


def of_finished(folder: Path) -> list[dict[str, Any]]:
    """Return the figures of all that is finished in a folder."""
    groups: dict[tuple[str, int], list[str]] = {}
    for problem, seed, arm in arms.finished_in(folder, sorted(BUILT_IN)):
        groups.setdefault((problem, seed), []).append(arm)
    return [row for (problem, seed), names in groups.items() for row in compared(folder, problem, seed, names).values()]


def write(folder: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep figures in the folder's summary.json, a line for each arm; return them."""
    lines = ",\n".join(json.dumps(_rounded(row)) for row in rows)
    (folder / "summary.json").write_text(f'{{"machine": {json.dumps(machine())}, "arms": [\n{lines}\n]}}\n')
    return rows


def kept(file: Path) -> list[dict[str, Any]]:
    """Read figures that :func:`write` has kept."""
    return json.loads(file.read_text())["arms"]


def _rounded(value: Any) -> Any:
    """Return figures with five digits, which is more than they are good for."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, (list, tuple)) else value


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
