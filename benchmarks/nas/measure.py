"""The first step, the repository's part of an evaluation, a search's overhead beyond training."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.nas.first_steps import PHASES, Steps, measure_steps
from benchmarks.nas.overhead import (
    Overhead,
    measure_futures,
    measure_ours,
    measure_rivals,
    overhead_table,
    quiet_logs,
)
from benchmarks.nas.repository_part import STEPS, evaluate_in_turn, lineage, repository_share, repository_table
from benchmarks.shared.outcome import Outcome
from benchmarks.shared.sleeping_problem import Sleeping
from benchmarks.shared.timing import median
from daskevo_workflows.measurements.machine import machine_line
from daskevo_workflows.problems import refer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PACKAGES = ("dask", "keras", "tensorflow-cpu", "tensorflow", "optuna", "deephyper", "keras-tuner")


def measure(quick: bool, say: Callable[[str], None]) -> Outcome:
    """Measure all three parts; `quick` at toy sizes."""
    reference = refer("digits") if quick else refer("flights")
    candidates, evaluations, sleep_s = (1, 4, 0.05) if quick else (10, 40, 0.5)
    say(f"the first step: {reference.name}, {candidates} candidates by fit and by fast_fit")
    steps = measure_steps(reference.load(), candidates)
    problem = Sleeping(sleep_s)
    overheads: list[Overhead] = []
    repository: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="daskevo-bench-") as folder, quiet_logs():
        for workers in (1,) if quick else (1, 2):
            place = Path(folder) / str(workers)
            say(f"overhead of a search, {workers} at a time")
            import daskevo

            with (
                daskevo.local_cluster(trainers=workers, dashboard_address=None) as cluster,
                cluster.get_client() as client,
            ):
                overheads.append(measure_ours(client, place, problem, evaluations, workers))
                overheads.append(measure_futures(client, problem, evaluations, workers))
                if workers == 1:
                    say(f"the repository's part: {candidates + 1} evaluations of {reference.name}")
                    handle = daskevo.open(place / "evaluations", reference.name, client=client)
                    task = client.submit(
                        evaluate_in_turn,
                        handle,
                        reference,
                        lineage(reference, candidates + 1),
                        3,
                        resources={"evaluation": 1},
                        pure=False,
                    )
                    repository = task.result()
            say(f"overhead of the rivals, {workers} at a time")
            overheads += measure_rivals(place / "rivals", problem, evaluations, workers)
    ways = {"fit": steps.plain, "fast_fit": steps.fast}
    value = {
        "steps": {
            "problem": steps.problem,
            **{name: {phase: median([one[phase] for one in way]) for phase in PHASES} for name, way in ways.items()},
            "speedup": steps.speedup,
        },
        "repository": {
            **{f"{step}_ms": 1e3 * median([one[step] for one in repository]) for step in STEPS},
            "share": repository_share(repository),
        },
        "overhead": [{"framework": one.framework, "workers": one.workers, "seconds": one.seconds} for one in overheads],
    }
    tables = (
        steps.table(),
        repository_table(reference.name, repository),
        overhead_table(overheads, sleep_s, evaluations),
    )
    return Outcome(machine_line(PACKAGES), tables, value, lambda figure: draw(figure, steps, overheads))


def draw(figure: Figure, steps: Steps, overheads: Sequence[Overhead]) -> None:
    """Draw an evaluation's phases both ways, and the overhead of each framework."""
    from daskevo_workflows.reports.figures.phases import PHASE_INKS

    left, right = figure.subplots(1, 2)
    for row, way in enumerate(steps.ways):
        begun = 0.0
        for phase in PHASES:
            seconds = median([one[phase] for one in way])
            colour, hatch = PHASE_INKS[phase]
            label = phase.replace("_", " ") if row == 0 else None
            left.barh(row, seconds, left=begun, color=colour, hatch=hatch, edgecolor="white", label=label)
            begun += seconds
    left.set_yticks([0, 1], ["fit", "fast_fit"])
    left.invert_yaxis()
    left.set_xlabel("seconds")
    left.set_title(f"An evaluation of {steps.problem}")
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=3, frameon=False)
    measured: list[Any] = [one for one in overheads if one.seconds is not None]
    right.barh([f"{one.framework}, {one.workers} at a time" for one in measured], [one.seconds for one in measured])
    right.invert_yaxis()
    right.set_xlabel("seconds per evaluation")
    right.set_title("Beyond training")
