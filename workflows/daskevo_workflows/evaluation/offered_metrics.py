"""Metrics that daskevo computes itself, for objectives that the problem's `score` does not return.

- ``parameters``: number of values in all tensors; ``depth``: layers with weights on the longest such path; ``flops``:
  operations of one prediction (see :mod:`daskevo.models.flops` for what is counted).
- ``seconds``: training time on the trainer, of all parts if there are several; it varies between runs.
- ``own_bytes``: bytes of the tensors that the model had to store itself. It is known only after storing, so it can't be
  the first objective, which is the quality stored with the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from daskevo.errors import InvalidInput
from daskevo.graph import ArchitectureGraph
from daskevo.graph.depth import depth
from daskevo.types import Objective

OF_GRAPHS = ("parameters", "flops", "depth")
"""Metrics known before training."""
OFFERED = (*OF_GRAPHS, "seconds", "own_bytes")


def check_objectives(objectives: Sequence[Objective]) -> None:
    """Check that the first objective can be a quality.

    Raises
    ------
    InvalidInput
    """
    if objectives[0].metric == "own_bytes":
        raise InvalidInput(
            f"the first objective is {str(objectives[0])!r}, known only once a model is stored with its quality: "
            "name another one first"
        )


def of_graph(name: str, graph: ArchitectureGraph) -> int:
    """Return one of `OF_GRAPHS` of a model."""
    from daskevo.models.flops import flops

    if name == "parameters":
        return graph.parameters
    return flops(graph).total if name == "flops" else depth(graph)


def missing(
    objectives: Sequence[Objective], metrics: Mapping[str, Any], graph: ArchitectureGraph, seconds: float
) -> dict[str, float]:
    """Return metrics of objectives that training did not return and that are known before the model is stored.

    Parameters
    ----------
    seconds:
        For which the model was trained.
    """
    wanted = {objective.metric for objective in objectives}.difference(metrics)
    found: dict[str, float] = {name: of_graph(name, graph) for name in OF_GRAPHS if name in wanted}
    if "seconds" in wanted:
        found["seconds"] = seconds
    return found


def when_stored(objectives: Sequence[Objective], metrics: Mapping[str, Any], own_bytes: int) -> dict[str, Any]:
    """Return a stored model's metrics, including `own_bytes` if it is an objective."""
    if "own_bytes" not in metrics and any(objective.metric == "own_bytes" for objective in objectives):
        return {**metrics, "own_bytes": own_bytes}
    return dict(metrics)
