"""What makes a run this one and no other: the same from Python and from the command line."""

from __future__ import annotations

from daskevo.search import Strategy
from daskevo.types import JSON, Objective
from daskevo_workflows.problems import ProblemReference
from daskevo_workflows.problems.building import space_of
from daskevo_workflows.transfer import Transfer


def identity_of(
    reference: ProblemReference,
    objective: Objective,
    strategy: Strategy,
    *,
    seed: int,
    transfer: Transfer,
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
            "transfer": transfer.is_any,
            "freeze": "prefix",
            **{name: value for name, value in transfer.changed().items() if transfer.is_any or name != "source"},
            "control_share": control_share,
            "epochs": epochs or problem.epochs,
            "batch_size": problem.batch_size,
        },
    }
