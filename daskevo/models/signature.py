"""The signature of a vertex: canonical text of what a leaf layer computes, independent of its name and origin.

Source: paper 000, section 2 ("identical leaf layers"). Left out is what says how a layer starts and trains but not
what it computes: names and ``trainable``, and of Keras' own layers seeds, initializers, regularizers, constraints, and
arguments that a later version of Keras added and that are at their defaults. Classes and functions that aren't Keras'
own count by their code. Tensors and the position of an input are compared by the graph itself.

Two layers whose ``get_config`` leaves out an argument that matters can't be told apart here: that is a fault of the
layer, which Keras' own saving would stumble over too.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import keras

from daskevo.models.calls import Call
from daskevo.models.configs import policy_of, record_config
from daskevo.models.custom_code import code_of, is_keras_own
from daskevo.models.first_arguments import is_later_default
from daskevo.models.keras_private import Tensor, is_registered, lookup_of, public_name, public_symbol, with_sublayers
from daskevo.models.training_mode import counts
from daskevo.types import JSON

_LABELS = frozenset({"name", "trainable"})
_LEFT_OUT_ENDINGS = ("_initializer", "_regularizer", "_constraint")

# Long, and compared only as a whole.
_DIGESTED = frozenset({"vocabulary", "idf_weights"})

_COMMUTATIVE_LAYERS = (
    keras.layers.Add,
    keras.layers.Multiply,
    keras.layers.Average,
    keras.layers.Maximum,
    keras.layers.Minimum,
)
_COMMUTATIVE_OPERATIONS = frozenset({"Add", "Multiply", "Maximum", "Minimum"})


def class_name(operation: Any) -> str:
    """Return the name of an operation's class: as registered, as Keras exports it, or module and qualified name."""
    kind = type(operation)
    if is_registered(kind):
        return f"registered {keras.saving.get_registered_name(kind)}"
    return public_name(kind) or f"{kind.__module__}:{kind.__qualname__}"


def is_commutative(operation: Any, call: Call) -> bool:
    """Whether the order of the tensors that flow into a call doesn't matter: it merges them, and nothing else.

    With a mask for each of the tensors, they belong to each other by position, and so the order does matter.
    """
    kind = type(operation)
    if len(call.tensors) < 2 or call.constants:
        return False
    if kind in _COMMUTATIVE_LAYERS:
        return all(path.startswith("inputs/") for path, _ in call.tensors)
    # By the module too: a user's operation of such a name may do anything.
    return kind.__module__ == "keras.src.ops.numpy" and kind.__name__ in _COMMUTATIVE_OPERATIONS


def layer_signature(operation: Any, config: dict[str, JSON], known_code: dict[int, str] | None = None) -> JSON:
    """Return the part of the signature that all calls of a layer share.

    Parameters
    ----------
    operation:
        The leaf layer or operation.
    config:
        Its `record_config`.
    known_code:
        As `code_of` takes it.
    """
    own, kind = config["config"], type(operation)
    if isinstance(operation, keras.layers.InputLayer):
        kinds = [key for key in ("optional", "ragged", "sparse") if own.get(key)]
        return {"class": class_name(operation), "dtype": own["dtype"], "kinds": kinds}
    kept = _layer_config(own, kind if is_keras_own(kind) else None)
    code = code_of(operation, kept, known_code)
    found: dict[str, JSON] = {"class": class_name(operation), "config": kept}
    if isinstance(operation, keras.layers.Layer):
        # Instead of the dtype policy's configuration, which may be a map by paths that contain names.
        kept.pop("dtype", None)
        sublayers = with_sublayers(operation)
        found["dtypes"] = [_policy(layer) for layer in sublayers]
        vocabularies = [_vocabulary(layer) for layer in sublayers[1:] if any(True for _ in lookup_of(layer))]
        if vocabularies:
            found["vocabularies"] = vocabularies
    if code:
        found["code"] = code
    return found


