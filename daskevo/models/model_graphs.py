"""Keras models as the graphs that mutators change, and back; by configurations alone, no code is stored or run."""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import keras

from daskevo.errors import CandidateRejected, CannotRebuild, InvalidInput
from daskevo.graph import ArchitectureGraph, LayerRecord
from daskevo.models.calls import call_again
from daskevo.models.config_vetting import vet
from daskevo.models.flatten import flatten
from daskevo.models.keras_private import Tensor, fresh_names
from daskevo.models.rebuild import compare, give_alpha, make_layer
from daskevo.models.shape_only import shape_only
from daskevo.models.stored_code import warn_once
from daskevo.models.values import decode
from daskevo.space import Layer, ModelGraph, Node
from daskevo.space.nodes import place_of, source_of
from daskevo.types import JSON


def graph_of(model: keras.Model | Callable[[], keras.Model]) -> ModelGraph:
    """Return the graph of a model, for mutators.

    Nodes have the names of the layers, nested models inlined. Names that Keras numbered are numbered anew, from
    ``dense`` on: they depend on what else was made in the process.

    Parameters
    ----------
    model:
        A functional or Sequential model that is built, or a function that makes one: then nothing is made but shapes,
        and names are numbered as in a fresh process.

    Raises
    ------
    CannotFlatten
        As :func:`~daskevo.models.flatten`.
    CannotRebuild
        If the model made again of the layers' configurations isn't the same, as of one that was quantised.
    InvalidInput
        If it is no Keras model, and makes none.
    """
    made = model
    if not isinstance(made, keras.Model) and callable(made):
        with fresh_names(), shape_only():
            made = made()
    if not isinstance(made, keras.Model):
        raise InvalidInput(f"a base is a Keras model, or a function without arguments that makes one, not {made!r:.80}")
    flat = flatten(made).graph
    graph = ModelGraph(_usable(str(_named(flat))))
    # A function was called with fresh numbers; names in a model that was passed depend on what else the process made.
    names = _names(flat, renumber=made is model)
    owners: dict[int, str] = {}
    for vertex, name in zip(flat.vertices, names, strict=True):
        owner = owners.setdefault(vertex.layer, name)
        inputs = tuple(place_of(names[edge.source], edge.slot) for edge in vertex.edges)
        layer = _layer(flat.layers[vertex.layer])
        shares = None if owner == name else owner
        graph.put(Node(name, layer, inputs, _short_call(vertex.call, inputs), shares))
    graph.inputs = tuple(names[position] for position in flat.inputs)
    graph.outputs = tuple(place_of(names[vertex], slot) for vertex, slot in flat.outputs)
    graph.structure = _structure(flat)
    # Mutators change this graph: if a configuration left something out, all candidates would differ from their base.
    _check_same(graph, flat)
    return graph.as_base()


def _check_same(graph: ModelGraph, flat: ArchitectureGraph) -> None:
    with shape_only():
        try:
            again = model_of(graph)
        except CandidateRejected as error:
            raise CannotRebuild(f"the base model can't be made again of its layers' configurations: {error}") from error
        warn_once(compare(flat, flatten(again).graph), f"the base model {graph.name!r}")


