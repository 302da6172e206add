"""`fast_fit`: Keras' own `fit` around a training step that is traced once and updates all variables as one vector.

Of a `fit` that takes seconds on a small model, most goes into graphs: Keras traces the training step twice, as metrics
make their variables in the first trace, and an optimizer adds some thirty operations for each variable. Here metrics
and optimizer are built before, and the optimizer's operations are traced once for all variables
(:mod:`daskevo_workflows.fitting.fused`). Everything else (callbacks, history, validation, class and sample weights,
shuffling) is `keras.Model.fit` itself, so it can't differ.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from daskevo_workflows.fitting.fused import ELEMENTWISE, fused_updates
from daskevo_workflows.fitting.metrics import build_metrics

logger = logging.getLogger(__name__)

BUILT_AHEAD = (*ELEMENTWISE, "Adafactor", "Lamb", "LossScaleOptimizer", "Muon", "Nadam", "Optimizer")
"""Optimizers of Keras whose slots begin with constants, so that it makes no difference whether they are built before
the step is traced or in its trace. Those of ScheduleFreeAdamW begin with the weights, which a trace leaves out."""


def fast_fit(model: Any, *data: Any, **options: Any) -> Any:
    """Do what ``model.fit(*data, **options)`` does, and start sooner if Keras runs on TensorFlow.

    What it saves are operations of TensorFlow's graphs: on other backends it is `model.fit` itself.
    Weights, history and optimizer state are those of plain `fit` to rounding: bit for bit with Adam, AdamW, SGD,
    Adamax, Ftrl and Lion wherever that was compared; with RMSprop, Adagrad and Adadelta single elements differ by one
    unit in the last place per step, as TensorFlow's graph optimizer rewrites a formula here and not there. A model that
    this doesn't cover (see :func:`obstacle`) is fitted as ever, and the log says why, at level INFO.

    Parameters
    ----------
    model:
        A compiled keras.Model.
    data, options:
        As `keras.Model.fit` takes them.

    Returns
    -------
    keras.callbacks.History

    Examples
    --------
    ::

        model.compile("adam", "mse")
        history = fast_fit(model, x, y, epochs=3, validation_data=(x_val, y_val), callbacks=[EarlyStopping()])
    """
    reason = obstacle(model)
    if reason is not None:
        logger.info("plain fit of %s: %s", getattr(model, "name", type(model).__name__), reason)
    elif model.train_function is None:
        if not model.optimizer.built:
            # Built while the step is traced, it would make TensorFlow trace the step again.
            model.optimizer.build(model.trainable_variables)
        model.train_function = _train_function(model)
    return model.fit(*data, **options)


def obstacle(model: Any) -> str | None:
    """Say why a model can only be fitted the plain way; None if nothing stands against the fast one."""
    import keras

    from daskevo.models.keras_private import with_sublayers

    if keras.config.backend() != "tensorflow":
        return f"Keras runs on {keras.config.backend()}; only TensorFlow's training steps are traced here"
    import tensorflow as tf

    cls = type(model)
    optimizer = getattr(model, "optimizer", None)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        return "it has no optimizer of Keras'"
    for method in ("fit", "train_step", "make_train_function"):
        if method in vars(model) or getattr(cls, method) is not getattr(keras.Model, method):
            return f"it has its own {method}()"
    known = {getattr(keras.optimizers, name).build for name in BUILT_AHEAD}
    for part in (optimizer, getattr(optimizer, "inner_optimizer", optimizer)):
        if type(part).build not in known:
            return f"its optimizer {type(part).__name__} has its own build()"
    if not all(layer.built for layer in with_sublayers(model)):
        return "it is not built: its variables come with its first batch"
    if not model.trainable_variables:
        return "nothing in it is trainable"
    if model.run_eagerly or tf.config.functions_run_eagerly():
        return "it runs eagerly"
    if model.jit_compile:
        return "its steps are compiled by XLA: compile(jit_compile=False) changes that"
    if model.steps_per_execution != 1:
        return f"it does {model.steps_per_execution} steps per execution"
    if model.distribute_strategy is not tf.distribute.get_strategy() or tf.distribute.has_strategy():
        return "its training is distributed"
    return None


def _train_function(model: Any) -> Callable[[Any], Any]:
    """Return what `fit` calls for each batch: takes an iterator, returns the logs.

    It is a `train_function` as Keras makes it, with one tf.function where Keras nests two.
    """
    import keras
    import tensorflow as tf

    def step(data: Any) -> Any:
        present = keras.tree.map_structure(
            lambda part: None if isinstance(part, tf.experimental.Optional) else part, data
        )
        with fused_updates(model.optimizer):
            return model.train_step(present)

    def step_of_iterator(iterator: Any) -> Any:
        return step(iterator.get_next())

    traced = {
        function: tf.function(function, autograph=False, reduce_retracing=True) for function in (step, step_of_iterator)
    }
    prepared = False

    def train_function(iterator: Any) -> Any:
        nonlocal prepared
        if isinstance(iterator, tf.data.Iterator):
            if not prepared:
                prepared = True
                build_metrics(model, iterator.element_spec)
            return traced[step_of_iterator](iterator)
        # What `train_on_batch` passes: a generator of one batch.
        return traced[step](next(iter(iterator)))

    return train_function
