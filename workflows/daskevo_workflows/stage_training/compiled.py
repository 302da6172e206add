"""From a problem and a configuration to a compiled Keras model that can be trained in stages."""

from __future__ import annotations

import copy
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from daskevo.errors import InvalidInput, InvalidProblem
from daskevo.models import FlatModel, check_storable, flatten, seeded, settings_given_back
from daskevo.models.keras_private import fresh_names
from daskevo.tuning import Configuration
from daskevo.tuning.architectures import ARCHITECTURE
from daskevo.types import JSON
from daskevo_workflows.problems.building import maker_of
from daskevo_workflows.problems.protocol import compile_model, optional_callbacks
from daskevo_workflows.stage_training.callbacks import Callbacks
from daskevo_workflows.stage_training.hyperparameters import SETTABLE, AskedValue, OptimizerSettings

logger = logging.getLogger(__name__)

RULES_BATCHES = "batch_size"


@dataclass(frozen=True)
class Compiled:
    """A model that is ready to be trained.

    Parameters
    ----------
    settings:
        The sequences that are the optimizer's.
    others:
        Names of the sequences that the problem's `batch` has to take.
    described:
        What optimizer and loss are, as JSON: classes and settings, without those that are sequences.
    generator:
        What random operations without a seed generator of their own draw from.
    """

    model: Any
    flat: FlatModel
    settings: OptimizerSettings
    others: tuple[str, ...]
    described: JSON
    generator: Any
    callbacks: Callbacks

    def warn_of_what_is_not_checked(self) -> None:
        """Warn if no step is traced: only a traced one shows what it draws and changes."""
        if self.model.run_eagerly:
            logger.warning(
                "model %r runs eagerly, so nothing checks that its training can be cut exactly: have it draw by "
                "keras.random with a keras.random.SeedGenerator that is an attribute of the layer, and change nothing "
                "but weights, or leave run_eagerly out of compile()",
                self.model.name,
            )


def compiled(
    problem: Any, configuration: Configuration, seed: int, model: Any = None, watching: Sequence[Any] = ()
) -> Compiled:
    """Build and compile a problem's model; the same, bit for bit, for the same seed.

    Parameters
    ----------
    model:
        The model, if a search has built it already: with inherited weights and frozen layers, for one. Its choices are
        no hyper-parameters, so `compile` gets none, as in a search that trains in one piece. None: the problem's.
    watching:
        Keras callbacks besides the problem's own.

    Raises
    ------
    InvalidInput
        If the model, its optimizer or its callbacks can't be trained in stages, or nobody takes a hyper-parameter.
    InvalidProblem
        If `build` or `compile` don't do what they are for.
    CannotFlatten
        If the model has no architecture graph, or could not be stored and loaded.
    """
    _check_parts(problem, ("compile",) if ARCHITECTURE in configuration.constants else ("build", "compile"))
    known = dict(configuration.constants)
    # A copy: build() gets these, and the configuration is shared by all who train it.
    chosen = copy.deepcopy(known.pop(ARCHITECTURE, {}))
    constants = AskedValue({**known, **chosen})
    everything = AskedValue({**known, **chosen, **configuration.at(0)})
    is_ours = model is None
    if is_ours and ARCHITECTURE in configuration.constants:
        make = maker_of(problem, chosen, constants)
    else:

        def make() -> Any:
            return problem.build(constants) if is_ours else model

    # The same names of layers in every process: they are part of the traced step.
    with seeded(seed), fresh_names(), settings_given_back():
        model = make()
        if not isinstance(model, keras.Model):
            raise InvalidProblem(f"build() of problem {problem.name!r} returned {type(model).__name__}, no keras.Model")
        compile_model(problem, model, everything if is_ours else None)
        _check_model(model)
        generator = keras.random.SeedGenerator(seed >> 1)  # its states have 31 bits
        settings, others = _placed(problem, configuration, model, constants.names | everything.names | {ARCHITECTURE})
        described = _described(model, settings)
        # Slots are made at the first step otherwise, and the state of a snapshot would have no variables to go to.
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        callbacks = Callbacks([*optional_callbacks(problem), *watching], model, problem)
    flat = flatten(model)
    # Refused now rather than at the first snapshot, after hours of training.
    check_storable(flat)
    return Compiled(model, flat, settings, others, described, generator, callbacks)


