"""Check, before training, that a model can be stored so that it can be loaded again.

A record is trusted once a model was rebuilt from one of its kind: the same layer classes, called in the same way. What
is not Keras' own, and what a configuration names of it, is a kind by its whole signature.
"""

from __future__ import annotations

import json
import threading
from typing import Any

import keras
import numpy as np

from daskevo.errors import CannotRebuild
from daskevo.graph import ArchitectureGraph, LayerRecord, Vertex
from daskevo.models.config_cache import depends_on_nothing_else
from daskevo.models.flat import FlatModel
from daskevo.models.keras_private import has_value, is_registered, public_name, with_sublayers
from daskevo.models.rebuild import check_rebuild
from daskevo.models.rejections import cannot_flatten, describe
from daskevo.models.seeds import apart
from daskevo.types import JSON

_known: set[str] = set()
_lock = threading.Lock()


def check_storable(flat: FlatModel) -> None:
    """Check that what is stored of a model is complete, and that the model can be rebuilt from it.

    Parameters
    ----------
    flat:
        The flattened model; nothing of it is changed.

    Raises
    ------
    CannotFlatten
        ``hidden-state``: a layer saves more by Keras' hooks than its weights. ``rebuild``: the model rebuilt from its
        graph is another, or none.
    """
    for operation in flat.layers:
        for layer in with_sublayers(operation):
            _check_state(layer)
    kinds = set(_kinds(flat.graph))
    if kinds <= _known:
        return
    try:
        # A check must not change which seeds the layers get that are made after it.
        with apart():
            check_rebuild(flat.graph, _classes(flat))
    except CannotRebuild as error:
        if not error.facts.get("unknown"):  # else the user's custom_objects will tell, when it is loaded
            raise cannot_flatten("rebuild", f"rebuilt from its record it is not the same: {error.message}") from error
    else:
        with _lock:
            _known.update(kinds)


def _check_state(layer: Any) -> None:
    if not isinstance(layer, keras.layers.Layer):
        return
    if _overrides(layer, "save_assets"):
        raise cannot_flatten(
            "hidden-state", f"{describe(layer)} keeps files of its own (save_assets)", layer=layer.name
        )
    if not _overrides(layer, "save_own_variables") or not all(map(has_value, layer.weights)):
        return
    store: dict[str, Any] = {}
    layer.save_own_variables(store)
    weights = [np.asarray(weight) for weight in layer.weights]
    more = [name for name, value in store.items() if not any(_equal(np.asarray(value), weight) for weight in weights)]
    if more:
        raise cannot_flatten(
            "hidden-state",
            f"{describe(layer)} saves {', '.join(map(repr, more[:3]))} (save_own_variables), which is none of its "
            "weights",
            layer=layer.name,
        )


def _overrides(layer: Any, method: str) -> bool:
    """Whether a method of Keras' layers is overridden by a class outside Keras."""
    kind = next((kind for kind in type(layer).__mro__ if method in vars(kind)), keras.layers.Layer)
    return kind.__module__.partition(".")[0] != "keras"


def _equal(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    # By bytes, as nan doesn't equal nan.
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()


def _classes(flat: FlatModel) -> dict[str, Any]:
    """Return the unregistered classes of layers by name, which have to be passed to load the model."""
    kinds = {type(layer) for operation in flat.layers for layer in with_sublayers(operation)}
    return {kind.__name__: kind for kind in kinds if public_name(kind) is None and not is_registered(kind)}


def _kinds(graph: ArchitectureGraph) -> list[str]:
    return [*(_kind(graph.layers[vertex.layer], vertex) for vertex in graph.vertices), _shape_of(graph.structure)]


def _kind(record: LayerRecord, vertex: Vertex) -> str:
    config: Any = record.config
    is_keras = str(config.get("module")).partition(".")[0] == "keras" and depends_on_nothing_else(config)
    of_layer = [config.get("module"), config.get("class_name")] if is_keras else vertex.signature
    policy = config["config"].get("dtype")
    return json.dumps([of_layer, policy, vertex.call, [edge.argument for edge in vertex.edges]], sort_keys=True)


def _shape_of(structure: JSON) -> str:
    """Return how inputs and outputs are nested."""

    def shape(part: JSON) -> JSON:
        if isinstance(part, list):
            return list(map(shape, part))
        if not isinstance(part, dict):
            return part
        return "edge" if part.get("$") == "edge" else {key: shape(value) for key, value in part.items()}

    found: Any = structure
    return json.dumps([shape(found["inputs"]), shape(found["outputs"])], sort_keys=True)