def signature(of_layer: JSON, constants: JSON, outputs: list[Tensor]) -> str:
    """Return the signature of one call.

    Parameters
    ----------
    of_layer:
        The layer's `layer_signature`.
    constants:
        What is passed besides tensors.
    outputs:
        Shapes (batch first) and dtypes of what the call returns.
    """
    # Without the batch: its size makes no other layer.
    shapes = [[list(tensor.shape[1:]), tensor.dtype, *_kinds(tensor)] for tensor in outputs]
    return json.dumps(
        {"layer": of_layer, "call": constants, "outputs": shapes},
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
    )


def _kinds(tensor: Tensor) -> list[str]:
    return [kind for kind in ("sparse", "ragged") if getattr(tensor, kind, False)]


def _policy(layer: Any) -> JSON:
    # The name is the policy here ("mixed_float16", "int8_from_float32"), never a label.
    return [policy_of(layer).name, layer.quantization_mode]


def _vocabulary(layer: Any) -> JSON:
    config = record_config(layer)["config"]
    return [_digest(config.get(key)) for key in sorted(_DIGESTED)]


def _layer_config(config: dict[str, JSON], kind: type | None) -> dict[str, JSON]:
    """Canonical form of the configuration of a layer, at any depth.

    `kind` is its class if that is Keras' own: other layers may mean anything by what they call a seed or initializer.
    """
    if isinstance(config.get("layers"), list) and "input_layers" in config:
        config = _positions_for_names(config)
    return {
        key: _digest(value) if key in _DIGESTED else _canonical(value)
        for key, value in config.items()
        if value is not None and key not in _LABELS and not (kind is not None and _is_left_out(kind, key, value))
    }


def _is_left_out(kind: type, argument: str, value: JSON) -> bool:
    # The size of a vocabulary is recorded by some layers when they are first called.
    return (
        argument in ("seed", "vocabulary_size")
        or argument.endswith(_LEFT_OUT_ENDINGS)
        or is_later_default(kind, argument, value)
    )


def _canonical(value: JSON) -> JSON:
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if not isinstance(value, dict):
        return value
    own = value.get("config")
    if "class_name" not in value or not isinstance(own, dict):
        return {key: _canonical(item) for key, item in value.items()}
    # Layers know that they can be trained; nothing else that has a configuration does. A policy's name is no label.
    layer_like = "trainable" in own or value["class_name"] == "InputLayer"
    rest = {key: _canonical(item) for key, item in value.items() if key != "config"}
    return {**rest, "config": _layer_config(own, _keras_class(value)) if layer_like else _canonical(own)}


def _keras_class(value: dict[str, JSON]) -> type | None:
    """Return the class of a serialised layer if it is Keras' own."""
    module, name = value.get("module"), value["class_name"]
    registered = value.get("registered_name")
    if not isinstance(module, str) or module.partition(".")[0] != "keras":
        return None
    if isinstance(registered, str) and keras.saving.get_registered_object(registered) is not None:
        return None
    symbol = public_symbol(f"{module}.{name}")
    return symbol if isinstance(symbol, type) else keras.layers.Layer


def _class_of(value: dict[str, JSON]) -> type | None:
    """Return the class of a serialised layer if it is Keras' own or registered."""
    registered = value.get("registered_name")
    found = keras.saving.get_registered_object(registered) if isinstance(registered, str) else None
    return found if isinstance(found, type) else _keras_class(value)


def _positions_for_names(config: dict[str, JSON]) -> dict[str, JSON]:
    """Return the configuration of a functional model inside a wrapper, its layers named by their positions."""
    positions = {layer.get("name"): f"#{index}" for index, layer in enumerate(config["layers"])}

    def rename(value: JSON, called: type | None = None) -> JSON:
        match value:
            case [str() as name, int(), int()] if name in positions:
                return [positions[name], *value[1:]]
            case list():
                return [rename(item, called) for item in value]
            case dict():
                return {
                    key: rename(item, called)
                    for key, item in value.items()
                    if key != "training" or counts(called, item)
                }
        return value

    layers = [
        {
            **layer,
            "name": positions[layer.get("name")],
            "inbound_nodes": rename(layer.get("inbound_nodes"), _class_of(layer)),
        }
        for layer in config["layers"]
    ]
    ends: dict[str, JSON] = {key: rename(config[key]) for key in ("input_layers", "output_layers") if key in config}
    return {**config, "layers": layers, **ends}


def _digest(value: JSON) -> JSON:
    if value is None:
        return None
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()