def _check_parts(problem: Any, parts: Collection[str]) -> None:
    for part in parts:
        if not callable(getattr(problem, part, None)):
            raise InvalidProblem(
                f"the problem {getattr(problem, 'name', problem)!r:.80} has no {part}(): a Keras problem has build() "
                "and compile(), any other has training_loop(constants, data, seed)"
            )
    if getattr(problem, "fit", None) is not None:
        raise InvalidInput(
            f"the problem {problem.name!r} has a fit() of its own, which can't be cut into stages: leave it out, or "
            "write a training_loop (see daskevo_workflows.stage_training.TrainingLoop)"
        )


def _check_model(model: Any) -> None:
    """Refuse what this can't train exactly, each with what to do instead."""
    import tensorflow as tf

    reason = None
    if not isinstance(getattr(model, "optimizer", None), keras.optimizers.Optimizer):
        reason = "it has no optimizer of Keras': let compile() give it one"
    elif not model.trainable_variables:
        reason = "nothing in it is trainable"
    elif model.distribute_strategy is not tf.distribute.get_strategy() or tf.distribute.has_strategy():
        reason = "its training is distributed: build and compile it outside of any tf.distribute scope"
    elif any(tensor.shape[:1] != (None,) for tensor in model.inputs or ()):
        reason = "its inputs have a fixed batch size: leave batch_size (or batch_shape) out of Input"
    if reason is not None:
        raise InvalidInput(f"the model {model.name!r} can't be trained in stages, because {reason}")


def _placed(
    problem: Any, configuration: Configuration, model: Any, asked: set[str]
) -> tuple[OptimizerSettings, tuple[str, ...]]:
    """Give every hyper-parameter its place: batches, the optimizer, or the problem's `batch`."""
    inner = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    for name, value in configuration.constants.items():
        if name in asked or name == RULES_BATCHES:
            continue
        if name in SETTABLE and hasattr(inner, name):
            setattr(inner, name, value)
        else:
            raise InvalidInput(
                f"nobody takes the hyper-parameter {name!r}: neither build(choices) nor "
                f"compile(model, hyperparameters) asks for it, and the optimizer "
                f"{type(inner).__name__} has no such setting",
                name=name,
            )
    settings = OptimizerSettings(model.optimizer, list(configuration.sequences))
    others = tuple(name for name in configuration.sequences if name not in (*settings.names, RULES_BATCHES))
    if others and not callable(getattr(problem, "batch", None)):
        raise InvalidInput(
            f"nobody takes the hyper-parameter {others[0]!r} at every step: it isn't {RULES_BATCHES}, the optimizer "
            f"{type(inner).__name__} has no such setting, and the problem has no batch(x, y, values, generator)",
            name=others[0],
        )
    return settings, others


def _described(model: Any, settings: OptimizerSettings) -> JSON:
    """Return optimizer and loss as JSON, without names, which say nothing, and what isn't JSON."""
    return {
        "optimizer": type(model.optimizer).__name__,
        "settings": _plain(settings.config, {"name", *settings.names}),
        "loss": _plain(keras.saving.serialize_keras_object(model.loss), {"name"}),
    }


def _plain(value: Any, without: Collection[str]) -> JSON:
    match value:
        case Mapping():
            return {str(name): _plain(part, without) for name, part in value.items() if name not in without}
        case list() | tuple():
            return [_plain(part, without) for part in value]
        case bool() | int() | float() | str() | None:
            return value
    # Not repr(): it may hold an address, and this text is compared with that of other processes.
    return type(value).__name__
