"""Which configurations may be turned into layers: those that name parts of Keras, or what the caller knows.

A record may come from anywhere. Keras' loader keeps away pickled lambdas; it still lets a configuration import modules
by name, load files (TFSMLayer, a vocabulary's path) and unpickle (TorchModuleWrapper). Here a configuration is read
first, and only names on the lists below get through.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import keras

from daskevo.errors import CannotRebuild
from daskevo.models.configs import resolves
from daskevo.models.keras_private import public_symbol
from daskevo.types import JSON, json_objects

# Values that Keras' serialisation writes as objects and reads back as plain values.
_PLAIN = frozenset({"__numpy__", "__tensor__", "__bytes__", "__slice__", "__ellipsis__", "__keras_tensor__"})

# Layers that run stored code or load files.
_REFUSED = frozenset({"Lambda", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer"})

_KINDS: tuple[type, ...] = (
    keras.Operation,
    keras.initializers.Initializer,
    keras.regularizers.Regularizer,
    keras.constraints.Constraint,
    keras.dtype_policies.DTypePolicy,
    keras.dtype_policies.DTypePolicyMap,
    keras.quantizers.Quantizer,
    keras.random.SeedGenerator,
    # Not in every version.
    *filter(None, (getattr(keras.quantizers, "QuantizationConfig", None),)),
)


def vet(config: JSON, custom_objects: Mapping[str, Any], layer: str) -> None:
    """Raise CannotRebuild unless a layer's configuration names only what may be made from a record.

    Parameters
    ----------
    config:
        What :func:`daskevo.models.configs.record_config` made, or anything else.
    custom_objects:
        What the caller passed by name.
    layer:
        The layer's name, for messages.
    """
    if not isinstance(config, dict) or not isinstance(config.get("config"), dict) or "class_name" not in config:
        raise CannotRebuild(f"layer {layer!r} of the record has no configuration", layer=layer)
    for part in json_objects(config):
        if "class_name" in part:
            _check(part, custom_objects, layer)
        # Keras would pass them on to methods of the layer, `build_from_config` and `compile_from_config`.
        for key in ("build_config", "compile_config"):
            if key in part:
                raise _refused(layer, f"a {key}, which daskevo writes in no record")
        if isinstance(part.get("vocabulary"), str):
            raise _refused(layer, f"the path of a vocabulary file ({part['vocabulary'][:80]!r})")


def _check(part: dict[str, JSON], custom_objects: Mapping[str, Any], layer: str) -> None:
    kind = part["class_name"]
    if not isinstance(kind, str):
        raise _refused(layer, f"a class_name of type {type(kind).__name__}")
    if kind in _PLAIN:
        return
    if kind == "function":
        name = part.get("config")
        if not isinstance(name, str) or (name not in custom_objects and not resolves(part)):
            raise _unknown(layer, f"the function {str(name)[:80]!r}")
        return
    if kind.startswith("__") or kind in _REFUSED:
        raise _refused(layer, f"a {kind}, which runs code or loads files")
    registered = part.get("registered_name")
    if isinstance(registered, str) and (
        registered in custom_objects or keras.saving.get_registered_object(registered) is not None
    ):
        return
    symbol = _keras_class(part.get("module"), kind)
    if symbol is None:
        raise _unknown(layer, f"the class {str(registered or kind)[:80]!r}")
    # By the class' own name again: Keras exports some under several.
    if not issubclass(symbol, _KINDS) or symbol.__name__ in _REFUSED:
        raise _refused(layer, f"a {kind}, which is no part of a layer")


def _keras_class(module: JSON, name: str) -> type | None:
    """Return a class of Keras by module and name, if it is exported or its module is loaded; imports nothing."""
    if not isinstance(module, str) or module.split(".", 1)[0] != "keras":
        return None
    symbol = public_symbol(f"{module}.{name}")
    if symbol is None and module in sys.modules:
        # Not by getattr: the `__getattr__` of a module may import others.
        symbol = vars(sys.modules[module]).get(name)
    return symbol if isinstance(symbol, type) else None


def _refused(layer: str, found: str) -> CannotRebuild:
    return CannotRebuild(f"layer {layer!r} of the record holds {found}: it isn't loaded", layer=layer)


def _unknown(layer: str, found: str) -> CannotRebuild:
    return CannotRebuild(
        f"layer {layer!r} of the record uses {found}, which is neither Keras' own nor registered here: import the "
        "module that defines and registers it first, or pass it in custom_objects",
        layer=layer,
        unknown=True,
    )
