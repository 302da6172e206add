"""A Keras model beside its architecture graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
from keras.backend import standardize_dtype

from daskevo.errors import InvalidInput
from daskevo.graph import ArchitectureGraph
from daskevo.types import TensorSpec


@dataclass(frozen=True, slots=True)
class FlatModel:
    """What :func:`~daskevo.models.flatten` returns.

    Parameters
    ----------
    graph:
        The architecture graph.
    layers:
        ``layers[i]`` is the Keras layer (or operation) of ``graph.layers[i]``.
    """

    graph: ArchitectureGraph
    layers: tuple[Any, ...]

    def variables(self) -> list[Any]:
        """Return the Keras variable of each tensor, by tensor number.

        Raises
        ------
        InvalidInput
            If layers have got other weights since the model was flattened (quantised, LoRA, another vocabulary).
        """
        found = []
        for layer, record in zip(self.layers, self.graph.layers, strict=True):
            variables = weights_of(layer)
            # Each time: quantising, LoRA and adapting exchange a layer's variables, and numbers would mean others.
            if tuple(map(spec_of, variables)) != record.tensors:
                raise InvalidInput(
                    f"layer {record.name!r} had {len(record.tensors)} weights when the model was flattened and has "
                    f"{len(variables)}, or others, now: flatten the model again after changing it",
                    layer=record.name,
                )
            found += variables
        return found


def weights_of(operation: Any) -> list[Any]:
    """Return the variables of a leaf, in the order that numbers its tensors.

    ``layer.weights``, not what ``save_own_variables`` writes: Dense, Embedding and convolutions override that one.
    Seeds are variables too, but no weights.
    """
    return list(operation.weights) if isinstance(operation, keras.layers.Layer) else []


def spec_of(variable: Any) -> TensorSpec:
    """Return shape and dtype of a Keras variable."""
    dtype = variable.dtype  # that of a Keras variable is a standard name already
    return TensorSpec(tuple(map(int, variable.shape)), dtype if type(dtype) is str else standardize_dtype(dtype))
