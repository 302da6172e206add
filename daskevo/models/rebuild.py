"""Rebuild a Keras model from its architecture graph, and compare its own graph with it before returning it."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import keras
import numpy as np

from daskevo.errors import CannotFlatten, CannotRebuild, CorruptRecord
from daskevo.graph import ArchitectureGraph, Vertex
from daskevo.models.calls import call_again
from daskevo.models.config_vetting import vet
from daskevo.models.configs import revive_floats
from daskevo.models.flat import FlatModel, spec_of, weights_of
from daskevo.models.flatten import flatten
from daskevo.models.host_memory import to_tensor
from daskevo.models.keras_private import Tensor, can_do_without_values, give_value, without_values
from daskevo.models.stored_code import ChangedCode, changed_code, warn_once
from daskevo.models.tensors import check_tensors, finalize, write_tensors
from daskevo.models.values import decode
from daskevo.models.versions import readable, same_but_for_versions
from daskevo.types import JSON, TensorSpec


def rebuild(graph: ArchitectureGraph, *, custom_objects: Mapping[str, Any] | None = None) -> keras.Model:
    """Return a functional model with this architecture and fresh weights.

    Nested models are inlined, and shared layers are shared; names are kept if they are unique. Code that a subclass of
    keras.Model adds to training (its ``train_step``) is not part of the architecture, and is lost. The model is
    flattened again, and its graph must equal the given one.

    Parameters
    ----------
    graph:
        The architecture graph, which need not be trusted: nothing in it is run or imported. Its layers are Keras' own,
        registered with ``keras.saving.register_keras_serializable``, or in `custom_objects`.
    custom_objects:
        Name -> class or function, for layers that aren't registered.

    Raises
    ------
    CannotRebuild
        If something is missing, refused or different; the error names the layer.

    Warns
    -----
    LayerCodeChanged
        If the code of a layer that is not part of Keras has changed since the graph was recorded.
    """
    return rebuild_flat(graph, custom_objects=custom_objects).model


def rebuild_flat(
    graph: ArchitectureGraph,
    *,
    custom_objects: Mapping[str, Any] | None = None,
    tensors: Mapping[int, np.ndarray[Any, Any]] | None = None,
    name: str | None = None,
    stored_as: str | None = None,
) -> Rebuilt:
    """Return the model as `rebuild` does, with its `FlatModel`, whose tensors are numbered as the graph's are.

    Parameters
    ----------
    graph, custom_objects:
        As for `rebuild`.
    tensors:
        Tensor number -> initial values, as for :func:`~daskevo.models.write_tensors`; the others are initialised.
        Tensors given here skip initialisation, which would take most of the time.
    name:
        Name of the model; None: that of the model that was flattened.
    stored_as:
        Name for the user in warnings; None: the model's name.

    Raises
    ------
    CannotRebuild
        As `rebuild`.
    InvalidInput
        If a tensor doesn't fit.

    Warns
    -----
    LayerCodeChanged
        As `rebuild`.
    """
    rebuilt = _rebuild(graph, custom_objects, tensors or {}, name)
    warn_once(rebuilt.changed_code, stored_as or rebuilt.model.name)
    return rebuilt


def _rebuild(
    graph: ArchitectureGraph,
    custom_objects: Mapping[str, Any] | None,
    tensors: Mapping[int, np.ndarray[Any, Any]],
    name: str | None,
) -> Rebuilt:
    check_tensors(graph, tensors)
    with _vetted(graph, custom_objects):
        if can_do_without_values():
            # Build shapes only and compare, before memory for weights is allocated: a hostile or damaged graph may ask
            # for more than there is.
            try:
                return _rebuild_without_values(graph, tensors, name)
            except _NeedsValues:
                pass
        rebuilt = _compared(graph, _flattened(_Builder(graph).model(name)))
    if tensors:
        write_tensors(rebuilt.flat, tensors)
    return rebuilt


def check_rebuild(graph: ArchitectureGraph, custom_objects: Mapping[str, Any] | None = None) -> ChangedCode:
    """Check that `rebuild` would succeed, without allocating memory for weights if Keras can do without.

    Returns
    -------
    ChangedCode
        The layers whose code has changed since the graph was recorded.

    Raises
    ------
    CannotRebuild
        As `rebuild`.
    """
    with _vetted(graph, custom_objects):
        if can_do_without_values():
            # Some layers can't be built without values. Building them with values below succeeds, or gives the reason.
            with contextlib.suppress(CannotRebuild, _NeedsValues), without_values():
                return _compared(graph, _flattened(_Builder(graph, values=False).model())).changed_code
        return _compared(graph, _flattened(_Builder(graph).model())).changed_code


@contextlib.contextmanager
def _vetted(graph: ArchitectureGraph, custom_objects: Mapping[str, Any] | None) -> Iterator[None]:
    custom = dict(custom_objects or {})
    for record in graph.layers:
        vet(record.config, custom, record.name)
    with warnings.catch_warnings(), keras.saving.custom_object_scope(custom):
        warnings.simplefilter("ignore")  # such as those about names and masks, which the model's author has seen
        yield


def _flattened(model: keras.Model) -> Rebuilt:
    try:
        return Rebuilt(model, flatten(model))
    except CannotFlatten as error:
        raise CannotRebuild(f"the rebuilt model can't be flattened again: {error}") from error


def _compared(graph: ArchitectureGraph, rebuilt: Rebuilt) -> Rebuilt:
    return replace(rebuilt, changed_code=compare(graph, rebuilt.flat.graph))


def _rebuild_without_values(
    graph: ArchitectureGraph, tensors: Mapping[int, np.ndarray[Any, Any]], name: str | None
) -> Rebuilt:
    with without_values() as pending:
        try:
            rebuilt = _flattened(_Builder(graph, values=False).model(name))
        except CannotRebuild as error:
            raise _NeedsValues from error
        rebuilt = _compared(graph, rebuilt)
        variables = pending()
    weights = enumerate(rebuilt.flat.variables())
    given = {id(variable): tensors[number] for number, variable in weights if number in tensors}
    for variable in variables:
        array = given.get(id(variable))
        give_value(variable, None if array is None else _initializer(array))
    finalize(rebuilt.flat, tensors)
    return rebuilt


class _NeedsValues(Exception):
    """The model can't be built without values: some layers make variables from arrays, or are quantised when built."""


