"""Masks that tensors carry along by themselves, and calls that name them although they needn't.

Keras attaches a mask to a tensor (after Embedding with ``mask_zero``, Masking) and passes it to later layers. It
records that mask as an argument in some calls and not in others, and always in a model loaded from a file. Where Keras
passes the very mask at the next call too, the mask follows from what flows in anyway and is left out of the graph; any
other mask is an edge, whether it was given by name or by position.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any

import keras

from daskevo.models.keras_private import implicit_mask, origin


def implicit_masks(
    operation: Any, arguments: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter]
) -> frozenset[str]:
    """Return the mask arguments that Keras passes by itself, with the same values, if they are left out.

    Keras fills in `mask` where one argument holds tensors, and ``<argument>_mask`` where several do: the masks that are
    passed count too. Operations that aren't layers get none.

    Parameters
    ----------
    operation:
        What is called.
    arguments:
        Arguments of the call by name.
    parameters:
        All parameters of ``operation.call`` by name.
    """
    if not isinstance(operation, keras.layers.Layer):
        return frozenset()
    optional = {name for name, parameter in parameters.items() if parameter.default is None}
    found = frozenset(
        name
        for name, value in arguments.items()
        if name in optional
        and name.endswith("mask")
        and (value is None or _same_mask(value, _carried(name, arguments)))
    )
    # Whether Keras fills in a mask depends on which arguments are tensors, masks among them: leaving one out may change
    # what it does for another, so what can be left out shrinks until it agrees with itself.
    while found:
        rest = {name: value for name, value in arguments.items() if name not in found}
        filled = _filled_in(rest, parameters)
        again = frozenset(name for name in found if arguments[name] is None or name in filled)
        if again == found:
            # Leaving masks out mayn't change which others Keras fills in.
            others = _filled_in(arguments, parameters) | {name for name in found if arguments[name] is not None}
            return found if others == filled else frozenset()
        found = again
    return found


def _filled_in(arguments: Mapping[str, Any], parameters: Collection[str]) -> set[str]:
    """Return the mask arguments that Keras fills in at a call, as ``keras.Layer.__call__`` does it."""
    tensors = [name for name, value in arguments.items() if _is_tensors(value)]
    names = ["mask"] if len(tensors) == 1 else [f"{name}_mask" for name in tensors] if len(tensors) > 1 else []
    return {name for name in names if name in parameters and arguments.get(name) is None}


def _is_tensors(value: Any) -> bool:
    leaves = keras.tree.flatten(value)
    return any(isinstance(leaf, keras.KerasTensor) for leaf in leaves) and all(
        leaf is None or isinstance(leaf, keras.KerasTensor) for leaf in leaves
    )


def _carried(name: str, arguments: Mapping[str, Any]) -> Any:
    """Return the mask that what a mask belongs to carries, nested alike; None if it belongs to nothing."""
    if name == "mask":
        owners = [other for other, value in arguments.items() if not other.endswith("mask") and _is_tensors(value)]
    else:
        owners = [name.removesuffix("_mask")]
    if len(owners) != 1 or owners[0] not in arguments:
        return None
    return keras.tree.map_structure(implicit_mask, arguments[owners[0]])


def _same_mask(passed: Any, carried: Any) -> bool:
    one, other = keras.tree.flatten(passed), keras.tree.flatten(carried)
    return len(one) == len(other) and all(map(_same_value, one, other))


def _same_value(one: Any, other: Any) -> bool:
    """Whether two tensors are one, or are computed by equal operations (not layers) from the same tensors."""
    pending = [(one, other)]
    while pending:
        one, other = pending.pop()
        if one is other:
            continue
        if not (isinstance(one, keras.KerasTensor) and isinstance(other, keras.KerasTensor)):
            if type(one) is not type(other) or not isinstance(one, (bool, int, float, str)) or one != other:
                return False
            continue
        mine, theirs = origin(one), origin(other)
        if mine is None or theirs is None or mine[2] != theirs[2] or not _same_operation(mine[0], theirs[0]):
            return False
        flat = [keras.tree.flatten([found[1].arguments.args, found[1].arguments.kwargs]) for found in (mine, theirs)]
        if len(flat[0]) != len(flat[1]):
            return False
        pending += zip(*flat, strict=True)
    return True


def _same_operation(one: Any, other: Any) -> bool:
    if one is other:
        # A layer's calls may differ in more than their tensors; two calls of an operation don't.
        return not isinstance(one, keras.layers.Layer)
    if type(one) is not type(other) or isinstance(one, keras.layers.Layer):
        return False
    return {**one.get_config(), "name": None} == {**other.get_config(), "name": None}
