"""The configuration of a leaf layer: as JSON that rebuilds it, adapted vocabularies included."""

from __future__ import annotations

import math
import types
import warnings
from typing import Any

import keras
import numpy as np

from daskevo.models.config_cache import recorded
from daskevo.models.keras_private import is_registered, lookup_of, public_name, public_symbol, with_sublayers
from daskevo.models.rejections import cannot_flatten, describe
from daskevo.types import JSON

# Says how a layer was built and compiled where it came from; a rebuild builds it by calling it.
_LEFT_OUT = frozenset({"build_config", "compile_config", "shared_object_id"})

# Modules in which Keras looks up a function that it serialised by its bare name.
_FUNCTION_MODULES = ("activations", "initializers", "regularizers", "constraints", "losses", "ops")


def record_config(operation: Any, *, allow_lambda: bool = False) -> dict[str, JSON]:
    """Return what rebuilds a leaf layer or operation, without its weights.

    Raises
    ------
    CannotFlatten
        ``config``, ``lambda`` or ``unregistered-function``.
    """
    _check_functions(operation, allow_lambda)
    adapted = _adapted(operation)
    # The cache goes by the layer's own configuration, which doesn't say what was adapted.
    if adapted:
        return _work_out(operation, adapted, allow_lambda)
    return recorded(operation, lambda: _work_out(operation, {}, allow_lambda))


def _work_out(operation: Any, adapted: dict[str, Any], allow_lambda: bool) -> dict[str, JSON]:
    try:
        serialised = _serialise(operation, allow_lambda)
        serialised["config"] = {**serialised["config"], **adapted}
        config: dict[str, JSON] = _plain(serialised)
    except Exception as error:
        raise cannot_flatten(
            "config", f"the configuration of {describe(operation)} can't be serialised ({error})", layer=operation.name
        ) from error
    _check_serialised(config, operation, allow_lambda)
    return config


def _serialise(operation: Any, allow_lambda: bool) -> dict[str, Any]:
    if not allow_lambda:
        return dict(keras.saving.serialize_keras_object(operation))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras warns of lambdas, which were opted in
        return dict(keras.saving.serialize_keras_object(operation))


def _plain(value: Any) -> JSON:
    """Return a serialised configuration with lists for tuples and without what only its first process needs."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"a dict has the key {key!r}, and JSON has string keys only")
        return {key: _plain(item) for key, item in value.items() if key not in _LEFT_OUT}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    # numpy's scalars are no JSON, and layers keep those that they were given.
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$": "float", "value": repr(float(value))}
    # Before the loop: bool is a kind of int.
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):  # subclasses such as np.str_ and IntEnum too
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"it holds a {type(value).__qualname__}")


def revive_floats(value: JSON) -> JSON:
    """Return a configuration with infinities and NaN in their places again."""
    match value:
        case {"$": "float", "value": ("inf" | "-inf" | "nan") as text}:
            return float(text)
        case dict():
            return {key: revive_floats(item) for key, item in value.items()}
        case list():
            return [revive_floats(item) for item in value]
    return value


def _adapted(operation: Any) -> dict[str, Any]:
    """Return what a layer's own configuration leaves out, or says in a way that only its own model understands."""
    policy = getattr(operation, "dtype_policy", None)
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap) and len(with_sublayers(operation)) == 1:
        # A map goes by paths, which hold the names of nested models; a rebuilt model has none of them.
        return {"dtype": keras.dtype_policies.serialize(policy_of(operation))}
    return _vocabulary(operation)


def policy_of(layer: Any) -> Any:
    """Return the dtype policy that counts for a layer."""
    policy = layer.dtype_policy
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        return policy[layer.path] if layer.path else policy.default_policy
    return policy


def _vocabulary(operation: Any) -> dict[str, Any]:
    """Return the vocabulary that a lookup layer has, whether it was given or learnt by ``adapt``.

    Vocabularies are no weights, and their layers' own configuration names only those that were given.
    """
    for table in lookup_of(operation):
        vocabulary = [_token(token) for token in table.get_vocabulary(include_special_tokens=False)]
        if not vocabulary:
            return {}
        weights = getattr(table, "idf_weights", None)
        if table.output_mode == "tf_idf" and weights is not None:
            # The first weights belong to the special tokens; a rebuild gives them the mean, as `adapt` did.
            first = len(table.get_vocabulary()) - len(vocabulary)
            values = weights.numpy()[first : first + len(vocabulary)]
            return {"vocabulary": vocabulary, "idf_weights": values.tolist()}
        return {"vocabulary": vocabulary}
    return {}