def _initializer(array: np.ndarray[Any, Any]) -> Callable[..., Any]:
    # Keras passes shape and dtype; `check_tensors` has compared them with the array's.
    return lambda *_, **__: to_tensor(array)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A rebuilt model, its `FlatModel`, and the layers whose code has changed since the graph was recorded."""

    model: keras.Model
    flat: FlatModel
    changed_code: ChangedCode = field(default_factory=ChangedCode)


class _Builder:
    """Creates the layers of a graph and calls them, vertex by vertex."""

    def __init__(self, graph: ArchitectureGraph, *, values: bool = True) -> None:
        self.graph = graph
        self.values = values
        self.layers: dict[int, Any] = {}
        self.outputs: list[list[Tensor]] = []
        self.names: set[str] = set()

    def model(self, name: str | None = None) -> keras.Model:
        for vertex in self.graph.vertices:
            self.outputs.append(self._call(vertex))
        structure = self.graph.structure
        if not isinstance(structure, dict) or not isinstance(structure.get("name"), str):
            raise CannotRebuild("the record doesn't say how inputs and outputs are nested")
        try:
            inputs = decode(structure.get("inputs"), self._input)
            outputs = decode(structure.get("outputs"), self._output)
            return keras.Model(inputs=inputs, outputs=outputs, name=name or structure["name"])
        except Exception as error:
            raise CannotRebuild(f"inputs and outputs of the record make no model ({error})") from error

    def _call(self, vertex: Vertex) -> list[Tensor]:
        record = self.graph.layers[vertex.layer]
        try:
            if vertex.layer in self.layers:
                return call_again(self.layers[vertex.layer], vertex.call, self._sources(vertex))
            return self._first_call(vertex)
        except Exception as error:
            raise CannotRebuild(
                f"layer {record.name!r} of the record can't be built and called here ({_short(error)})",
                layer=record.name,
            ) from error

    def _first_call(self, vertex: Vertex) -> list[Tensor]:
        record = self.graph.layers[vertex.layer]
        # Names are unique in each nested model only, but must be unique in the whole flat one.
        name, count = record.name, 1
        while name in self.names:
            name, count = f"{record.name}_{count}", count + 1
        self.names.add(name)

        layer = self.layers[vertex.layer] = make_layer(record.config, name)
        if isinstance(layer, keras.layers.InputLayer):
            return [layer.output]
        outputs = call_again(layer, vertex.call, self._sources(vertex))
        give_alpha(layer, record.config)
        if getattr(layer, "quantization_mode", None) is not None and _specs(layer) != record.tensors:
            # The layer was quantised after it was built, which puts its weights in another order: do the same.
            if not self.values:
                raise _NeedsValues
            config = copy.deepcopy(record.config)
            policy = config["config"]["dtype"]["config"]
            config["config"]["dtype"] = policy["source_name"]
            layer = self.layers[vertex.layer] = make_layer(config, name)
            outputs = call_again(layer, vertex.call, self._sources(vertex))
            give_alpha(layer, record.config)
            layer.quantize(policy["mode"])
        return outputs

    def _sources(self, vertex: Vertex) -> list[Tensor]:
        return [self.outputs[edge.source][edge.slot] for edge in vertex.edges]

    def _input(self, part: JSON) -> Tensor:
        position = part.get("edge")
        if type(position) is not int or not 0 <= position < len(self.graph.inputs):
            raise CorruptRecord(f"it names input {position!r}, of {len(self.graph.inputs)}")
        return self.outputs[self.graph.inputs[position]][0]

    def _output(self, part: JSON) -> Tensor:
        vertex, slot = part.get("vertex"), part.get("slot")
        if (vertex, slot) not in self.graph.outputs:
            raise CorruptRecord(f"it names output ({vertex!r}, {slot!r}), which the graph doesn't have")
        return self.outputs[vertex][slot]


def make_layer(recorded: JSON, name: str) -> Any:
    """Create the layer or operation of a vetted configuration, under this name."""
    config = readable(revive_floats(recorded))
    if "name" in config["config"]:
        config["config"]["name"] = name
    layer = keras.saving.deserialize_keras_object(config, safe_mode=True)
    if not isinstance(layer, keras.Operation):
        raise TypeError(f"{type(layer).__name__} is no layer")
    # Also where the configuration has no name.
    layer.name = name
    return layer


def give_alpha(layer: Any, recorded: JSON) -> None:
    """Set the scale of a layer's low-rank adaptation from its record; Keras sets it to the rank when it builds it."""
    match recorded:
        case {"config": {"lora_alpha": int() | float() as alpha}} if getattr(layer, "lora_enabled", False):
            layer.lora_alpha = alpha


