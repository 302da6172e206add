"""Protocols of a training that can be cut into stages, and of a problem's own training loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from daskevo.repository import Snapshot
from daskevo.tuning import Trajectory

Array = np.ndarray[Any, Any]


class Training(Protocol):
    """A training along a trajectory. Cut after any step and resumed, it ends with the same bits as in one piece."""

    @property
    def step(self) -> int:
        """Steps trained since the trajectory's beginning, in the unit of its configuration."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds by phase: build, load, first_step, training, scoring.

        The first step holds the making of graphs: once for a training, and once more for each further form of batch.
        """

    def follow(self, trajectory: Trajectory) -> None:
        """Go on along another trajectory, which is the same until here.

        Raises
        ------
        InvalidInput
            If it isn't: the training is what it was before.
        """

    def go_to(self, trajectory: Trajectory, snapshot: Snapshot) -> None:
        """Go to a snapshot of the same model, seed and data, and on from there: as resuming it does, without building.

        Raises
        ------
        InvalidInput
            If constants of the configuration, seed, data or the trajectory until there differ.
        """

    def advance(self, until: int, passed: Callable[[int], bool]) -> int:
        """Train until a step, and return the step reached.

        Parameters
        ----------
        passed:
            Called after each step with its number; False ends the training there. It may take a snapshot or a score.

        Raises
        ------
        InvalidInput
            If a value of a hyper-parameter until there can't be used: nothing was trained.
        """

    def snapshot(self) -> Snapshot:
        """Return the state as it is now, which later steps don't change."""

    def score(self) -> dict[str, float]:
        """Return the metrics of the model as it is now. The state stays what it was, whatever scoring draws or runs."""


@runtime_checkable
class TrainingLoop(Protocol):
    """A training loop of one's own, in place of a Keras model: what the problem's `training_loop` returns.

    ::

        def training_loop(constants, data, seed):
            return Descent(data, seed)

    All that training changes must be in what `save` returns; order of data and random numbers must follow from `seed`
    and that. :func:`~daskevo_workflows.stage_training.check_exact` tells whether it holds.
    """

    def setup(self, values: Mapping[str, float], changed: Collection[str]) -> None:
        """Take the values of the sequences at the step that comes next.

        Called before the first step, and then before each step at which some value differs from the step before.

        Parameters
        ----------
        values:
            Of all sequences, by name.
        changed:
            Names of those that are new; all, before the first step and after `load`.

        Raises
        ------
        InvalidInput
            Should be raised for a name that is not known, or a value that can't be.
        """

    def train(self, steps: int) -> None:
        """Train so many steps with these values; 1 wherever somebody may want the state in between."""

    def evaluate(self) -> Mapping[str, float]:
        """Return the metrics of the model as it is. Must change nothing."""

    def save(self) -> Mapping[str, Array]:
        """Return all state by name, as arrays that later steps don't change."""

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Take the state that `save` returned, perhaps in another process."""
