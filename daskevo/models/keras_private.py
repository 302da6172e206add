"""What daskevo uses of Keras beyond its public API, in one place, pinned by ``tests/models/test_keras_private.py``.

The graph that Keras records while a functional model is built (nodes, histories, implicit masks) has no public API;
everything else in :mod:`daskevo.models` goes through the functions below.
"""

from __future__ import annotations

import collections
import contextlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import keras
from keras.src.api_export import get_name_from_symbol, get_symbol_from_name
from keras.src.backend.common import global_state
from keras.src.backend.common.stateless_scope import get_stateless_scope, in_stateless_scope
from keras.src.models.functional import Functional
from keras.src.ops.node import Node
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR
from keras.src.saving.object_registration import GLOBAL_CUSTOM_NAMES

_NAME_COUNTS = "object_name_uids"
_PENDING = "uninitialized_variables"
_DTYPE_POLICY = "dtype_policy"

Tensor = Any
"""A keras.KerasTensor: the shape and dtype that flow along an edge."""


def functional_of(model: object) -> Any | None:
    """Return the functional graph that a Functional or a built Sequential model runs, else None."""
    if isinstance(model, Functional):
        return model
    if isinstance(model, keras.Sequential):
        return model._functional
    return None


def runs_its_graph(model: object) -> bool:
    """Whether calling `model` does what its recorded graph says: no subclass has overridden the call."""
    base = Functional if isinstance(model, Functional) else keras.Sequential
    methods = ("call", "__call__", "_run_through_graph")
    return all(getattr(type(model), name, None) is getattr(base, name, None) for name in methods)


def structures(functional: Any) -> tuple[Any, Any]:
    """Return inputs and outputs of a functional graph nested as they were given."""
    return functional._inputs_struct, functional._outputs_struct


def origin(tensor: Tensor) -> tuple[Any, Node, int] | None:
    """Return (operation, node, output slot) that made a tensor; None for a tensor that nothing made."""
    history = getattr(tensor, "_keras_history", None)
    if history is None or history.operation is None:
        return None
    return history.operation, history.operation._inbound_nodes[history.node_index], history.tensor_index


def implicit_mask(tensor: Any) -> Tensor | None:
    """Return the mask that Keras carries along with a tensor."""
    return getattr(tensor, "_keras_mask", None)


def with_sublayers(operation: Any) -> list[Any]:
    """Return an operation and, of a layer, all layers inside it."""
    return list(operation._flatten_layers()) if isinstance(operation, keras.layers.Layer) else [operation]


def public_name(symbol: object) -> str | None:
    """Return the name under which Keras exports a class or function, such as ``keras.layers.Dense``."""
    name: str | None = get_name_from_symbol(symbol)
    return name


def public_symbol(name: str) -> Any | None:
    """Return what Keras exports under a name such as ``keras.layers.Dense``; imports nothing."""
    return get_symbol_from_name(name)


def is_registered(symbol: object) -> bool:
    """Whether a class or function was registered with ``keras.saving.register_keras_serializable``."""
    try:
        return symbol in GLOBAL_CUSTOM_NAMES
    except TypeError:  # unhashable
        return False


def can_do_without_values() -> bool:
    """Whether this version of Keras has `without_values`, and no such scope is open."""
    parameters = inspect.signature(keras.StatelessScope.__init__).parameters
    return "initialize_variables" in parameters and not in_stateless_scope()


@contextlib.contextmanager
def without_values() -> Iterator[Callable[[], list[Any]]]:
    """Build layers whose variables get no values; yields a function that lists the variables built so far."""
    before = list(global_state.get_global_attribute(_PENDING) or ())
    known = set(map(id, before))
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield lambda: [
                variable for variable in global_state.get_global_attribute(_PENDING) or () if id(variable) not in known
            ]
    finally:
        # Otherwise the next plain StatelessScope would give values to all that were built here.
        global_state.set_global_attribute(_PENDING, before)


@contextlib.contextmanager
def _global_given_back(name: str, *inside: Any) -> Iterator[None]:
    """Restore one of Keras' global attributes after a block, which begins with the value `inside` if it is given."""
    before = global_state.get_global_attribute(name)
    if inside:
        global_state.set_global_attribute(name, *inside)
    try:
        yield
    finally:
        global_state.set_global_attribute(name, before)


def fresh_names() -> AbstractContextManager[None]:
    """Let Keras number the names of layers as in a process that has made none."""
    return _global_given_back(_NAME_COUNTS, collections.defaultdict(int))


def names_given_back() -> AbstractContextManager[None]:
    """Let what is named in this block leave no trace in later names: the next block gives the same ones again.

    Unlike in `fresh_names`, layers from before the block keep their names to themselves, so that a model may use them.
    """
    # The block counts in a copy: what is put back must not have changed.
    before = global_state.get_global_attribute(_NAME_COUNTS) or {}
    return _global_given_back(_NAME_COUNTS, collections.defaultdict(int, before))


def dtype_policy_given_back() -> AbstractContextManager[None]:
    """Restore the global dtype policy after a block; a policy that was not read yet stays unread."""
    return _global_given_back(_DTYPE_POLICY)


def drawing_from(generator: keras.random.SeedGenerator) -> AbstractContextManager[None]:
    """Let random operations that have no seed generator of their own draw from this one, in place of Keras' global."""
    return _global_given_back(GLOBAL_SEED_GENERATOR, generator)


def give_value(variable: Any, initializer: Callable[..., Any] | None = None) -> None:
    """Give a variable built in `without_values` its first value, by its own initializer if none is passed."""
    if initializer is not None:
        variable._initializer = initializer
    variable._deferred_initialize()


def has_value(variable: Any) -> bool:
    """Whether a variable has a value; those built in `without_values` don't."""
    return variable._value is not None


def is_without_values() -> bool:
    """Whether a scope such as that of `without_values` is open."""
    return bool(in_stateless_scope())


def given_value(variable: Any) -> Any:
    """Return the value that was assigned to a variable in the open stateless scope; None if there is none."""
    return get_stateless_scope().get_current_value(variable) if in_stateless_scope() else None


def lookup_of(layer: Any) -> Iterator[Any]:
    """Yield the vocabulary table of a lookup or text vectorization layer, if it is one."""
    table = getattr(layer, "_lookup_layer", layer)
    if hasattr(table, "lookup_table") and hasattr(table, "get_vocabulary"):
        yield table
