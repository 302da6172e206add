"""The variables of metrics and losses, made before the training step is traced: TensorFlow would trace it again."""

from __future__ import annotations

import contextlib
from typing import Any


def build_metrics(model: Any, batch: Any) -> None:
    """Make the variables of compiled metrics and losses, in a graph that is thrown away.

    Parameters
    ----------
    batch:
        Specs of the tensors in a batch.
    """
    import keras
    import tensorflow as tf

    from daskevo.models.keras_private import functional_of, runs_its_graph, structures

    functional = functional_of(model)
    if functional is None or not runs_its_graph(model):
        return  # what it returns is known once it is called: its step is traced twice, as Keras does it

    def placeholder(spec: Any) -> Any:
        if isinstance(spec, (tf.TensorSpec, keras.KerasTensor)):
            return tf.compat.v1.placeholder(spec.dtype, spec.shape)
        return None

    # What is wrong with data or losses is better said where Keras says it, in the trace of the step.
    with tf.__internal__.FuncGraph("metrics").as_default(), contextlib.suppress(Exception):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(keras.tree.map_structure(placeholder, batch))
        outputs = structures(functional)[1]
        if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
            outputs = outputs[0]  # as a call returns it: a loss built for a list would compare first samples alone
        predicted = keras.tree.map_structure(placeholder, outputs)
        model.compute_loss(x, y, predicted, sample_weight)
        model.compute_metrics(x, y, predicted, sample_weight)
