"""Training steps, traced once for each form of batch, in graphs that don't depend on where a training is cut.

A graph that is made for a batch of 32 and made again for the last one of 20 would be another graph in a training that
begins with the 20, and might round otherwise. Here the number of samples is left open in every graph, so there is one,
and the form of a batch (its other dimensions) alone says which. Rows are gathered inside the graph.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import keras

from daskevo.errors import InvalidInput
from daskevo.models.keras_private import drawing_from, fresh_names, functional_of, structures
from daskevo_workflows.fitting import build_metrics, fused_updates
from daskevo_workflows.stage_training.data import Rows
from daskevo_workflows.stage_training.hidden_state import changed_elsewhere
from daskevo_workflows.stage_training.hyperparameters import OptimizerSettings

Logs = dict[str, Any]

_STATEFUL_DRAWS = frozenset(
    {"RandomStandardNormal", "RandomUniform", "RandomUniformInt", "TruncatedNormal", "ParameterizedTruncatedNormal"}
    | {"RandomShuffle", "RandomGamma", "RandomPoissonV2", "Multinomial", "RandomCrop", "RandomBinomial"}
)
"""Operations of TensorFlow that draw from a position nobody can read."""


class Steps:
    """Runs training steps of one model.

    Parameters
    ----------
    model:
        Compiled; its optimizer is built.
    settings:
        Of its optimizer.
    generator:
        What random operations without a seed generator of their own draw from.
    """

    def __init__(self, model: Any, settings: OptimizerSettings, generator: Any) -> None:
        self._model = model
        self._settings = settings
        self._generator = generator
        self._traced: dict[Any, Callable[..., Logs]] = {}
        self.tracing_s = 0.0
        """Seconds that first calls of graphs took, their making included."""

    def of_rows(self, rows: Rows, order: Any, place: Any, values: Any) -> Logs:
        """Train with the rows ``order[begin:begin + size]``.

        Parameters
        ----------
        order:
            Tensor of row numbers. # (n_rows,)
        place:
            Tensor of begin and size. # (2,)
        values:
            Tensor of the optimizer's settings. # (n_settings,)
        """
        # The traced function keeps `rows` alive, so that no other data get this id.
        key = id(rows)
        if key in self._traced:
            return self._traced[key](order, place, values)
        import tensorflow as tf

        def gathered(order: Any, place: Any) -> Any:
            # Where the data are: on another device, all of them would be copied there for each step.
            with tf.device("CPU:0"):
                which = tf.slice(order, place[:1], place[1:])
                return keras.tree.map_structure(
                    lambda part: None if part is None else tf.gather(part, which), rows.tensors
                )

        def step(order: Any, place: Any, values: Any) -> Logs:
            return self._step(gathered(order, place), values)

        specs = [tf.TensorSpec((None,), "int64"), tf.TensorSpec((2,), "int64"), _spec(values)]
        return self._first_call(key, step, specs, (order, place, values))

    def of_batch(self, batch: tuple[Any, ...], values: Any) -> Logs:
        """Train with a batch that comes as arrays."""
        import tensorflow as tf

        batch = keras.tree.map_structure(
            lambda part: None if part is None else tf.convert_to_tensor(part), (tuple(batch))
        )
        specs = self.specs(batch)
        key = str(keras.tree.map_structure(str, specs))
        if key in self._traced:
            return self._traced[key](batch, values)
        return self._first_call(key, self._step, [specs, _spec(values)], (batch, values))

    def specs(self, batch: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the form of a batch: without the number of samples, and dimensions that the model leaves open."""
        import tensorflow as tf

        def spec(part: Any, shape: Any = None) -> Any:
            if part is None:
                return None
            dimensions = tuple(part.shape) if shape is None or len(shape) != len(part.shape) else tuple(shape)
            return tf.TensorSpec((None, *dimensions[1:]), part.dtype)

        x, *rest = batch
        shapes = [tensor.shape for tensor in keras.tree.flatten(structures(functional_of(self._model))[0])]
        parts = keras.tree.flatten(x)
        if len(parts) == len(shapes):
            x = keras.tree.pack_sequence_as(x, [spec(part, shape) for part, shape in zip(parts, shapes, strict=True)])
        else:
            x = keras.tree.map_structure(spec, x)
        return (x, *(keras.tree.map_structure(spec, part) for part in rest))

    def build_metrics(self, batch: tuple[Any, ...]) -> None:
        """Make the variables of metrics and losses, for batches like this one."""
        build_metrics(self._model, self.specs(batch))

    def _step(self, batch: Any, values: Any) -> Logs:
        self._settings.use(values)
        with fused_updates(self._model.optimizer), drawing_from(self._generator):
            return dict(self._model.train_step(batch))

    def _first_call(self, key: Any, step: Callable[..., Logs], specs: Any, arguments: tuple[Any, ...]) -> Logs:
        import tensorflow as tf

        begun = time.perf_counter()
        if self._model.run_eagerly or tf.config.functions_run_eagerly():
            # Eagerly, nothing checks what is drawn and written: exactness rests with the model.
            self._traced[key] = step
        else:
            # The same names of layers, optimizers and losses in every process give the same graph.
            with fresh_names():
                # Without autograph, as Keras' own train function.
                traced = tf.function(step, autograph=False, input_signature=specs)
                concrete = traced.get_concrete_function()
            # Tracing runs no step: what is refused here has changed nothing.
            _check_draws(concrete.graph)
            self._check_changes(concrete)
            self._traced[key] = traced
        logs = self._traced[key](*arguments)
        self.tracing_s += time.perf_counter() - begun
        return logs

    def _check_changes(self, concrete: Any) -> None:
        """Refuse a step that changes variables which aren't saved."""
        model = self._model
        saved = [*model.variables, *model.metrics_variables, *model.optimizer.variables, self._generator.state]
        hidden = changed_elsewhere(concrete, [variable.value for variable in saved])
        if hidden:
            raise InvalidInput(
                f"training changes variables that Keras doesn't know, and that no snapshot holds: {', '.join(hidden)}. "
                "Make them weights of a layer (self.add_weight(..., trainable=False)) or a keras.Variable that is an "
                "attribute of one",
                variables=hidden,
            )


def _spec(tensor: Any) -> Any:
    import tensorflow as tf

    return tf.TensorSpec(tensor.shape, tensor.dtype)


def _check_draws(graph: Any) -> None:
    """Refuse a step that draws random numbers whose state can't be saved."""
    # Functions inside, such as the branches of a condition, are among the library's.
    nodes = graph.as_graph_def()
    found = {node.op for node in nodes.node} | {node.op for each in nodes.library.function for node in each.node_def}
    stateful = sorted(found & _STATEFUL_DRAWS)
    if stateful:
        raise InvalidInput(
            f"the model draws random numbers by TensorFlow's own operations ({', '.join(stateful)}), whose position "
            "can't be saved: use keras.random with a keras.random.SeedGenerator that is an attribute of the layer",
            operations=stateful,
        )
