"""Which shapes a layer makes of which, asked of Keras once for each layer and input, as candidates repeat them."""

from __future__ import annotations

import json
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import keras

from daskevo.errors import CandidateRejected, InvalidInput
from daskevo.models.calls import call_again
from daskevo.models.model_graphs import brief, full_call, made_layer
from daskevo.models.shape_only import shape_only
from daskevo.space import Layer, ModelGraph, Node
from daskevo.space.nodes import source_of

REMEMBERED = 20_000


@dataclass(frozen=True, slots=True)
class Spec:
    """Shape and dtype of a tensor; the first dimension is the batch's, None where a size isn't known."""

    shape: tuple[int | None, ...]
    dtype: str

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return "x".join("?" if size is None else str(size) for size in self.shape[1:]) or "scalar"


class Misfit(Exception):
    """A layer can't be called on such an input; the message is Keras'."""


_known: OrderedDict[tuple[Any, ...], tuple[Spec, ...] | str] = OrderedDict()


def output_specs(
    node: Node, inputs: tuple[Spec, ...], first: tuple[Node, tuple[Spec, ...]] | None = None
) -> tuple[Spec, ...]:
    """Return what a node's layer makes of its inputs.

    Parameters
    ----------
    node:
        Calls a layer, not a cell.
    inputs:
        What flows into it. # (n_inputs,)
    first:
        The earlier call of the same layer, with its inputs, if it is shared: that one gives its weights their shapes.

    Raises
    ------
    Misfit
        If it can't be called so.
    InvalidInput
        If there is no such layer, or its arguments make none.
    """
    layer = node.layer
    assert isinstance(layer, Layer)
    call = json.dumps(full_call(node))
    before = None if first is None else (json.dumps(full_call(first[0])), first[1])
    key = (layer.key, call, inputs, before)
    found = _known.get(key)
    if found is None:
        # Errors are remembered too: what doesn't fit is proposed as often as what does.
        found = _known[key] = _asked(node, inputs, first)
        while len(_known) > REMEMBERED:
            _known.popitem(last=False)
    if isinstance(found, str):
        raise Misfit(found)
    return found


def _asked(node: Node, inputs: tuple[Spec, ...], first: tuple[Node, tuple[Spec, ...]] | None) -> tuple[Spec, ...] | str:
    with warnings.catch_warnings(), shape_only():
        warnings.simplefilter("ignore")
        try:
            made = made_layer(node, "asked")
        except Exception as error:
            raise InvalidInput(
                f"{node.kind} {node.name!r} can't be made: {brief(error)}. Its arguments are {dict(node.config)!r:.200}"
            ) from error
        if isinstance(made, keras.layers.InputLayer):
            return (_spec(made.output),)
        try:
            if first is not None:
                call_again(made, full_call(first[0]), list(map(_tensor, first[1])))
            return tuple(_spec(output) for output in call_again(made, full_call(node), list(map(_tensor, inputs))))
        except Exception as error:  # noqa: BLE001 - layers of anybody may raise anything
            return brief(error)


def _tensor(spec: Spec) -> Any:
    return keras.KerasTensor(spec.shape, dtype=spec.dtype)


def _spec(tensor: Any) -> Spec:
    return Spec(tuple(tensor.shape), str(tensor.dtype))


def all_specs(graph: ModelGraph) -> dict[str, tuple[Spec, ...]]:
    """Return what each node makes, cells expanded; raises CandidateRejected at the first that doesn't fit."""
    specs: dict[str, tuple[Spec, ...]] = {}
    graph = graph.expanded()
    for node in graph.nodes:
        try:
            specs[node.name] = output_specs(node, inputs_of(node, specs), first_call(graph, node, specs))
        except Misfit as error:
            raise CandidateRejected(f"{node.kind} {node.name!r} can't be called there: {error}") from error
    return specs


def inputs_of(node: Node, specs: dict[str, tuple[Spec, ...]]) -> tuple[Spec, ...]:
    """Return what flows into a node, given what the others make."""
    return tuple(spec_at(place, specs) for place in node.inputs)


def spec_at(place: str, specs: dict[str, tuple[Spec, ...]]) -> Spec:
    """Return what flows from a place."""
    name, slot = source_of(place)
    if slot >= len(specs[name]):
        raise CandidateRejected(f"{name!r} has {len(specs[name])} outputs, and no output {slot}", nodes=(name,))
    return specs[name][slot]


def first_call(
    graph: ModelGraph, node: Node, specs: dict[str, tuple[Spec, ...]]
) -> tuple[Node, tuple[Spec, ...]] | None:
    """Return the call that gave a shared layer its weights; None of the layer's first call."""
    return None if node.shares is None else (graph[node.shares], inputs_of(graph[node.shares], specs))
