"""What makes a run this one and no other: the same from Python and from the command line."""

from __future__ import annotations

from collections.abc import Sequence

from daskevo.search import Strategy
from daskevo.types import JSON, Objective
from daskevo_workflows.problems import ProblemReference
from daskevo_workflows.problems.building import space_of
from daskevo_workflows.problems.source_parts import source_parts
from daskevo_workflows.size_limits import SizeLimits
from daskevo_workflows.transfer import Transfer


def identity_of(
    reference: ProblemReference,
    objectives: Objective | Sequence[Objective],
    strategy: Strategy,
    *,
    seed: int,
    transfer: Transfer,
    control_share: float,
    epochs: int | None,
    limits: SizeLimits | None = None,
) -> dict[str, JSON]:
    """Return the identity that a run's record keeps, and that a resumed run must agree with.

    Arguments are those of :func:`daskevo_workflows.nas.search`.
    """
    problem = reference.load()
    if not isinstance(objectives, Objective) and len(objectives) == 1:
        objectives = objectives[0]
    return {
        # Its parts are kept for people, who are told which of them changed: the content decides.
        "problem": {**reference.to_json(), "parts": source_parts(reference)},
        "space": space_of(problem).to_json(),
        # One as it has always been written, several as a list.
        "objective": str(objectives) if isinstance(objectives, Objective) else [*map(str, objectives)],
        "seed": seed,
        "strategy": {"name": strategy.name, "settings": strategy.settings},
        "policy": {
            **transfer.to_record(),
            "control_share": control_share,
            "epochs": epochs or problem.epochs,
            "batch_size": problem.batch_size,
            **({"limits": {name: list(bounds) for name, bounds in limits.items()}} if limits else {}),
        },
    }
