"""Halving and asynchronous halving for real: what sharing equal steps saves against each trial by itself.

Run `python -m benchmarks.rungs_for_real FOLDER` on a quiet machine; started again, it goes on after the arms that
are finished. The problem is that of `rungs_problem.py`: 48 trials, rungs at 1, 4 and 16 epochs, each arm on a cluster
of its own. By itself, a trial has a constant of its own, which keeps it apart from all others, bit for bit the same
training; its rungs go on from its own snapshots. Halving asks the same in both; asynchronous halving asks by who comes
first, so it is simulated too, with the losses of all trials at all rungs and the seconds that were measured. All
figures go to FOLDER/rungs.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import daskevo
from benchmarks.tuning.alone import Alone
from benchmarks.tuning.arms import Row, arm, done, keep
from benchmarks.tuning.costs import machine, seconds_of
from benchmarks.tuning.tables import summary
from benchmarks.tuning.training import OBJECTIVE, train
from daskevo.search import AsynchronousHalving, Strategy, SuccessiveHalving
from daskevo.tuning import Configuration, Trajectory, count_steps, simulate
from daskevo_workflows import tune
from daskevo_workflows.problems import load_problem
from tests.tuning.asking import Asking

PROBLEM = Path(__file__).with_name("rungs_problem.py")

STRATEGIES = ("halving", "asynchronous halving")


def makers(given: argparse.Namespace) -> dict[str, Callable[[], Strategy]]:
    """Return strategies by name."""
    sizes = (1, given.most, given.eta)
    return {
        "halving": lambda: SuccessiveHalving(*sizes, candidates=given.candidates, rounds=1),
        "asynchronous halving": lambda: AsynchronousHalving(*sizes, candidates=given.candidates),
    }


def measure(given: argparse.Namespace) -> None:
    """Be the process of an arm."""
    space = load_problem(PROBLEM).space()  # type: ignore[attr-defined]
    if given.arm == "losses":
        done(given.folder, {"losses": losses(given, space)})
        return
    word, _, way = given.arm.partition(":")
    studies = {"run": (Alone.of(space) if way == "alone" else space, makers(given)[word])}
    done(given.folder, train(given.folder, studies, given.most, given.trainers, problem=PROBLEM))


def losses(given: argparse.Namespace, space: Any) -> dict[str, float]:
    """Return the loss of all trials at all rungs, by what is trained until there."""
    found = {}
    with (
        daskevo.local_cluster(trainers=given.trainers, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        repository = daskevo.open(given.folder / "repository", "tuning", client=client, objective=OBJECTIVE)
        with tune.study(PROBLEM, space, repository=repository, run=given.folder / "run") as study:
            futures = {
                (candidate, step): study.submit(candidate, step)
                for candidate in space.enumerate()
                for step in rungs(given)
            }
            for (candidate, step), future in futures.items():
                found[_key(space.configuration(candidate), step)] = future.result()["val_loss"]
    return found


def rungs(given: argparse.Namespace) -> list[int]:
    """Return the epochs at which trials are compared."""
    found = [1]
    while found[-1] < given.most:
        found.append(found[-1] * given.eta)
    return found


def _key(configuration: Configuration, step: int) -> str:
    return Trajectory("any", configuration).key(step)


def replayed(given: argparse.Namespace, space: Any, known: Mapping[str, float], arms: Mapping[str, Any]) -> list[Row]:
    """Return rows of asynchronous halving as the simulator has it, by measured seconds and losses."""

    def metrics(configuration: Configuration, step: int) -> dict[str, float]:
        return {"loss": known[_key(configuration, step)]}

    alone, shared = (arms[f"asynchronous halving:{way}"] for way in ("alone", "shared"))
    costs = seconds_of(alone["works"], alone["answers"])
    starts = {"alone": costs["build_s"], "shared": seconds_of(shared["works"], shared["answers"])["start_s"]}
    rows = []
    for way, start_s in starts.items():
        study = Asking(makers(given)["asynchronous halving"](), space, given.candidates)
        said = simulate(study, given.trainers, machine(costs, start_s, metrics), shared=way == "shared")
        rows.append(
            {
                "strategy": "asynchronous halving, replayed",
                "arm": way,
                "total_steps": said.total_steps,
                "trained_steps": said.trained_steps,
                "busy_s": said.busy_s,
                "ran_s": said.makespan_s,
            }
        )
    return rows


def rows_of(given: argparse.Namespace) -> list[Row]:
    """Return all rows, measured where they aren't there yet."""
    space = load_problem(PROBLEM).space()  # type: ignore[attr-defined]
    words = ["--candidates", str(given.candidates), "--most", str(given.most), "--eta", str(given.eta)]
    words += ["--trainers", str(given.trainers)]

    def run(word: str) -> dict[str, Any]:
        place = given.folder / "rungs" / word.replace(" ", "-").replace(":", "-")
        return arm(place, __spec__.name, *words, "--arm", word)

    arms = {f"{word}:{way}": run(f"{word}:{way}") for word in STRATEGIES for way in ("shared", "alone")}
    steps = count_steps([(Trajectory("any", space.configuration(each)), given.most) for each in space.enumerate()])
    rows: list[Row] = []
    for name, figures in arms.items():
        word, _, way = name.partition(":")
        last, best, _ = min(figures["trials"].values(), key=lambda trial: trial[1])
        rows.append(
            {
                "strategy": word,
                "arm": way,
                **{key: value for key, value in figures.items() if key not in ("trials", "works")},
                "works": len(figures["works"]),
                "busy_s": figures["training_s"] + figures["start_s"] + figures["scoring_s"],
                "best": best,
                "best_step": last,
                "identical": len(
                    [one for one, found in figures["trials"].items() if found == arms[f"{word}:alone"]["trials"][one]]
                ),
            }
        )
    rows += replayed(given, space, run("losses")["losses"], arms)
    about = {"candidates": given.candidates, "rungs": rungs(given), "merge_rate": steps.merge_rate}
    return [{"part": "rungs", **about, **row} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--candidates", type=int, default=48, help="that begin")
    parser.add_argument("--most", type=int, default=16, help="epochs of the last rung")
    parser.add_argument("--eta", type=int, default=4)
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.arm:
        measure(given)
        return
    rows = rows_of(given)
    keep(given.folder / "rungs.json", rows)
    print(summary(rows))


if __name__ == "__main__":
    main()
