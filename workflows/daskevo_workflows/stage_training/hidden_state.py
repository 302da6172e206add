"""Find the variables that a traced training step changes and that no snapshot holds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

_WRITES = re.compile(r"Assign(Add|Sub)?Variable|Resource(Sparse)?Apply|ResourceScatter|ResourceStridedSliceAssign")
"""TensorFlow's operations that write into a variable, which is their first input."""
_PASSED_BEHIND_ONE = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
"""Operations whose functions get their inputs without the first."""


def changed_elsewhere(concrete: Any, known: Iterable[Any]) -> list[str]:
    """Return the names of the variables that a function changes and that aren't among those known.

    Parameters
    ----------
    concrete:
        TensorFlow's concrete function of a step.
    known:
        TensorFlow variables that are saved.
    """
    graph = concrete.graph
    definition = graph.as_graph_def()
    functions = {function.signature.name: function for function in definition.library.function}
    written = _written(definition.node, functions, {})
    saved = {id(variable.handle) for variable in known if hasattr(variable, "handle")}
    names = {id(variable.handle): variable.name for variable in graph.variables}
    return sorted(
        names.get(id(outside), "a variable without a name")
        for outside, inside in graph.captures
        if inside.op.name in written and id(outside) not in saved
    )


def _written(nodes: Iterable[Any], functions: Mapping[str, Any], seen: dict[str, Collection[int]]) -> set[str]:
    """Return the names of the nodes whose resource some node changes, by itself or in a function that it calls."""
    nodes = list(nodes)
    sources = {node.name: node for node in nodes}
    found = set()
    for node in nodes:
        # Inputs with ^ order operations, and carry no value.
        inputs = [_origin(text, sources) for text in node.input if not text.startswith("^")]
        if _WRITES.match(node.op) and inputs:
            found.add(inputs[0])
        first = 1 if node.op in _PASSED_BEHIND_ONE else 0
        for name in _called(node):
            if name in functions:
                places = _places(name, functions, seen)
                found |= {inputs[first + place] for place in places if first + place < len(inputs)}
    return found


def _places(name: str, functions: Mapping[str, Any], seen: dict[str, Collection[int]]) -> Collection[int]:
    """Return which arguments of a function of the library it changes."""
    if name not in seen:
        seen[name] = ()  # one that calls itself adds nothing
        function = functions[name]
        written = _written(function.node_def, functions, seen)
        seen[name] = [place for place, argument in enumerate(function.signature.input_arg) if argument.name in written]
    return seen[name]


def _called(node: Any) -> Iterator[str]:
    for value in node.attr.values():
        if value.func.name:
            yield value.func.name
        for function in value.list.func:
            yield function.name


def _origin(text: str, sources: Mapping[str, Any]) -> str:
    """Return the node that an input comes from, through those that only hand it on."""
    # NAME:NUMBER is one of several outputs of NAME.
    name = text.partition(":")[0]
    while name in sources and sources[name].op in ("Identity", "IdentityN") and len(sources[name].input) == 1:
        name = sources[name].input[0].partition(":")[0]
    return name
