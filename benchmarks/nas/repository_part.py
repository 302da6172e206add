"""Repository time in an evaluation: a trainer that evaluates one candidate after the other, each step timed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.shared.timing import median
from daskevo_workflows.measurements.tables import FigureTable, figure
from daskevo_workflows.problems.building import build_candidate, space_of
from daskevo_workflows.problems.reference import ProblemReference, data_of

if TYPE_CHECKING:
    from daskevo.graph import ArchitectureGraph
    from daskevo.space import Candidate

STEPS = ("query", "open", "read", "put", "retire")


def lineage(reference: ProblemReference, count: int) -> list[tuple[Candidate, ArchitectureGraph]]:
    """Return candidates with their graphs, each a mutation of the one before.

    A graph says, as a search's does, which weights are loaded into its model: none here.
    """
    import numpy as np

    from daskevo.models import flatten, given_weights, shape_only

    problem, rng = reference.load(), np.random.default_rng(0)
    space = space_of(problem)
    candidate, found = space.sample(rng), []
    for _ in range(count):
        candidate = space.mutate(candidate, rng)
        with shape_only():
            flat = flatten(build_candidate(problem, candidate))
            found.append((candidate, flat.graph.started(given_weights(flat))))
    return found


def evaluate_in_turn(
    repository: Any, reference: ProblemReference, candidates: Sequence[tuple[Candidate, Any]], keep: int
) -> list[dict[str, float]]:
    """Evaluate candidates in this task; the oldest is retired when more than `keep` are there.

    As in a search, a candidate comes with its graph, and what it inherits is reserved while it is built.

    Returns
    -------
    list[dict]
        Seconds waited for query, open (graph, freezing), read, put, retire, and of the whole evaluation.
    """
    from daskevo_workflows.evaluation.quiet_import import import_keras

    import_keras()
    from daskevo_workflows.evaluation.training import Stopwatch, train

    problem, data = reference.load(), data_of(reference)
    living, found = [], []
    for candidate, graph in candidates:
        begun = time.perf_counter()
        with repository.reserve(graph, knows_loaded=True) as reserved:
            reserving = time.perf_counter()
            model = build_candidate(problem, candidate)
            built = time.perf_counter()
            with repository.inherit(model, reserved=reserved) as child:
                entered = time.perf_counter()
                metrics, steps = train(problem, model, data, Stopwatch())
                trained = time.perf_counter()
                living.append(child.put(metrics=metrics, step=steps, labels=["bench:nas"]))
                put = time.perf_counter()
        if len(living) > keep:
            repository.retire(living.pop(0))
        ended = time.perf_counter()
        waited = child.timings["wait_s"]
        # Of what was waited for, the match came before the reservation.
        read = min(waited, child.timings.get("reserve_s", 0.0))
        opened = reserving - begun + entered - built - waited
        parts = {"query": waited - read, "open": opened, "read": read, "put": put - trained}
        found.append({**parts, "retire": ended - put, "evaluation": ended - begun})
    return found[1:]  # the first also loads libraries and connects


def repository_table(name: str, found: Sequence[dict[str, float]]) -> FigureTable:
    rows = [(step, figure(1e3 * median([one[step] for one in found]))) for step in STEPS]
    rows += [
        ("together", figure(1e3 * median([sum(one[step] for step in STEPS) for one in found]))),
        ("evaluation", figure(1e3 * median([one["evaluation"] for one in found]))),
        ("share", f"{repository_share(found):.2%}"),
    ]
    notes = (
        f"{len(found)} evaluations of {name} in a row on one trainer, the provider being another process; medians, the "
        "share that of the sums. Open: the graph, giving variables their values, freezing. Query and read (references "
        "and tensors) go on while the candidate is built: what had to be waited for after that.",
    )
    return FigureTable("The repository's part of an evaluation (milliseconds)", ("", "ms"), rows, notes)


def repository_share(found: Sequence[dict[str, float]]) -> float:
    """Return the repository's share of all time, 0 to 1."""
    return sum(one[step] for one in found for step in STEPS) / sum(one["evaluation"] for one in found)
