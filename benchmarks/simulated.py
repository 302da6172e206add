"""The simulator against real runs, and what it says of clusters that are not at hand.

python -m benchmarks.simulated FOLDER [--parts recorded queries sleeping large] [--costs FILE]

Figures go to FOLDER/simulation.json, a line for each, as docs/measured/simulation.json has them; parts that are not run
again keep the figures of that file. Only `sleeping` starts clusters: trainers that are threads of this process.
`--costs` are those that `python -m daskevo_workflows.simulate measure flights` wrote.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.tuning.arms import rounded
from daskevo.search import AgedEvolution
from daskevo_workflows.measurements.machine import machine_line
from daskevo_workflows.problems import load_problem
from daskevo_workflows.problems.building import space_to_search
from daskevo_workflows.simulate import MeasuredCosts, Phase, layered, layered_space, of_problem, queries, search
from daskevo_workflows.simulate.costs import PHASES

Row = dict[str, Any]

DOCS = Path(__file__).parents[1] / "docs"
MEASURED = DOCS / "measured"
FIT_SEEDS, TOLD_SEEDS = (0, 1), (2, 3, 4)
SEARCHED = {"population": 12, "sample": 4}
"""Of the runs in docs/measured/transfer.json: 60 evaluations on two trainers and a provider."""

RECORDED_QUERIES = (
    # Of docs/benchmarks.md, one client: providers, questions in a message, queries per second, median ms. Queries of
    # several threads of one trainer travel together, which the simulator knows nothing of.
    (1, 1, 963, 0.877),
    (2, 1, 620, 1.40),
    (4, 1, 404, 2.07),
    (1, 100, 20_700, 4.33),
    (2, 100, 14_500, 6.29),
    (4, 100, 9_640, 9.93),
)
SLEEPERS, SLEEP_S, ROUNDS = (1, 8, 16, 32), 1.0, 6
LARGE = (128, 256, 512)


def recorded_costs(base: MeasuredCosts, arms: Sequence[Mapping[str, Any]]) -> MeasuredCosts:
    """Return costs whose evaluations are those of some recorded runs, without transfer and with a frozen prefix."""
    alone = [arm for arm in arms if arm["arm"] == "none"]
    shared = [arm for arm in arms if arm["arm"] == "prefix"]

    def mean(some: Sequence[Mapping[str, Any]], name: str) -> float:
        return statistics.fmean(arm["phases_s"][name] for arm in some)

    frozen = statistics.fmean(arm["mean_frozen_share"] for arm in shared)
    means = {name: mean(alone, name) for name in PHASES}
    wanted = statistics.fmean(arm["evaluation_deviation_s"] / arm["evaluation_mean_s"] for arm in arms)
    # Phases vary by themselves here: their spread is larger than that of their sum.
    spread = wanted * sum(means.values()) / sum(value**2 for value in means.values()) ** 0.5
    phases = {}
    for name, seconds in means.items():
        saving = max(0.0, (1 - mean(shared, name) / seconds) / frozen) if name in ("first_step", "training") else 0.0
        phases[name] = Phase(seconds, 0.0, saving, min(1.0, spread))
    waited = 4 * base.latency_s + base.coordinator_s + base.put_message_s + base.flush_s
    return base.but(
        f"docs/measured/transfer.json, flights, seeds {', '.join(map(str, FIT_SEEDS))}",
        **phases,
        prepare_s=60 / 2 * mean(alone, "prepare"),  # 60 evaluations on two trainers, of which the first has it all
        inherit_s=mean(shared, "inherit"),
        compile_s=mean(alone, "compile"),
        put_s=max(0.0, mean(alone, "put") - waited),
    )


def recorded_arms() -> list[Mapping[str, Any]]:
    arms = json.loads((MEASURED / "transfer.json").read_text())["arms"]
    return [arm for arm in arms if arm["problem"] == "flights" and arm["arm"] in ("none", "prefix")]


def recorded(base: MeasuredCosts) -> list[Row]:
    """Tell the recorded runs of other seeds from those of the first."""
    arms = recorded_arms()
    costs = recorded_costs(base, [arm for arm in arms if arm["seed"] in FIT_SEEDS])
    problem = load_problem("flights")
    space, graphs = space_to_search(problem), of_problem(problem)
    rows = []
    for word in ("none", "prefix"):
        real = [arm for arm in arms if arm["arm"] == word and arm["seed"] in TOLD_SEEDS]
        told = [
            search(
                AgedEvolution(**SEARCHED),
                space,
                graphs,
                trainers=2,
                evaluations=60,
                costs=costs,
                seed=arm["seed"],
                providers=1,
                freeze="prefix",
                transfer=word == "prefix",
            )
            for arm in real
        ]
        for name, found, said in (
            ("runtime_s", [arm["runtime_s"] for arm in real], [each.runtime_s for each in told]),
            ("frozen_share", [arm["mean_frozen_share"] for arm in real], [each.mean_frozen_share for each in told]),
            (
                "stored_share",
                [arm["stored_bytes"] / arm["full_copy_bytes"] for arm in real],
                [each.storage[-1].stored_bytes / each.storage[-1].full_copy_bytes for each in told],
            ),
        ):
            rows.append(
                {
                    "part": "recorded",
                    "arm": word,
                    "figure": name,
                    "real": statistics.median(found),
                    "told": statistics.median(said),
                    "runs": len(real),
                }
            )
    return rows


def asked(base: MeasuredCosts) -> list[Row]:
    """Tell recorded queries over a cluster of processes on two cores."""
    rows = []
    for providers, batch, per_s, median_ms in RECORDED_QUERIES:
        told = queries(1, base, count=500, batch=batch, providers=providers, shared_cores=2)
        rows.append(
            {
                "part": "queries",
                "providers": providers,
                "batch": batch,
                "real_per_s": per_s,
                "told_per_s": told.per_s,
                "real_ms": median_ms,
                "told_ms": 1000 * told.mean_s,
            }
        )
    return rows


def sleeping(base: MeasuredCosts, folder: Path) -> list[Row]:
    """Search for real with trainers that are threads of this process and sleep, and tell the same from one trainer."""
    from benchmarks.shared.sleeping_problem import Sleeping
    from daskevo_workflows.simulate.fitting import fitted

    problem = Sleeping(SLEEP_S)
    space, graphs = space_to_search(problem), of_problem(problem)
    rows: list[Row] = []
    costs = base
    for trainers in SLEEPERS:
        result, seconds, work_s = _slept(problem, trainers, folder / str(trainers))
        if trainers == 1:
            # What one trainer took beside its sleep stands for all: the others differ by number alone.
            costs = fitted(base, list(result.reports), "a search with one trainer, a thread of the search's process")
        told = search(
            AgedEvolution(),
            space,
            graphs,
            trainers=trainers,
            evaluations=ROUNDS * trainers + 8,
            costs=costs,
            seed=1,
            providers=1,
            shared_cores=1,
        )
        rows.append(
            {
                "part": "sleeping",
                "trainers": trainers,
                "evaluations": ROUNDS * trainers + 8,
                "sleep_s": SLEEP_S,
                "real_s": seconds,
                "told_s": told.runtime_s,
                "work_s": work_s,
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def _slept(problem: Any, trainers: int, folder: Path) -> tuple[Any, float, float]:
    from distributed import SpecCluster, Worker

    import daskevo
    from daskevo_workflows import nas

    def spec(resources: Mapping[str, float], threads: int) -> Mapping[str, Any]:
        return {"cls": Worker, "options": {"nthreads": threads, "resources": resources, "memory_limit": 0}}

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    workers = {f"trainer-{number}": spec({"evaluation": 1}, 1) for number in range(trainers)}
    workers["provider-0"] = spec({"provider": 1}, 4)
    with SpecCluster(workers=workers, silence_logs=False) as cluster, cluster.get_client() as client:
        client.wait_for_workers(trainers + 1)
        repository = daskevo.open(folder / "repository", "slept", client=client, objective=problem.objective)
        options = {"repository": repository, "recycle_after": None, "strategy": AgedEvolution()}
        nas.search(problem, evaluations=2 * trainers, run=folder / "before", seed=7, **options)
        work_s, since = time.process_time(), time.time()
        result = nas.search(problem, evaluations=ROUNDS * trainers + 8, run=folder / "run", seed=1, **options)
        ended = max(report.ended or since for report in result.reports)
        begun = min(report.started or ended for report in result.reports)
        return result, ended - begun, (time.process_time() - work_s) / (ROUNDS * trainers + 8)


def large(base: MeasuredCosts) -> list[Row]:
    """Tell what is not at hand: paper 000's figures 5, 8 and 9, and what holds up 128 to 512 trainers."""
    rows: list[Row] = []
    for workers in (1, 8, 32, 128, 256, 512):
        ours = queries(workers, base)
        batched = queries(workers, base, count=10_000 // 100, batch=100) if workers <= 100 else None
        central = queries(workers, base, count=max(workers, 100), central=60_000)
        rows.append(
            {
                "part": "figure 5",
                "workers": workers,
                "providers": ours.providers,
                "per_s": ours.per_s,
                "mean_ms": 1000 * ours.mean_s,
                "busy_share": ours.busy_share,
                "central_per_s": central.per_s,
                "batched_per_s": None if batched is None else batched.per_s,
            }
        )
    costs = recorded_costs(base, [arm for arm in recorded_arms() if arm["seed"] in FIT_SEEDS])
    space = layered_space(12, 8)
    graphs = layered(space)
    slow = 60.0 / costs.evaluation_s(0, 0.0)
    long = {name: replace(phase, fixed_s=phase.fixed_s * slow) for name in PHASES for phase in [getattr(costs, name)]}
    minute = costs.but("as long an evaluation as makes a minute in all", **long)
    arms: Mapping[str, Mapping[str, Any]] = {
        "no transfer": {"transfer": False},
        "daskevo": {},
        "files and one server": {"keep": "files"},
    }
    for length, chosen in (("as measured", costs), ("a minute", minute)):
        for trainers in LARGE:
            for arm, options in arms.items():
                outcome = search(
                    AgedEvolution(population=50, sample=5),
                    space,
                    graphs,
                    trainers=trainers,
                    evaluations=1000,
                    costs=chosen,
                    seed=1,
                    shards=max(64, trainers // 2),
                    freeze="prefix",
                    **options,
                )
                told = outcome.to_json()
                rows.append({"part": "figures 8 and 9", "length": length, "arm": arm, **told})
                print(length, trainers, arm, round(told["runtime_s"], 1), file=sys.stderr, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.simulated", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parts", nargs="+", default=["recorded", "queries", "sleeping", "large"])
    parser.add_argument("--costs", type=Path, default=MEASURED / "costs-flights.json")
    given = parser.parse_args()
    base = MeasuredCosts.load(given.costs)
    given.folder.mkdir(parents=True, exist_ok=True)
    made = {
        "recorded": lambda: recorded(base),
        "queries": lambda: asked(base),
        "sleeping": lambda: sleeping(base, given.folder / "sleeping"),
        "large": lambda: large(base),
    }
    before = MEASURED / "simulation.json"
    old = json.loads(before.read_text())["rows"] if before.exists() else []
    rows: list[Row] = []
    for part, make in made.items():
        names = ("figure 5", "figures 8 and 9") if part == "large" else (part,)
        rows += make() if part in given.parts else [row for row in old if row["part"] in names]
    machine = machine_line(["distributed", "keras"])
    lines = ",\n".join(json.dumps(rounded(row), ensure_ascii=False) for row in rows)
    (given.folder / "simulation.json").write_text(f'{{"machine": {json.dumps(machine)}, "rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
