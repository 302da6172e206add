"""One call of a layer, as Keras recorded it: which tensors flow into which argument, and what else was passed."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import keras

from daskevo.errors import CorruptRecord
from daskevo.models.keras_private import Tensor
from daskevo.models.masks import implicit_masks
from daskevo.models.rejections import cannot_flatten, describe
from daskevo.models.training_mode import is_inference, is_moot
from daskevo.models.values import NotStorable, decode, encode, is_variable
from daskevo.types import JSON

_TRAINING = "training"


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded call in canonical form: equal calls are equal, however the arguments were written.

    Parameters
    ----------
    tensors:
        (argument, tensor) in the order of the arguments of ``call``, e.g. ``("inputs/0", tensor)``.
    constants:
        What else was passed and decides what is computed, by argument; arrays as digests.
    again:
        How to call the layer again: positional and keyword arguments, tensors by their position in `tensors`.
    """

    tensors: tuple[tuple[str, Tensor], ...]
    constants: JSON
    again: JSON


def read_call(operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *, mode: Any = None) -> Call:
    """Return the canonical form of a recorded call.

    Arguments with their default value are left out, and so are masks that Keras passes by itself: at the next call it
    does so again. That goes for arguments by name and by position.

    Parameters
    ----------
    operation, args, kwargs:
        What was called, and with what.
    mode:
        The ``training`` of a nested model's call, which Keras passes to every layer of that model in place of its own;
        None if it was given none.

    Raises
    ------
    CannotFlatten
        ``free-variable`` or ``call-argument``.
    """
    kwargs = dict(kwargs)
    # Keras lets every layer be called with it, and gives those that don't take it to the layers inside.
    given = (
        {} if _TRAINING in parameters_of(operation) or _TRAINING not in kwargs else {_TRAINING: kwargs.pop(_TRAINING)}
    )
    arguments = bind(operation, args, kwargs)
    given.update({name: value for name, value in arguments.items() if name == _TRAINING})
    left_out = implicit_masks(operation, arguments, parameters_of(operation)) | {_TRAINING}
    arguments = {name: value for name, value in arguments.items() if name not in left_out}
    args, kwargs = _without(left_out, operation, args, kwargs)
    # Operations know no mode.
    if mode is not None and isinstance(operation, keras.layers.Layer):
        given[_TRAINING] = mode
    if given and not is_moot(operation, given[_TRAINING]):
        arguments |= given
        kwargs |= given

    tensors: list[tuple[str, Tensor]] = []
    positions: dict[int, int] = {}
    for name, value in arguments.items():
        for path, tensor in _tensors(name, value):
            # A tensor that is passed twice gives two edges. To call again, the first one's position serves for both.
            positions.setdefault(id(tensor), len(tensors))
            tensors.append((path, tensor))

    def edge(tensor: Tensor) -> JSON:
        return {"$": "edge", "edge": positions[id(tensor)]}

    def place(_: Tensor) -> JSON:
        return {"$": "edge"}

    try:
        constants = {
            name: encode(value, place, digests=True)
            for name, value in arguments.items()
            if not (_is_default(operation, name, value) or _only_tensors(value))
            and not (name == _TRAINING and is_inference(operation, value))
        }
        again = {
            "args": [encode(value, edge) for value in args],
            "kwargs": {
                name: encode(value, edge) for name, value in kwargs.items() if not _is_default(operation, name, value)
            },
        }
    except NotStorable as error:
        reason = "free-variable" if any(map(is_variable, _leaves([args, kwargs]))) else "call-argument"
        raise cannot_flatten(
            reason, f"{describe(operation)} is called with an argument of type {error}", layer=operation.name
        ) from error
    return Call(tuple(tensors), constants, again)


def call_again(operation: Any, again: JSON, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Call `operation` as recorded in `again`, and return its outputs in order.

    Raises
    ------
    CorruptRecord
        If `again` isn't what `read_call` makes.
    """

    def tensor(part: JSON) -> Tensor:
        position = part.get("edge")
        if type(position) is not int or not 0 <= position < len(tensors):
            raise CorruptRecord(f"a call names edge {str(position)[:40]!r}, of {len(tensors)}")
        return tensors[position]

    match again:
        # With the key "$", `decode` would make something else of the keyword arguments than a dict.
        case {"args": list() as args, "kwargs": dict() as kwargs} if "$" not in kwargs:
            outputs = operation(*decode(args, tensor), **decode(kwargs, tensor))
            return list(keras.tree.flatten(outputs))
    raise CorruptRecord("how to call a layer again is malformed in the record")


def bind(operation: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name, in the order of the signature of ``call``.

    Raises
    ------
    CannotFlatten
        ``call-argument``, if they don't fit.
    """
    try:
        bound = _parameters(operation).bind(*args, **kwargs)
    except (TypeError, ValueError) as error:
        raise cannot_flatten(
            "call-argument",
            f"the arguments of {describe(operation)} don't fit its call ({error})",
            layer=operation.name,
        ) from error
    return dict(bound.arguments)


def _without(
    left_out: Collection[str], operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return positional and keyword arguments without some: what stands behind one of those goes by its name."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, parameter in parameters_of(operation).items() if parameter.kind in kinds][: len(args)]
    first = next((index for index, name in enumerate(names) if name in left_out), len(args))
    given = {**dict(zip(names[first:], args[first:], strict=True)), **kwargs}
    return args[:first], {name: value for name, value in given.items() if name not in left_out}


def _tensors(path: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, keras.KerasTensor):
        yield path, value
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _tensors(f"{path}/{index}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _tensors(f"{path}/{key}", item)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    else:
        yield value


def _only_tensors(value: Any) -> bool:
    leaves = list(_leaves(value))
    return bool(leaves) and all(isinstance(leaf, keras.KerasTensor) for leaf in leaves)


def _is_default(operation: Any, name: str, value: Any) -> bool:
    parameter = parameters_of(operation).get(name)
    if parameter is None or parameter.default is parameter.empty:
        return False
    default = parameter.default
    return value is default or (
        # By its text: 0.0 equals -0.0, and (1,) equals (True,).
        type(value) is type(default)
        and isinstance(value, (bool, int, float, str, tuple))
        and repr(value) == repr(default)
    )


def parameters_of(operation: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of ``operation.call`` by name, in order."""
    return _parameters(operation).parameters


_of_class: WeakKeyDictionary[type, inspect.Signature] = WeakKeyDictionary()


def _parameters(operation: Any) -> inspect.Signature:
    """Return the signature of ``operation.call``; worked out once for each class, as it takes a third of the walk."""
    kind = type(operation)
    # Somebody replaced `call` on this one object: its class says nothing of it.
    if "call" in vars(operation):
        return inspect.signature(operation.call)
    found = _of_class.get(kind)
    if found is None:
        found = _of_class[kind] = inspect.signature(operation.call)
    return found
