"""Train a Keras model along a trajectory, step by step; save and score it after any step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from daskevo.errors import InvalidInput, InvalidProblem
from daskevo.models.keras_private import drawing_from
from daskevo.repository import Snapshot
from daskevo.tuning import Trajectory
from daskevo_workflows.evaluation.training import Stopwatch, numbers
from daskevo_workflows.fitting.validation import PREFIX
from daskevo_workflows.stage_training.augmentation import augmented
from daskevo_workflows.stage_training.compiled import compiled
from daskevo_workflows.stage_training.data import Rows, feed_of, order_of
from daskevo_workflows.stage_training.origin import Origin, check_header, check_same, check_until
from daskevo_workflows.stage_training.schedule import Schedule
from daskevo_workflows.stage_training.state import TrainingState
from daskevo_workflows.stage_training.steps import Steps


class KerasTraining:
    """Implements :class:`~daskevo_workflows.stage_training.protocol.Training` for a problem's Keras model.

    The order of the data is a function of seed and epoch; an epoch is cut into batches as the batch size says at each
    step, the last one as small as what is left.

    Parameters
    ----------
    problem, trajectory, data, seed:
        As :func:`~daskevo_workflows.stage_training.begin` takes them.
    snapshot:
        Where to go on; None: begin.
    other_versions:
        Go on from a snapshot of other versions.
    model, watching:
        As :func:`~daskevo_workflows.stage_training.compiled.compiled` takes them.
    after_batch:
        Called after each optimizer step; what it raises ends the training.
    """

    def __init__(
        self,
        problem: Any,
        trajectory: Trajectory,
        data: Any,
        seed: int,
        snapshot: Snapshot | None = None,
        other_versions: bool = False,
        *,
        model: Any = None,
        watching: Sequence[Any] = (),
        after_batch: Callable[[], None] = lambda: None,
    ) -> None:
        self._after_batch = after_batch
        self._stopwatch = Stopwatch()
        with self._stopwatch.phase("build"):
            self._problem, self._data, self._seed = problem, data, seed
            self._feed = feed_of(data)
            made = compiled(problem, trajectory.configuration, seed, model, watching)
            self._made = made
            self._model = made.model
            self._steps = Steps(made.model, made.settings, made.generator)
            # Keras makes the variables of metrics at their first use; a snapshot to go on from may hold them already.
            self._steps.build_metrics(self._feed.first())
            self._state = TrainingState(made.flat, made.model, made.generator)
            self._take(trajectory)
            self._origin = Origin.of(trajectory, seed, self._feed.digest, made.described)
        self.step = 0
        self._epoch = 0
        self._offset = 0  # rows, or batches of a dataset, that were trained in this epoch
        self._batch = 0  # batches that were trained in this epoch
        self.optimizer_steps = 0
        self._order: tuple[int, Any, Any] = (-1, None, None)
        if snapshot is not None:
            with self._stopwatch.phase("load"):
                self._load(trajectory, snapshot, other_versions)

    @property
    def seconds(self) -> Mapping[str, float]:
        return self._stopwatch.seconds

    def follow(self, trajectory: Trajectory) -> None:
        check_until(self.step, self._trajectory, trajectory)
        self._take(trajectory)

    def go_to(self, trajectory: Trajectory, snapshot: Snapshot) -> None:
        check_header(self._trajectory, trajectory)
        with self._stopwatch.phase("load"):
            self._load(trajectory, snapshot, False)

    def advance(self, until: int, passed: Callable[[int], bool]) -> int:
        # All values before the first step: an error leaves the training where it is.
        self._schedule.check(self.step, until)
        by_epoch = self._trajectory.configuration.unit == "epoch"
        seconds = self._stopwatch.seconds
        while self.step < until:
            # Tracing counts as the first step wherever it happens, so that `training` is the cost of steps alone.
            begun, traced = time.perf_counter(), self._steps.tracing_s
            if by_epoch:
                epoch = self._epoch
                while self._epoch == epoch:
                    self._update()
            else:
                self._update()
            self.step += 1
            traced = self._steps.tracing_s - traced
            seconds["first_step"] = seconds.get("first_step", 0.0) + traced
            seconds["training"] = seconds.get("training", 0.0) + time.perf_counter() - begun - traced
            if not passed(self.step):
                break
        return self.step

    def snapshot(self) -> Snapshot:
        weights, others = self._state.read()
        others.update({f"callback/{name}": array for name, array in self._made.callbacks.save().items()})
        extra = {
            **self._origin.to_json(self._trajectory.key(self.step)),
            "step": self.step,
            "epoch": self._epoch,
            "offset": self._offset,
            "batch": self._batch,
            "optimizer_steps": self.optimizer_steps,
        }
        return Snapshot(self._made.flat.graph, weights, others, extra)

    def finish(self) -> None:
        """Give the model the weights that `score` sees: averages, if the optimizer keeps some. No step may follow."""
        self._model.optimizer.finalize_variable_values(self._model.trainable_weights)

    def validate(self) -> dict[str, float]:
        """Return metrics of the validation data at this step, if problem or callbacks want them after each epoch."""
        if not self._made.callbacks.validates:
            return {}
        with self._stopwatch.phase("scoring"):
            return numbers(self._validated())

    def score(self) -> dict[str, float]:
        with self._stopwatch.phase("scoring"), self._state.untouched(), drawing_from(self._made.generator):
            # Read before scoring, which may call evaluate() and so reset them.
            metrics = numbers(self._model.get_metrics_result())
            # As fit does it at its end; it acts where the optimizer averages weights.
            self._model.optimizer.finalize_variable_values(self._model.trainable_weights)
            scored = self._problem.score(self._model, self._data)
            if not isinstance(scored, Mapping):
                raise InvalidProblem(
                    f"score() of problem {self._problem.name!r} returned {type(scored).__name__}, not metrics by name"
                )
        return {**metrics, **numbers(scored)}

    def _load(self, trajectory: Trajectory, snapshot: Snapshot, other_versions: bool) -> None:
        extra = check_same(snapshot, self._origin, trajectory, other_versions)
        graph = self._made.flat.graph
        # Ids leave out the names of layers, which Keras counts anew in each process.
        if snapshot.graph is None or snapshot.graph.ids != graph.ids:
            raise InvalidInput("the snapshot is of another model than the one that build() makes: begin anew")
        # First, as it may refuse the snapshot, and then nothing has changed.
        self._state.write(snapshot.weights, snapshot.attached)
        self._take(trajectory)
        self._made.callbacks.load(
            {
                name.removeprefix("callback/"): array
                for name, array in snapshot.attached.items()
                if name.startswith("callback/")
            }
        )
        self.step, self._epoch = extra["step"], extra["epoch"]
        self._offset, self._batch, self.optimizer_steps = extra["offset"], extra["batch"], extra["optimizer_steps"]

    def _take(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
        self._schedule = Schedule(trajectory.configuration, self._made.settings.names, self._feed, self._problem)

    def _update(self) -> None:
        """Do one optimizer step."""
        callbacks = self._made.callbacks
        if self._offset == 0:
            self._model.reset_metrics()
            callbacks.call("on_epoch_begin", self._epoch, {})
        callbacks.call("on_train_batch_begin", self._batch, {})
        values = self._schedule.tensor(self.step)
        feed = self._feed
        size = 1
        if isinstance(feed, Rows):
            size = min(self._schedule.batch_size(self.step), feed.count - self._offset)
            # The problem's batch() is Python code: its rows are taken outside of the graph.
            if self._made.others:
                self._steps.of_batch(self._changed(feed.rows(self._in_order()[0][self._offset :][:size])), values)
            else:
                import tensorflow as tf

                # A tensor: Python numbers would be constants, and each pair of them would need a graph of its own.
                place = tf.constant((self._offset, size), tf.int64)
                self._steps.of_rows(feed, self._in_order()[1], place, values)
        else:
            batch = feed.batch(self._seed, self._epoch, int(self._in_order()[0][self._offset]))
            self._steps.of_batch(self._changed(batch), values)
        # Results of metrics cost operations in each step, and without callbacks nobody reads them.
        if callbacks:
            callbacks.call("on_train_batch_end", self._batch, self._model.get_metrics_result())
        self._offset += size
        self._batch += 1
        self.optimizer_steps += 1
        if self._offset == feed.count:
            callbacks.call("on_epoch_end", self._epoch, self._epoch_metrics() if callbacks else {})
            self._epoch += 1
            self._offset = self._batch = 0
        self._after_batch()

    def _epoch_metrics(self) -> dict[str, Any]:
        """Return the metrics of this epoch, those of the validation data among them if a callback wants them."""
        metrics = dict(self._model.get_metrics_result())
        return {**metrics, **self._validated()} if self._made.callbacks.want_validation else metrics

    def _validated(self) -> dict[str, Any]:
        """Return loss and metrics of the validation data, named as Keras' `fit` names them."""
        x, y, weights = (*self._data.validation, None, None)[:3]
        batch_size = None if y is None else self._problem.batch_size  # a dataset has batches already
        with self._state.untouched(), drawing_from(self._made.generator):
            found = self._model.evaluate(
                x, y, sample_weight=weights, batch_size=batch_size, verbose=0, return_dict=True
            )
        return {f"{PREFIX}{name}": value for name, value in found.items()}

    def _in_order(self) -> tuple[Any, Any]:
        """Return the order of this epoch, as array and as tensor. # (n_rows,)"""
        if self._order[0] != self._epoch:
            import tensorflow as tf

            order = order_of(self._seed, self._epoch, self._feed.count)
            self._order = (self._epoch, order, tf.constant(order))
        return self._order[1:]

    def _changed(self, batch: Any) -> tuple[Any, ...]:
        """Return a batch as the problem's `batch` makes it, where there are sequences for it."""
        others = self._made.others
        if not others:
            return tuple(batch)
        values = {**self._trajectory.configuration.constants, **self._trajectory.configuration.at(self.step)}
        # Random numbers are those of the optimizer step, as an epoch has many.
        return augmented(self._problem, batch, values, others, self._seed, self.optimizer_steps)
