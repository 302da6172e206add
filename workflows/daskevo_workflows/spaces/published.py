"""The published spaces as problems, and strategies run on any problem's space without training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daskevo.graph import ArchitectureGraph
from daskevo.search import Report, Request, Strategy
from daskevo.space import Choose, InsertingMutator, ModelSpace, OperatorMutator, layer, named, of_kind
from daskevo.types import Objective
from daskevo_workflows.evaluation.offered_metrics import of_graph
from daskevo_workflows.execution.dry_run import DryRun, run_dry
from daskevo_workflows.problems.attn import Attn
from daskevo_workflows.problems.building import graph_and_key, space_of
from daskevo_workflows.spaces.covertype import Covertype
from daskevo_workflows.spaces.nas_bench_201 import NasBench201
from daskevo_workflows.spaces.nasnet import NasNet


class OfSpace:
    """A problem that is nothing but a space which makes its models itself.

    Parameters
    ----------
    space:
        Such as a :class:`daskevo.models.Mutated`.
    """

    def __init__(self, space: ModelSpace) -> None:
        self._space = space
        self.name = space.name

    def space(self) -> ModelSpace:
        return self._space


class Layers:
    """A conditional space: one or two dense layers, with or without dropout; 42 candidates."""

    name = "layers"

    def build(self, choose: Choose) -> Any:
        import keras

        tensor = inputs = keras.Input((8,))
        for number in range(choose("layers", (1, 2))):
            tensor = keras.layers.Dense(choose(f"width {number}", (4, 8)), "relu")(tensor)
            if choose(f"dropout {number}", (False, True)):
                tensor = keras.layers.Dropout(choose(f"rate {number}", (0.1, 0.3)))(tensor)
        return keras.Model(inputs, keras.layers.Dense(3, "softmax")(tensor))


def _mnasnet() -> ModelSpace:
    # Imports Keras.
    from daskevo_workflows.spaces.mnasnet import mnasnet

    return mnasnet((32, 32, 3), 10, alpha=0.35)


def _evolving() -> ModelSpace:
    from daskevo_workflows.spaces.evolving import evolving

    return evolving((8, 8), 10)


def _growing() -> ModelSpace:
    import keras

    from daskevo.models import Mutated

    def base() -> Any:
        dense = keras.layers.Dense
        return keras.Sequential([keras.Input((8,)), dense(8, "relu", name="hidden"), dense(3, "softmax", name="out")])

    narrow, wide = (layer("Dense", units=units, activation="relu") for units in (4, 16))
    insert = InsertingMutator(of_kind("Dense") & ~named("out"), [narrow, wide], name="insert")
    return Mutated("growing", base, evolve=[insert, OperatorMutator(named("hidden"), [narrow, wide])], steps=2)


PUBLISHED: Mapping[str, Callable[[], Any]] = {
    "attn": Attn,
    "covertype": Covertype,
    "nas-bench-201": NasBench201,
    "nasnet": NasNet,
    "mnasnet": lambda: OfSpace(_mnasnet()),
    "evolving": lambda: OfSpace(_evolving()),
}
"""Word -> makes the problem, with the sizes of docs/spaces-published.md; MnasNet with small pictures."""

SMALL: Mapping[str, Callable[[], Any]] = {
    "cells": lambda: NasBench201(stages=1, channels=4),
    "layers": Layers,
    "growing": lambda: OfSpace(_growing()),
}
"""Three small spaces, one of each kind: static with some candidates rejected, conditional, by mutators in steps."""


@dataclass(frozen=True)
class Looked:
    """What came of a strategy's run on a space.

    Parameters
    ----------
    run:
        With the accounts of a real one.
    graphs:
        Of all candidates asked for, by the request's number.
    """

    run: DryRun
    graphs: Mapping[int, ArchitectureGraph]

    @property
    def finished(self) -> list[Report]:
        """Reports of the evaluations that spent budget."""
        return [report for report in self.run.reports if report.status == "finished"]


def look(
    problem: Any, strategy: Strategy, evaluations: int, seed: int = 0, *, objectives: Sequence[str], at_once: int = 1
) -> Looked:
    """Run a strategy on a problem's space: candidates are built for their graphs, without weights, and not trained.

    Parameters
    ----------
    problem:
        Only its `space` and `build` are used.
    objectives:
        Of ``parameters``, ``flops`` and ``depth``.
    """
    goals = Objective.parse_all(objectives)
    graphs: dict[int, ArchitectureGraph] = {}

    def architecture(request: Request) -> Sequence[bytes]:
        graphs[request.number], key = graph_and_key(problem, request.candidate)
        # The training key too: equal architectures may be trained in different ways, by a dropout rate for instance.
        return [*graphs[request.number].ids, key]

    def evaluate(request: Request) -> Report:
        graph = graphs[request.number]
        metrics = {goal.metric: float(of_graph(goal.metric, graph)) for goal in goals}
        return Report(
            *(request.number, request.model_id, "finished"),
            quality=metrics[goals[0].metric],
            metrics=metrics,
            parameters=graph.parameters,
        )

    run = run_dry(
        *(strategy, space_of(problem), goals, evaluations, seed),
        architecture=architecture,
        evaluate=evaluate,
        at_once=at_once,
    )
    return Looked(run, graphs)
