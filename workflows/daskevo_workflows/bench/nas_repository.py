"""Repository time in an evaluation: a trainer that evaluates one candidate after the other, each step timed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from daskevo_workflows.bench.tables import Table, figure
from daskevo_workflows.bench.timing import median
from daskevo_workflows.problems.reference import ProblemReference, data_of

STEPS = ("query", "open", "read", "put", "retire")


def evaluate_in_turn(
    repository: Any, reference: ProblemReference, candidates: int, keep: int
) -> list[dict[str, float]]:
    """Evaluate a lineage of mutated candidates in this task; the oldest is retired when more than `keep` are there.

    Returns
    -------
    list[dict]
        Seconds of query, open (graph, attempt, freezing), read, put, retire, and of the whole evaluation.
    """
    import numpy as np

    from daskevo_workflows.quiet import import_keras

    import_keras()
    from daskevo_workflows.training import Stopwatch, train

    problem, data = reference.load(), data_of(reference)
    space, rng = problem.space(), np.random.default_rng(0)
    candidate, living, found = space.sample(rng), [], []
    for _ in range(candidates + 1):
        candidate = space.mutate(candidate, rng)
        begun = time.perf_counter()
        model = problem.build(space.values(candidate))
        built = time.perf_counter()
        with repository.inherit(model) as child:
            entered = time.perf_counter()
            metrics, steps = train(problem, model, data, Stopwatch())
            trained = time.perf_counter()
            living.append(child.put(metrics=metrics, step=steps, labels=["bench:nas"]))
            put = time.perf_counter()
        if len(living) > keep:
            repository.retire(living.pop(0))
        ended = time.perf_counter()
        query = child.timings.get("match_s", 0.0)
        read = child.timings.get("reserve_s", 0.0)
        parts = {"query": query, "open": entered - built - query - read, "read": read, "put": put - trained}
        found.append({**parts, "retire": ended - put, "evaluation": ended - begun})
    return found[1:]  # the first also loads libraries and connects


def repository_table(name: str, found: Sequence[dict[str, float]]) -> Table:
    rows = [(step, figure(1e3 * median([one[step] for one in found]))) for step in STEPS]
    rows += [
        ("together", figure(1e3 * median([sum(one[step] for step in STEPS) for one in found]))),
        ("evaluation", figure(1e3 * median([one["evaluation"] for one in found]))),
        ("share", f"{repository_share(found):.2%}"),
    ]
    notes = (
        f"{len(found)} evaluations of {name} in a row on one trainer, the provider being another process; medians, the "
        "share that of the sums. Open: the graph, the attempt and freezing; read: references, tensors and what begins "
        "with them.",
    )
    return Table("The repository's part of an evaluation (milliseconds)", ("", "ms"), rows, notes)


def repository_share(found: Sequence[dict[str, float]]) -> float:
    """Return the repository's share of all time, 0 to 1."""
    return sum(one[step] for one in found for step in STEPS) / sum(one["evaluation"] for one in found)
