"""Flatten a Keras model into an architecture graph of its leaf layers, with nested models inlined.

Source: paper 000, section 2. The walk follows the calls that Keras recorded, from the model's outputs to its inputs.
``get_config()["layers"]`` is not used, since it identifies layers by name, and loses layers shared across nesting
levels. The walk is not recursive, since some models are deeper than Python's recursion limit.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import keras

from daskevo.graph import ArchitectureGraph, Edge, LayerRecord, Vertex
from daskevo.models.calls import Call, read_call
from daskevo.models.configs import record_config
from daskevo.models.custom_code import CODE_READ_BY, RUNNING_CODE
from daskevo.models.flat import FlatModel, spec_of, weights_of
from daskevo.models.keras_private import Tensor, functional_of, origin, runs_its_graph, structures
from daskevo.models.nested_calls import adapt, inner_arguments
from daskevo.models.rejections import cannot_flatten, describe
from daskevo.models.signature import is_commutative, layer_signature, signature
from daskevo.models.values import encode
from daskevo.models.versions import WRITTEN_BY
from daskevo.types import JSON

Place = tuple[int, int]
"""(vertex, output slot)."""


def flatten(model: keras.Model, *, allow_lambda: bool = False) -> FlatModel:
    """Return the architecture graph of `model`, and its leaf layers.

    Parameters
    ----------
    model:
        A functional or Sequential model that is built. Weights are not read, so a model built in
        :func:`~daskevo.models.shape_only` is enough. The model isn't changed.
    allow_lambda:
        Whether to accept Lambda layers and lambda activations. Their signature is their bytecode, which differs between
        Python versions and files, and a model with them can't be rebuilt from its record.

    Raises
    ------
    CannotFlatten
        With `reason`, one of :data:`daskevo.models.rejections.REASONS`, and advice.
    """
    functional = _graph_of(model)
    if functional is None:
        raise cannot_flatten("no-graph", f"what {describe(model)} does when it is called isn't recorded")
    walk = _Walk(allow_lambda)
    root = _Frame()
    # Inputs first: the walk from the outputs wouldn't meet those that no output depends on.
    for key, tensor in _fed_as(functional):
        walk.add_input(root, tensor, key)
    inputs = tuple(range(len(walk.vertices)))
    for tensor in functional.outputs:
        walk.follow(root, tensor)
    layers = walk.records()
    _check_weights(model, walk.operations)
    graph = ArchitectureGraph(
        layers=layers,
        vertices=tuple(walk.vertices),
        inputs=inputs,
        outputs=tuple(root.places[id(tensor)] for tensor in functional.outputs),
        structure=_structure(model, functional, root, walk.has_own_code),
    )
    return FlatModel(graph, tuple(walk.operations))


@dataclass(eq=False)
class _Frame:
    """One inlined call of a model, with the place of its tensors in the flat graph.

    ``places`` and ``specs`` are keyed by ``id(tensor)``: the vertex and slot that compute a tensor, and its shape and
    dtype in this call (a nested model may be called on another shape than it was built for). ``training`` is the mode
    with which all layers are called; None: each is called with its own.
    """

    training: Any = None

    outside: dict[int, tuple[_Frame, Tensor]] = field(default_factory=dict)
    places: dict[int, Place] = field(default_factory=dict)
    specs: dict[int, Tensor] = field(default_factory=dict)
    inner: dict[int, _Frame] = field(default_factory=dict)

    def spec(self, tensor: Tensor) -> Tensor:
        return self.specs.get(id(tensor), tensor)


class _Walk:
    """Collects vertices in post-order, with a stack of (frame, tensor) that are still to be placed."""

    def __init__(self, allow_lambda: bool) -> None:
        self.allow_lambda = allow_lambda
        self.vertices: list[Vertex] = []
        self.operations: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._configs: list[dict[str, JSON]] = []
        self._signatures: list[JSON] = []
        self._calls: dict[tuple[int, int], Call] = {}
        self._known_code: dict[int, str] = {}
        # Objects are identified by `id`, which may be reused after their death: keep those created by the walk alive.
        self._kept: list[Any] = []

    def records(self) -> tuple[LayerRecord, ...]:
        return tuple(
            LayerRecord(operation.name, config, tuple(map(spec_of, weights_of(operation))))
            for operation, config in zip(self.operations, self._configs, strict=True)
        )

    @property
    def has_own_code(self) -> bool:
        """Whether a layer has code that is not part of Keras."""
        return bool(self._known_code)

    def add_input(self, frame: _Frame, tensor: Tensor, key: JSON) -> None:
        found = origin(tensor)
        assert found is not None, "Keras starts every functional model at Input layers"
        call = Call((), {"key": key} if key else {}, None)
        frame.places[id(tensor)] = (self._add(found[0], call, [], [tensor]), found[2])

    def follow(self, frame: _Frame, tensor: Tensor) -> None:
        stack = [(frame, tensor)]
        while stack:
            frame, tensor = stack[-1]
            if id(tensor) in frame.places:
                stack.pop()
                continue
            needed = self._place(frame, tensor)
            # Reversed, so that the first argument is on top: vertices come in the order of a recursive walk.
            stack += reversed(needed)

    def _place(self, frame: _Frame, tensor: Tensor) -> list[tuple[_Frame, Tensor]]:
        """Place a tensor, or return the tensors that have to be placed before it."""
        if id(tensor) in frame.outside:
            return self._from_outside(frame, tensor)
        found = origin(tensor)
        if found is None or found[1].is_input:
            raise cannot_flatten("no-graph", f"the tensor {tensor.name!r} isn't computed from the model's inputs")
        operation, node, slot = found
        functional = _graph_of(operation) if isinstance(operation, keras.Model) else None
        if functional is not None:
            # A frame for each call: a model that is called twice gives each of its layers two vertices.
            inner = frame.inner.get(id(node))
            if inner is None:
                inner = frame.inner[id(node)] = self._enter(frame, operation, functional, node)
            output = functional.outputs[slot]
            if id(output) not in inner.places:
                return [(inner, output)]
            frame.places[id(tensor)] = inner.places[id(output)]
            if inner.spec(output).shape != tensor.shape:
                frame.specs[id(tensor)] = inner.spec(output)
            return []
        # The mode of an outer call replaces a layer's own, so a node may be read as several calls.
        key = (id(node), id(frame.training))
        call = self._calls.get(key)
        if call is None:
            given = node.arguments
            call = self._calls[key] = read_call(operation, given.args, given.kwargs, mode=frame.training)
        needed = [(frame, source) for _, source in call.tensors if id(source) not in frame.places]
        if needed:
            return needed
        outputs = self._outputs(frame, operation, node)
        sources = [frame.places[id(source)] for _, source in call.tensors]
        vertex = self._add(operation, call, sources, outputs)
        for index, output in enumerate(node.outputs):
            frame.places[id(output)] = (vertex, index)
            if outputs[index] is not output:
                frame.specs[id(output)] = outputs[index]
        return []

    def _enter(self, frame: _Frame, model: Any, functional: Any, node: Any) -> _Frame:
        tensors, training = inner_arguments(model, functional, node)
        inner = _Frame(training=training if frame.training is None else frame.training)
        for mine, outer in zip(functional.inputs, tensors, strict=True):
            inner.outside[id(mine)] = (frame, outer)
        self._kept.append(functional)
        return inner

    def _from_outside(self, frame: _Frame, tensor: Tensor) -> list[tuple[_Frame, Tensor]]:
        outer_frame, outer = frame.outside[id(tensor)]
        if id(outer) not in outer_frame.places:
            return [(outer_frame, outer)]
        place = outer_frame.places[id(outer)]
        spec = outer_frame.spec(outer)
        adaptation = adapt(spec, tensor)
        if adaptation is not None:
            operation, node, spec = adaptation
            self._kept.append(operation)
            call = read_call(operation, node.arguments.args, node.arguments.kwargs)
            place = (self._add(operation, call, [place], [spec]), 0)
        frame.places[id(tensor)] = place
        if spec.shape != tensor.shape:
            frame.specs[id(tensor)] = spec
        return []

    def _outputs(self, frame: _Frame, operation: Any, node: Any) -> list[Tensor]:
        """Return the shapes and dtypes of a call's outputs in this frame."""
        if not any(id(source) in frame.specs for source in node.input_tensors):
            return list(node.outputs)
        args, kwargs = node.arguments.convert(
            lambda value: frame.spec(value) if isinstance(value, keras.KerasTensor) else value
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = keras.tree.flatten(operation.compute_output_spec(*args, **kwargs))
        except Exception as error:
            raise cannot_flatten(
                "nested-input",
                f"{describe(operation)}, in a nested model, can't be called on the shapes that flow into it ({error})",
                layer=operation.name,
            ) from error
        # Only shapes can differ: inputs of a nested model are converted to the dtypes that it was built for.
        return [
            keras.KerasTensor(shape.shape, dtype=built.dtype, sparse=built.sparse, ragged=built.ragged)
            for shape, built in zip(found, node.outputs, strict=True)
        ]

    def _add(self, operation: Any, call: Call, sources: list[Place], outputs: list[Tensor]) -> int:
        number = self._numbers.get(id(operation))
        if number is None:
            number = self._numbers[id(operation)] = len(self.operations)
            config = record_config(operation, allow_lambda=self.allow_lambda)
            self.operations.append(operation)
            self._configs.append(config)
            self._signatures.append(layer_signature(operation, config, self._known_code))
        arguments = [path for path, _ in call.tensors]
        commutative = is_commutative(operation, call)
        if commutative:
            # Layers take a list, operations `x1` and `x2`: with one spelling the order shows in no name.
            arguments = [f"inputs/{index}" for index in range(len(arguments))]
        edges = tuple(Edge(*place, path) for place, path in zip(sources, arguments, strict=True))
        text = signature(self._signatures[number], call.constants, outputs)
        self.vertices.append(Vertex(number, text, edges, commutative, call.again))
        return len(self.vertices) - 1


def _graph_of(model: Any) -> Any:
    """Return the functional graph of a model; None for a subclassed model, which has none."""
    functional = functional_of(model)
    if functional is None and isinstance(model, keras.Sequential):
        raise cannot_flatten("not-built", f"{describe(model)} has no Input layer and was not built", model=model.name)
    if functional is not None and not runs_its_graph(model):
        raise cannot_flatten(
            "overridden-call", f"{describe(model)} overrides how a {_kind(model)} model is called", model=model.name
        )
    return functional


def _kind(model: Any) -> str:
    return "Sequential" if isinstance(model, keras.Sequential) else "functional"


def _fed_as(functional: Any) -> list[tuple[JSON, Tensor]]:
    """Return (key, tensor) of each input; the key is its path if inputs are passed by name, else None.

    Keras sorts inputs in a dict by name, so that the name identifies an input, and its position does not.
    """
    inputs, _ = structures(functional)
    found = []
    for path, tensor in keras.tree.flatten_with_path(inputs):
        by_name = any(isinstance(step, str) for step in path)
        found.append(([step if isinstance(step, str) else int(step) for step in path] if by_name else None, tensor))
    return found


def _check_weights(model: keras.Model, operations: list[Any]) -> None:
    owners: dict[int, Any] = {}
    for operation in operations:
        for variable in weights_of(operation):
            other = owners.setdefault(id(variable), operation)
            if other is not operation:
                raise cannot_flatten(
                    "shared-variable",
                    f"{describe(operation)} and {describe(other)} hold the same variable {variable.path!r}",
                    layer=operation.name,
                )
    # They would be neither stored nor loaded, and the model that is loaded would be another.
    outside = [variable.path for variable in model.weights if id(variable) not in owners]
    if outside:
        raise cannot_flatten(
            "weights-outside-graph",
            f"no output depends on {len(outside)} of its weights ({', '.join(map(repr, outside[:3]))})",
            weights=outside[:20],
        )


def _structure(model: keras.Model, functional: Any, root: _Frame, has_own_code: bool) -> JSON:
    inputs, outputs = structures(functional)
    numbers = {id(tensor): index for index, tensor in enumerate(functional.inputs)}

    def of_input(tensor: Tensor) -> JSON:
        return {"$": "edge", "edge": numbers[id(tensor)]}

    def of_output(tensor: Tensor) -> JSON:
        vertex, slot = root.places[id(tensor)]
        return {"$": "edge", "vertex": vertex, "slot": slot}

    return {
        "name": model.name,
        "inputs": encode(inputs, of_input),
        "outputs": encode(outputs, of_output),
        WRITTEN_BY: keras.__version__,
        **({CODE_READ_BY: RUNNING_CODE} if has_own_code else {}),
    }
