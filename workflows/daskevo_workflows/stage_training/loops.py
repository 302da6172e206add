"""A training loop of the user's own, driven as a Keras model is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from daskevo.errors import InvalidProblem
from daskevo.repository import Snapshot
from daskevo.tuning import Trajectory
from daskevo_workflows.evaluation.training import Stopwatch
from daskevo_workflows.stage_training.origin import Origin, check_header, check_same, check_until
from daskevo_workflows.stage_training.protocol import TrainingLoop

PREFIX = "loop/"


class LoopTraining:
    """Implements :class:`~daskevo_workflows.stage_training.protocol.Training` for a problem's `training_loop`.

    Parameters
    ----------
    problem, trajectory, data, seed:
        As :func:`~daskevo_workflows.stage_training.begin` takes them.
    snapshot:
        Where to go on; None: begin.
    other_versions:
        Go on from a snapshot of other versions.
    """

    def __init__(
        self,
        problem: Any,
        trajectory: Trajectory,
        data: Any,
        seed: int,
        snapshot: Snapshot | None = None,
        other_versions: bool = False,
    ) -> None:
        self._stopwatch = Stopwatch()
        self._trajectory = trajectory
        self.step = 0
        self._values: dict[str, float] = {}
        with self._stopwatch.phase("build"):
            loop = problem.training_loop(dict(trajectory.configuration.constants), data, seed)
        if not isinstance(loop, TrainingLoop):
            raise InvalidProblem(
                f"training_loop() of problem {getattr(problem, 'name', problem)!r:.80} returned {type(loop).__name__}, "
                "which has not all of setup, train, evaluate, save and load"
            )
        self._loop = loop
        self._origin = Origin.of(trajectory, seed, None, {"class": type(loop).__name__})
        if snapshot is not None:
            with self._stopwatch.phase("load"):
                self._load(trajectory, snapshot, other_versions)

    @property
    def seconds(self) -> Mapping[str, float]:
        return self._stopwatch.seconds

    def follow(self, trajectory: Trajectory) -> None:
        check_until(self.step, self._trajectory, trajectory)
        self._trajectory = trajectory

    def go_to(self, trajectory: Trajectory, snapshot: Snapshot) -> None:
        check_header(self._trajectory, trajectory)
        with self._stopwatch.phase("load"):
            self._load(trajectory, snapshot, False)

    def advance(self, until: int, passed: Callable[[int], bool]) -> int:
        self._trajectory.configuration.check(until, self.step)
        while self.step < until:
            with self._stopwatch.phase("training" if "first_step" in self.seconds else "first_step"):
                self._set_up(self.step)
                self._loop.train(1)
            self.step += 1
            if not passed(self.step):
                break
        return self.step

    def snapshot(self) -> Snapshot:
        # Copies: a loop may return the very arrays that it goes on training.
        arrays = {f"{PREFIX}{name}": np.array(array) for name, array in self._loop.save().items()}
        # A loop has no epochs or batches; `check_same` wants these numbers of every snapshot.
        position = {"step": self.step, "epoch": 0, "offset": 0, "batch": 0, "optimizer_steps": 0}
        return Snapshot(None, (), arrays, {**self._origin.to_json(self._trajectory.key(self.step)), **position})

    def score(self) -> dict[str, float]:
        with self._stopwatch.phase("scoring"):
            return {str(name): float(value) for name, value in self._loop.evaluate().items()}

    def _load(self, trajectory: Trajectory, snapshot: Snapshot, other_versions: bool) -> None:
        extra = check_same(snapshot, self._origin, trajectory, other_versions)
        named = {
            name.removeprefix(PREFIX): array for name, array in snapshot.attached.items() if name.startswith(PREFIX)
        }
        self._loop.load(named)
        self._trajectory, self.step = trajectory, extra["step"]
        self._values = {}  # what the loop was told before is of another step

    def _set_up(self, step: int) -> None:
        """Tell the loop the values of a step, if any differs from what it was told last."""
        values = self._trajectory.configuration.at(step)
        changed = frozenset(name for name, value in values.items() if self._values.get(name) != value)
        if changed:
            self._loop.setup(values, changed)
            self._values = values
