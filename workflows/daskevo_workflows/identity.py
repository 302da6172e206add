"""What makes a run this one and no other: the same from Python and from the command line."""

from __future__ import annotations

from typing import Any

from daskevo.search import Strategy
from daskevo.types import JSON, Objective
from daskevo_workflows.problems import ProblemReference
from daskevo_workflows.problems.building import space_of


def identity_of(
    reference: ProblemReference,
    objective: Objective,
    strategy: Strategy,
    *,
    seed: int,
    transfer: bool,
    freeze: Any,
    control_share: float,
    epochs: int | None,
) -> dict[str, JSON]:
    """Return the identity that a run's record keeps, and that a resumed run must agree with.

    Arguments are those of :func:`daskevo_workflows.nas.search`.
    """
    problem = reference.load()
    return {
        "problem": reference.to_json(),
        "space": space_of(problem).to_json(),
        "objective": str(objective),
        "seed": seed,
        "strategy": {"name": strategy.name, "settings": strategy.settings},
        "policy": {
            "transfer": transfer,
            "freeze": freeze
            if isinstance(freeze, (str, int, float))
            else getattr(freeze, "__qualname__", repr(freeze)),
            "control_share": control_share,
            "epochs": epochs or problem.epochs,
            "batch_size": problem.batch_size,
        },
    }
