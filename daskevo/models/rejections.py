"""Why a Keras model can't be flattened: one word for each reason, with what to do instead."""

from __future__ import annotations

from typing import Any

from daskevo.errors import CannotFlatten

REASONS: dict[str, str] = {
    "no-graph": "build it with the functional API (keras.Model(inputs, outputs)) or as a Sequential model, and put "
    "what is special about it into custom layers",
    "overridden-call": "move the code of `call` into a custom layer, and use that layer in a functional model",
    "not-built": "give it an Input layer, or call model.build(input_shape) first",
    "nested-keyword-tensor": "pass the tensor as one of the nested model's inputs",
    "nested-input": "give the nested model's Input the shape of the tensor that it is called on, and no optional input",
    "free-variable": "put the variable into a custom layer with self.add_weight, and use that layer",
    "config": "let get_config of the layer return only values that Keras can serialise, and give it all arguments of "
    "__init__",
    "call-argument": "pass numbers, strings, arrays and tensors only, or make it an argument of the layer's __init__",
    "lambda": "write a custom layer, decorated with @keras.saving.register_keras_serializable(), whose `call` does "
    "what the function does: a Lambda can't be rebuilt from its record",
    "unregistered-function": "use a function of Keras by its name (activation='relu'), or decorate yours with "
    "@keras.saving.register_keras_serializable()",
    "shared-variable": "share weights by calling one layer several times",
    "hidden-state": "let the layer keep its state in weights (self.add_weight), or give it as an argument in "
    "get_config: only weights and configurations are stored",
    "rebuild": "let get_config of the layer return all arguments of __init__, and let its call do with the arguments "
    "that are recorded",
    "weights-outside-graph": "let every layer that has weights contribute to an output, and keep other variables out "
    "of the model",
}
"""reason -> what to do instead."""


def cannot_flatten(reason: str, found: str, **facts: Any) -> CannotFlatten:
    """Return the error for one of `REASONS`.

    Parameters
    ----------
    reason:
        A key of `REASONS`; the error's `reason`.
    found:
        What was found, with names of the layers concerned.
    **facts:
        Further attributes of the error.
    """
    return CannotFlatten(
        f"the model has no architecture graph: {found}. Instead, {REASONS[reason]}.", reason=reason, **facts
    )


def describe(operation: object) -> str:
    """Return how messages name a layer, model or operation."""
    return f"{type(operation).__name__} {getattr(operation, 'name', '')!r}"
