"""Sequences that are neither the optimizer's nor the batch size: they go to the problem's `batch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from daskevo.errors import InvalidInput, InvalidProblem
from daskevo_workflows.stage_training.hyperparameters import AskedValue


def augmented(
    problem: Any, batch: tuple[Any, ...], values: Mapping[str, Any], needed: Sequence[str], seed: int, update: int
) -> tuple[Any, ...]:
    """Return a batch as a problem's `batch` makes it.

    Parameters
    ----------
    batch:
        ``(x,)``, ``(x, y)`` or ``(x, y, sample_weight)``, as arrays.
    values:
        Hyper-parameters by name, at this step.
    needed:
        Those that `batch` has to ask for.
    seed, update:
        Seed of the training and optimizer steps done, which the random numbers follow from.

    Raises
    ------
    InvalidInput
        If `batch` doesn't ask for one of those.
    InvalidProblem
        If it returns no batch.
    """
    x, *rest = batch
    asked = AskedValue(values)
    # A generator for each optimizer step: what is drawn doesn't depend on where the training was cut before.
    generator = np.random.Generator(np.random.Philox(key=[seed, update]))
    made = problem.batch(x, rest[0] if rest else None, asked, generator)
    if not isinstance(made, (tuple, list)) or len(made) not in (2, 3):
        raise InvalidProblem(
            f"batch() of problem {problem.name!r} returned {type(made).__name__}, expected (x, y) or (x, y, "
            "sample_weight)"
        )
    # Only a call shows which hyper-parameters batch() asks for.
    ignored = [name for name in needed if name not in asked.names]
    if ignored:
        raise InvalidInput(
            f"nobody takes the hyper-parameter {ignored[0]!r}: the problem's batch() doesn't ask for it in `values`",
            name=ignored[0],
        )
    return tuple(made) if len(made) == 3 else (*made, *rest[1:])
