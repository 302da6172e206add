"""What a model is to its training, beyond what its vertices' ids say: the model's part of the training key.

Ids say which weights may be taken over. They leave out what changes a training and not the layer's function: settings
such as regularizers, initializers, constraints, dropout rates and ``trainable``, names that somebody chose, weights
that were loaded, code of classes of the user's own. Two models with equal ids and equal keys are trained alike; where
something of a model can't be compared, it has no key.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from daskevo.code_identity import digest_of, is_installed, with_names_numbered
from daskevo.graph import ArchitectureGraph
from daskevo.models.flat import weights_of
from daskevo.models.keras_private import given_value, with_sublayers
from daskevo.models.model_graphs import snake_case

_COMPARED = (type(None), bool, int, float, str, bytes, np.ndarray, np.generic, types.FunctionType)
_OF_EVERY_LAYER = frozenset({"name", "built", "build", "quantize"})
"""Keras sets them on each layer, some as functions around the class' own."""
_IN_THE_GRAPH = (keras.layers.Layer, keras.Variable, keras.KerasTensor)


def training_key(model: keras.Model, graph: ArchitectureGraph, *, names: bool = True) -> bytes | None:
    """Return the key of a model that was built and not trained; None if something of it can't be compared.

    Parameters
    ----------
    model:
        Fresh; built in :func:`~daskevo.models.shape_only`, and asked for inside it, the weights that were given to it
        count and those that it would draw don't: these follow from the seed.
    graph:
        The model's architecture graph.
    names:
        Whether names of layers may have been chosen by somebody, who may look for them; False: they were made up, as
        those of nodes that mutators add.

    Returns
    -------
    bytes
        16 bytes.
    """
    layers = [model, *with_sublayers(model)]
    parts: list[Any] = [[with_names_numbered(layer.config) for layer in graph.layers]]
    codes = {kind: _code_of(kind) for kind in set(map(type, layers))}
    # Each once: the model is among its own layers, and a layer may be held in several places.
    for layer in {id(layer): layer for layer in layers}.values():
        kind = type(layer)
        if (code := codes[kind]) is None:
            return None
        name = _chosen(layer.name, kind) if names else None
        parts.append((code, name, bool(layer.trainable), _attributes(layer, layer is model)))
    given = [given_value(variable) for variable in weights_of(model)]
    parts.append([None if value is None else np.asarray(value) for value in given])
    digest = digest_of(parts)
    return None if digest is None else bytes.fromhex(digest)


def _chosen(name: str, kind: type) -> str | None:
    """Return a name chosen by the user; None for one numbered by Keras, which depends on other layers."""
    # Bidirectional calls its two layers by what the one was called that it was given.
    return None if re.fullmatch(rf"((for|back)ward_)?{re.escape(snake_case(kind.__name__))}(_\d+)?", name) else name


def _attributes(layer: Any, is_model: bool) -> dict[str, Any]:
    """Return attributes of a layer or model that may have been set besides its configuration."""
    found = {}
    kind: Any = type(layer)
    left_out = {*_OF_EVERY_LAYER, *(_usual() if isinstance(layer, keras.Model) else ())}
    for name, value in vars(layer).items():
        if name in left_out or (name.startswith("_") and name in _named_in_code(kind)):
            continue
        plain = _plain(value)
        if _is_compared(plain) or (is_model and not name.startswith("_") and not isinstance(value, _IN_THE_GRAPH)):
            found[name] = plain
    return found


def _plain(value: Any) -> Any:
    """Return lists, mappings and sets as Python's own: Keras wraps those that it looks for layers in."""
    if isinstance(value, dict):
        return {key: _plain(inside) for key, inside in value.items()}
    if isinstance(value, list):
        return [_plain(inside) for inside in value]
    return set(value) if isinstance(value, set) else value


def _is_compared(value: Any) -> bool:
    inside = value.values() if isinstance(value, dict) else value
    return isinstance(value, _COMPARED) or (
        isinstance(value, list | tuple | set | dict) and all(map(_is_compared, inside))
    )


def _code_of(kind: type) -> str | None:
    """Return what a class is made of now; of installed ones the name."""
    installed = is_installed(kind.__module__)
    return f"{kind.__module__}.{kind.__qualname__}" if installed else digest_of(kind, settings=True)


@functools.lru_cache(maxsize=256)
def _named_in_code(kind: type) -> frozenset[str]:
    """Return the names in the code of a class' installed bases: private attributes among them are theirs."""
    installed = [base for base in kind.__mro__ if is_installed(base.__module__)]
    waiting = [code for base in installed for value in vars(base).values() for code in _codes(value)]
    found: set[str] = set()
    while waiting:
        code = waiting.pop()
        found.update(code.co_names, (constant for constant in code.co_consts if isinstance(constant, str)))
        waiting.extend(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return frozenset(found)


def _codes(value: Any) -> Iterator[types.CodeType]:
    functions = (value.fget, value.fset) if isinstance(value, property) else (getattr(value, "__func__", value),)
    for function in map(inspect.unwrap, filter(callable, functions)):
        if isinstance(function, types.FunctionType):
            yield function.__code__


@functools.cache
def _usual() -> frozenset[str]:
    """Return the attributes that every model has."""
    inputs = keras.Input((1,))
    return frozenset({*vars(keras.Model(inputs, inputs)), *vars(keras.Sequential([inputs]))})
