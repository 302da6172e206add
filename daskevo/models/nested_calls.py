"""Calls of nested models: which outer tensor flows into which inner input, and what Keras converts on the way."""

from __future__ import annotations

from typing import Any

import keras

from daskevo.models.calls import bind, parameters_of
from daskevo.models.keras_private import Tensor, origin, structures
from daskevo.models.masks import implicit_masks
from daskevo.models.rejections import cannot_flatten, describe


def inner_arguments(model: Any, functional: Any, node: Any) -> tuple[list[Tensor], Any]:
    """Return what a nested model is called with.

    Returns
    -------
    tensors:
        The outer tensor for each of the model's inputs, in the order of ``model.inputs``.
    training:
        The mode; None if the call was given none.

    Raises
    ------
    CannotFlatten
        ``nested-keyword-tensor`` or ``nested-input``.
    """
    arguments = bind(model, node.arguments.args, node.arguments.kwargs)
    # Inside, the layers get the masks of the outer tensors anyway.
    for name in implicit_masks(model, arguments, parameters_of(model)):
        del arguments[name]
    given = arguments.pop("inputs", None)
    for name, value in arguments.items():
        if any(isinstance(leaf, keras.KerasTensor) for leaf in keras.tree.flatten(value)):
            raise cannot_flatten(
                "nested-keyword-tensor",
                f"the nested {describe(model)} is called with a tensor as {name!r}",
                model=model.name,
                argument=name,
            )
        if value and name != "training":  # None, or no further keyword arguments
            raise cannot_flatten(
                "call-argument",
                f"the nested {describe(model)} is called with {name!r}, which is recorded in none of its layers",
                model=model.name,
                argument=name,
            )
    expected, _ = structures(functional)
    if isinstance(given, dict) and not isinstance(expected, dict):
        # As Keras does it: a dict for a model without named inputs goes by the names of its Input layers.
        names = [tensor.name for tensor in functional.inputs]
        flat = [given[name] for name in names] if set(names) <= set(given) else []
    else:
        flat = keras.tree.flatten(given)
    if len(flat) != len(functional.inputs) or not all(isinstance(tensor, keras.KerasTensor) for tensor in flat):
        raise cannot_flatten(
            "nested-input",
            f"the nested {describe(model)} has {len(functional.inputs)} inputs and isn't called on as many tensors",
            model=model.name,
        )
    return flat, arguments.get("training")


def adapt(outer: Tensor, inner: Tensor) -> tuple[Any, Any, Tensor] | None:
    """Return what Keras does to `outer` before it flows into a nested model's input, as an operation of its own.

    Keras converts to the inner input's dtype. A layer with that dtype does so between floats, and lets masks pass;
    a cast does the rest.

    Returns
    -------
    (operation, its recorded node, what it returns), or None if nothing is converted.

    Raises
    ------
    CannotFlatten
        ``nested-input``, if Keras would add or drop a dimension.
    """
    if len(outer.shape) != len(inner.shape):
        raise cannot_flatten(
            "nested-input",
            f"a nested model's input {inner.name!r} of shape {inner.shape} is fed with a tensor of shape {outer.shape}",
        )
    if outer.dtype == inner.dtype:
        return None
    tensor = keras.KerasTensor(outer.shape, dtype=outer.dtype)
    if keras.backend.is_float_dtype(outer.dtype) and keras.backend.is_float_dtype(inner.dtype):
        converted = keras.layers.Identity(dtype=inner.dtype)(tensor)
    else:
        converted = keras.ops.cast(tensor, inner.dtype)
    found = origin(converted)
    assert found is not None, "a call on a symbolic tensor is recorded"
    return found[0], found[1], converted