def _token(token: Any) -> Any:
    if isinstance(token, bytes):
        return token.decode("utf-8")
    return token.item() if isinstance(token, np.generic) else token


def _check_functions(operation: Any, allow_lambda: bool) -> None:
    for layer in with_sublayers(operation):
        if isinstance(layer, keras.layers.Lambda) and not allow_lambda:
            raise cannot_flatten("lambda", f"{describe(layer)} runs code that no record can hold", layer=layer.name)
        functions = {
            name: value
            for name, value in vars(layer).items()
            if not name.startswith("_") and _is_function(value) and not _is_known(value)
        }
        own = _own_config(layer) if functions else {}
        for name, function in functions.items():
            if name not in own:
                continue
            called = getattr(function, "__name__", None)
            if called == "<lambda>" and isinstance(function, types.FunctionType):
                if not allow_lambda:
                    raise cannot_flatten(
                        "lambda", f"{name} of {describe(layer)} is a lambda", layer=layer.name, argument=name
                    )
            # Keras writes some functions by their bare name: a user's (or TensorFlow's) `relu` would pass for its own.
            # Another string is the layer's own way to name the function.
            elif not isinstance(own[name], str) or own[name] == called:
                raise cannot_flatten(
                    "unregistered-function",
                    f"{name} of {describe(layer)} is {_place(function)}, which is neither Keras' own nor registered",
                    layer=layer.name,
                    argument=name,
                )


def _own_config(layer: Any) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a lambda, which is refused after this
            return dict(layer.get_config())
    except Exception:  # noqa: BLE001 - any error here is reported by record_config, with its reason
        return {}


def _is_function(value: Any) -> bool:
    """Whether a layer's attribute is something that Keras may write by its bare name.

    Functions, methods, functions that TensorFlow has compiled, C functions and objects with a ``__name__``: all but
    classes, and what has a configuration of its own.
    """
    return callable(value) and hasattr(value, "__name__") and not isinstance(value, type) and not _has_config(value)


def _has_config(value: Any) -> bool:
    return callable(getattr(value, "get_config", None))


def _place(function: Any) -> str:
    kind = "the function" if isinstance(function, types.FunctionType) else f"a {type(function).__name__},"
    name = getattr(function, "__qualname__", None) or function.__name__
    return f"{kind} {getattr(function, '__module__', None)}.{name}"


def _is_known(function: Any) -> bool:
    if is_registered(function):
        return True
    # Whatever else bears a name of Keras' only wraps what is meant.
    own = isinstance(function, types.FunctionType) and str(function.__module__).startswith("keras.")
    return own or _public(function)


def _public(function: Any) -> bool:
    try:
        return public_name(function) is not None
    except TypeError:  # unhashable
        return False


def _check_serialised(config: JSON, operation: Any, allow_lambda: bool) -> None:
    if isinstance(config, list):
        for item in config:
            _check_serialised(item, operation, allow_lambda)
    elif isinstance(config, dict):
        kind = config.get("class_name")
        if kind == "__lambda__" and not allow_lambda:
            raise cannot_flatten("lambda", f"{describe(operation)} holds a lambda", layer=operation.name)
        is_named = "module" in config and isinstance(config.get("config"), str) and not str(kind).startswith("__")
        if is_named and (kind != "function" or not resolves(config)):
            raise cannot_flatten(
                "unregistered-function",
                f"{describe(operation)} uses the function {config.get('config')!r}, which is neither Keras' own nor "
                "registered",
                layer=operation.name,
            )
        for item in config.values():
            _check_serialised(item, operation, allow_lambda)


def resolves(function: dict[str, JSON]) -> bool:
    """Whether a serialised function can be found again by Keras' registry alone."""
    name, module = function.get("config"), function.get("module")
    if not isinstance(name, str):
        return False
    if keras.saving.get_registered_object(name) is not None:
        return True
    modules = [f"keras.{known}" for known in _FUNCTION_MODULES]
    if isinstance(module, str) and module != "builtins":
        modules = [known for known in modules if known == module]
    # Functions only: what Keras serialises by a bare name is one.
    return any(isinstance(public_symbol(f"{known}.{name}"), types.FunctionType) for known in modules)