def model_of(graph: ModelGraph) -> keras.Model:
    """Return a fresh Keras model of a graph, cells inlined; layers have the names of their nodes.

    Raises
    ------
    InvalidMutation
        If something in it is left dangling.
    CannotRebuild
        If a layer names code that is neither Keras' own nor registered.
    CandidateRejected
        If Keras refuses a layer's arguments or input, with what it says.
    """
    graph.check()
    graph = graph.expanded()
    made: dict[str, Any] = {}
    tensors: dict[str, list[Tensor]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on names and masks that the base's author saw already
        for node in graph.nodes:
            try:
                made[node.name] = made_layer(node, node.name) if node.shares is None else made[node.shares]
                sources = [_tensor(tensors, place) for place in node.inputs]
                if node.name in graph.inputs:
                    tensors[node.name] = [made[node.name].output]
                else:
                    tensors[node.name] = call_again(made[node.name], full_call(node), sources)
                    if isinstance(node.layer, Layer):
                        give_alpha(made[node.name], node.layer.to_json())
            except CannotRebuild:
                raise
            except Exception as error:
                raise CandidateRejected(
                    f"{node.kind} {node.name!r} can't be called there: {brief(error)}", nodes=(node.name,)
                ) from error
        return _model(graph, tensors)


def _model(graph: ModelGraph, tensors: dict[str, list[Tensor]]) -> keras.Model:
    inputs = [tensors[name][0] for name in graph.inputs]
    outputs = [_tensor(tensors, place) for place in graph.outputs]
    nested: dict[str, Any] = {"inputs": inputs, "outputs": outputs}
    if graph.structure is not None:
        nested = {
            "inputs": decode(graph.structure["inputs"], lambda part: inputs[part["edge"]]),
            "outputs": decode(graph.structure["outputs"], lambda part: outputs[part["edge"]]),
        }
    elif len(outputs) == 1:
        nested["outputs"] = outputs[0]
    return keras.Model(**nested, name=graph.name)


def made_layer(node: Node, name: str) -> Any:
    """Return the layer that a node calls first, under a name; raises CannotRebuild if it names unknown code."""
    assert isinstance(node.layer, Layer)
    recorded = node.layer.to_json()
    # Graphs may come from a record, and a record from anywhere.
    vet(recorded, {}, node.name)
    return make_layer(recorded, name)


def full_call(node: Node) -> JSON:
    """Return how a node's layer is called, as a record has it."""
    if node.call not in (None, "list"):
        return node.call
    edges = [{"$": "edge", "edge": index} for index in range(len(node.inputs))]
    return {"args": [edges] if node.takes_list or len(edges) != 1 else edges, "kwargs": {}}


def brief(error: Exception) -> str:
    """Return the first lines of what Keras says."""
    # Where one error is told within another, the innermost says what is wrong.
    told = str(error).rpartition("Exception encountered: ")[2]
    text = " ".join(line.strip() for line in told.splitlines() if line.strip())
    return text[:300] or type(error).__name__


def _tensor(tensors: dict[str, list[Tensor]], place: str) -> Tensor:
    name, slot = source_of(place)
    if slot >= len(tensors[name]):
        raise ValueError(f"{name!r} has {len(tensors[name])} outputs, and no output {slot}")
    return tensors[name][slot]


def _layer(record: LayerRecord) -> Layer:
    config: Any = record.config
    arguments = {key: value for key, value in config["config"].items() if key != "name"}
    return Layer(config["class_name"], arguments, config.get("module"), config.get("registered_name"))


def _short_call(call: JSON, inputs: Sequence[str]) -> JSON:
    """Return None for a call with one tensor alone, ``"list"`` for one with a list of them, else the call."""
    free = set(range(len(inputs)))

    def apart(part: Any) -> Any:
        """Name each input once: the same tensor twice is two inputs, and either may be changed."""
        if isinstance(part, list):
            return [apart(value) for value in part]
        if not isinstance(part, dict):
            return part
        if part.get("$") != "edge":
            return {key: apart(value) for key, value in part.items()}
        edge = part["edge"]
        if edge not in free:
            edge = min((other for other in free if inputs[other] == inputs[edge]), default=edge)
        free.discard(edge)
        return {"$": "edge", "edge": edge}

    call = apart(call)
    edges = [{"$": "edge", "edge": index} for index in range(len(inputs))]
    if call in ({"args": edges, "kwargs": {}}, {"args": [], "kwargs": {}}) and len(edges) <= 1:
        return None
    return "list" if call == {"args": [edges], "kwargs": {}} else call


def _named(flat: ArchitectureGraph) -> str:
    structure: Any = flat.structure
    return str(structure["name"])


def _structure(flat: ArchitectureGraph) -> JSON:
    structure: Any = flat.structure
    positions = {place: index for index, place in reversed(list(enumerate(flat.outputs)))}

    def renumbered(part: Any) -> Any:
        if isinstance(part, dict):
            if part.get("$") == "edge":
                return {"$": "edge", "edge": positions[part["vertex"], part["slot"]]}
            return {key: renumbered(value) for key, value in part.items()}
        return [renumbered(value) for value in part] if isinstance(part, list) else part

    return {"inputs": structure["inputs"], "outputs": renumbered(structure["outputs"])}


def _usable(name: str) -> str:
    """Return a name without the characters that stand for something else, here or in Keras."""
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", name).lstrip("_.-") or "layer"


def _names(flat: ArchitectureGraph, *, renumber: bool) -> list[str]:
    """Return a name for each vertex; no two are equal."""
    layers = [_usable(record.name) for record in flat.layers]
    if renumber:
        layers = _renumbered(layers, [str(record.config["class_name"]) for record in flat.layers])
    taken: set[str] = set()
    calls: defaultdict[int, int] = defaultdict(int)
    found = []
    for vertex in flat.vertices:
        calls[vertex.layer] += 1
        again = f".call{calls[vertex.layer]}" if calls[vertex.layer] > 1 else ""
        name = wanted = f"{layers[vertex.layer]}{again}"
        number = 2
        while name in taken:
            name, number = f"{wanted}.{number}", number + 1
        taken.add(name)
        found.append(name)
    return found


def _renumbered(names: Sequence[str], kinds: Sequence[str]) -> list[str]:
    numbers: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        stem = snake_case(kind)
        if match := re.fullmatch(rf"{re.escape(stem)}(?:_(\d+))?", name):
            numbers[stem].append((int(match[1] or 0), place))
    found = list(names)
    for stem, places in numbers.items():
        for count, (_, place) in enumerate(sorted(places)):
            found[place] = f"{stem}_{count}" if count else stem
    return found


def snake_case(kind: str) -> str:
    """Return the name that Keras gives the first layer of a class."""
    name = re.sub(r"\W+", "", kind)
    return re.sub("([a-z])([A-Z])", r"\1_\2", re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)).lower()
