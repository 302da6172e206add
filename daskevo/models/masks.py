"""Masks that tensors carry along by themselves, and calls that name them although they needn't.

Keras attaches a mask to a tensor (after Embedding with ``mask_zero``, Masking) and passes it to later layers. It
records that mask as an argument in some calls and not in others, and always in a model loaded from a file. The mask
follows from what flows in anyway, so it is left out of the graph; only a mask of the user's own making is an edge.
"""

from __future__ import annotations

from typing import Any

import keras

from daskevo.models.keras_private import implicit_mask, origin


def implicit_masks(arguments: dict[str, Any]) -> list[str]:
    """Return the mask arguments that hold what Keras passes by itself.

    Keras fills in `mask` where one argument holds tensors, and `<argument>_mask` where several do.

    Parameters
    ----------
    arguments:
        Arguments of a call by name.
    """
    found = []
    with_tensors = [name for name, value in arguments.items() if not name.endswith("mask") and _holds_tensor(value)]
    for name, mask in arguments.items():
        if name == "mask" and len(with_tensors) == 1:
            owner = with_tensors[0]
        elif name.endswith("_mask") and len(with_tensors) > 1 and name.removesuffix("_mask") in arguments:
            owner = name.removesuffix("_mask")
        else:
            continue
        carried = keras.tree.flatten(keras.tree.map_structure(implicit_mask, arguments[owner]))
        passed = keras.tree.flatten(mask)
        if mask is None or (len(carried) == len(passed) and all(map(_same_value, carried, passed))):
            found.append(name)
    return found


def _holds_tensor(value: Any) -> bool:
    return any(isinstance(leaf, keras.KerasTensor) for leaf in keras.tree.flatten(value))


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