def _specs(layer: Any) -> tuple[TensorSpec, ...]:
    return tuple(map(spec_of, weights_of(layer)))


def _short(error: Exception) -> str:
    # Keras nests error messages; the innermost one tells what is wrong.
    text = f"{type(error).__name__}: {str(error).rpartition('Exception encountered: ')[2]}"
    return text if len(text) <= 500 else text[:500] + "..."


def compare(wanted: ArchitectureGraph, found: ArchitectureGraph) -> ChangedCode:
    """Raise CannotRebuild with the first differing layer unless two graphs are the same except for code.

    The record may have been written by another version of Keras, or of a user's layer. An argument that only one of the
    versions has was read by the running one, and is no difference; arguments that both have must be equal. Return the
    layers whose code differs.
    """
    # Lengths are compared below: the first vertex that differs says more than a number.
    for mine, theirs in zip(wanted.vertices, found.vertices, strict=False):
        if (mine.layer, mine.edges, mine.commutative) != (theirs.layer, theirs.edges, theirs.commutative) or not (
            mine.signature == theirs.signature or same_but_for_versions(mine.signature, theirs.signature)
        ):
            layer = wanted.layers[mine.layer].name
            what = (
                f"signature {_difference(mine.signature, theirs.signature)}"
                if mine.signature != theirs.signature
                else "weights or connections"
            )
            raise CannotRebuild(
                f"the model rebuilt from the record differs at layer {layer!r} ({what}); was it made with another "
                "version of Keras, or does get_config of the layer leave something out?",
                layer=layer,
            )
    if (
        len(wanted.vertices) != len(found.vertices)
        or wanted.inputs != found.inputs
        or wanted.outputs != found.outputs
        or [layer.tensors for layer in wanted.layers] != [layer.tensors for layer in found.layers]
    ):
        raise CannotRebuild("the model rebuilt from the record has other inputs, outputs or layers than the record")
    return changed_code(wanted, found)


def _difference(wanted: str, found: str) -> str:
    start = next((i for i, (one, other) in enumerate(zip(wanted, found, strict=False)) if one != other), 0)
    start = max(0, start - 30)
    return f"...{wanted[start : start + 80]!r}, found ...{found[start : start + 80]!r}"
