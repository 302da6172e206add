"""What a trainer adds to an evaluation's training: the same candidates in a plain process and on trainers, in turn.

Run it as ``python -m benchmarks.trainer_speed [--problem flights] [--candidates 12] [--arms trainer,dask]``: it
starts a process of its own with the environment of a trainer, and a cluster of one trainer with one thread for each
further arm, and gives each candidate to one after the other, so that a machine that is busy with something else slows
all of them down alike. Nothing is stored or inherited: it is about building, compiling, training and scoring. Printed
are medians over the candidates, and of the ratios to the plain process of the same candidate; page faults and the
system's share of the processor's time beside them, since they tell where time goes.

Arms: ``process`` (always), ``trainer`` (as `daskevo.local_cluster` makes it), ``dask`` (the same, with Dask's settings
of `malloc` and of what interrupts a worker), ``memory`` (with Dask's interruptions only), ``twice`` (another plain
process: how far equal things differ). On a machine that is busy the processor's time says more than the clock.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Measured = dict[str, float]
Evaluate = Callable[[str, int], Measured]

# Whoever chooses, if only Dask's own values in other words, keeps them: see `daskevo.deploy.heap` and `role_options`.
OFTEN = {"distributed.worker.profile.interval": "10 ms", "distributed.admin.tick.interval": "20 ms"}
TRIMMED = {"MALLOC_MMAP_THRESHOLD_": ""}
ARMS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "trainer": ({}, {}),
    "memory": (OFTEN, {}),
    "dask": (OFTEN, TRIMMED),
}


def evaluate(problem_name: str, seed: int) -> Measured:
    """Build, compile, train and score one candidate; return seconds by phase, and what the process used."""
    import numpy as np

    from daskevo_workflows.evaluation.quiet_import import import_keras
    from daskevo_workflows.evaluation.training import Stopwatch, train
    from daskevo_workflows.problems.building import build_candidate, space_of
    from daskevo_workflows.problems.reference import data_of, refer

    import_keras()
    from daskevo.models import seeded

    reference = refer(problem_name)
    problem = reference.load()
    data = data_of(reference)
    candidate = space_of(problem).sample(np.random.default_rng(seed))
    watch = Stopwatch()
    before, begun = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    with seeded(seed):
        with watch.phase("build"):
            model = build_candidate(problem, candidate)
        train(problem, model, data, watch)
    took, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return {
        **watch.seconds,
        "all": took,
        "processor": user + system,
        "system": system,
        "page_faults": float(after.ru_minflt - before.ru_minflt),
        "switches": float(after.ru_nvcsw - before.ru_nvcsw),
    }


@contextlib.contextmanager
def a_process() -> Iterator[Evaluate]:
    """Yield what evaluates in a process of its own, started with a trainer's environment."""
    from daskevo.deploy.worker_environment import trainer_environment

    environment = {**os.environ, **trainer_environment(1, None)}
    environment.pop("MALLOC_TRIM_THRESHOLD_", None)  # which a nanny leaves in its parent's environment
    command = [sys.executable, "-m", "benchmarks.trainer_speed", "--serve"]
    with subprocess.Popen(
        command,
        env=environment,
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        to, out = process.stdin, process.stdout

        def ask(problem_name: str, seed: int) -> Measured:
            to.write(json.dumps([problem_name, seed]) + "\n")
            to.flush()
            return dict(json.loads(out.readline()))

        yield ask
        to.close()


def serve() -> None:
    """Evaluate what comes in lines, in the main thread."""
    for line in sys.stdin:
        print(json.dumps(evaluate(*json.loads(line))), flush=True)


@contextlib.contextmanager
def a_trainer(config: dict[str, str], env: dict[str, str]) -> Iterator[Evaluate]:
    """Yield what evaluates on a trainer of a cluster of its own."""
    import dask

    import daskevo
    from daskevo.deploy.roles import EVALUATION

    with (
        dask.config.set(config),
        daskevo.local_cluster(trainers=1, threads_per_trainer=1, dashboard_address=None, env=env) as cluster,
        cluster.get_client() as client,
    ):

        def ask(problem_name: str, seed: int) -> Measured:
            return dict(client.submit(evaluate, problem_name, seed, pure=False, resources={EVALUATION: 1}).result())

        yield ask


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", default="flights")
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--arms", default="trainer,dask")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
        return
    with contextlib.ExitStack() as stack:
        arms: dict[str, Evaluate] = {"process": stack.enter_context(a_process())}
        for name in filter(None, given.arms.split(",")):
            arm = a_process() if name == "twice" else a_trainer(*ARMS[name])
            arms[name] = stack.enter_context(arm)
        for ask in arms.values():
            ask(given.problem, 10**6)  # imports, data, the first graph
        measured: dict[str, list[Measured]] = {name: [] for name in arms}
        for number in range(given.candidates):
            order = list(arms)[:: 1 if number % 2 else -1]
            for name in order:
                measured[name].append(arms[name](given.problem, number))
    tell(measured, given)


def tell(measured: dict[str, list[Measured]], given: Any) -> None:
    """Print medians by arm."""
    ratios, figures = ("all", "processor", "training"), ("all", "first_step", "training", "processor", "system")
    counts = ("page_faults", "switches")
    print(f"{given.problem}, {given.candidates} candidates, Python {platform.python_version()}, {os.cpu_count()} cores")
    heads = [f"{name} ratio" for name in ratios] + [f"{name} s" for name in figures] + list(counts)
    print(" | ".join(["arm", *heads]))
    for arm, rows in measured.items():
        pairs = list(zip(rows, measured["process"], strict=True))
        cells = [f"{statistics.median(row[name] / plain[name] for row, plain in pairs):.2f}" for name in ratios]
        cells += [f"{statistics.median(row[name] for row in rows):.2f}" for name in figures]
        cells += [f"{statistics.median(row[name] for row in rows):.0f}" for name in counts]
        print(" | ".join([arm, *cells]))


if __name__ == "__main__":
    main()
