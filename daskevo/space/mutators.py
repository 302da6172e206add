"""Mutators: changes of a model, defined separately from the model. Source: paper 003, section 3 and 7.1."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from daskevo.errors import InvalidInput
from daskevo.space.builder import Choose, source_digest
from daskevo.space.choice import check_space_name
from daskevo.space.matching import Match, NodePattern, Pattern
from daskevo.space.model_graph import ModelGraph
from daskevo.space.nodes import Layer, source_of
from daskevo.types import JSON, check_json

Operator = Layer | ModelGraph | None
"""What a mutator puts at a place: a layer, a cell, or nothing."""


class Mutator(ABC):
    """One kind of change to a model: where it applies, and what it does there.

    Subclasses set `targets` and define `mutate`, in plain Python.

    Parameters
    ----------
    name:
        Distinguishes it from other mutators of a space; None: the name of the class.

    Examples
    --------
    >>> from daskevo.space import layer, of_kind
    >>> class Widen(Mutator):
    ...     targets = of_kind("Dense")
    ...
    ...     def mutate(self, graph, match, choose):
    ...         units = choose("units", (16, 32, 64))
    ...         graph.replace(match.node, graph[match.node].layer.changed(units=units))
    """

    targets: Pattern
    """Where it applies."""

    def __init__(self, name: str | None = None) -> None:
        self.name = check_space_name(type(self).__name__ if name is None else name, "mutator")

    @abstractmethod
    def mutate(self, graph: ModelGraph, match: Match, choose: Choose) -> None:
        """Change a graph at one place.

        Parameters
        ----------
        graph:
            The graph to change with its primitives. New nodes get the place's name as a prefix.
        match:
            The place; its nodes are in the graph.
        choose:
            Makes a choice, as in a builder. Names need to be unique only within this call; mutator and place are added.

        Raises
        ------
        CandidateRejected
            If the chosen options are incompatible.
        """

    def matches(self, graph: ModelGraph) -> list[Match]:
        """Return the places where it applies, in graph order."""
        return self.targets.find(graph)

    def apply(self, graph: ModelGraph, choose: Choose) -> ModelGraph:
        """Return a copy of a graph, changed at all matching places.

        Places whose nodes are gone because of a change at an earlier place are skipped.
        """
        graph = graph.copy()
        for match in self.matches(graph):
            # Matches are found once, before the first change: a mutator must not apply to what it has made itself.
            if all(name in graph for name in match.nodes):
                self.act(graph, match, choose, f"{self.name}/{match}/", f"{match}.")
        return graph

    def act(self, graph: ModelGraph, match: Match, choose: Choose, choices: str, nodes: str) -> None:
        """Change a graph at one place, with prefixes for the names of choices and nodes.

        Raises
        ------
        InvalidMutation
            If an edge or output is left dangling, or the graph can't take the change.
        """
        chosen: dict[str, JSON] = {}

        def ask(name: str, options: Sequence[JSON]) -> Any:
            chosen[name] = choose(f"{choices}{name}", options)
            return chosen[name]

        with graph.acting(self.name, match.nodes, nodes, chosen):
            self.mutate(graph, match, ask)
            graph.check()

    def to_json(self) -> JSON:
        """Return the mutator's identity: its class, the class' source if it is the user's, and its settings."""
        module = type(self).__module__
        # Without the source of our own classes, since a run may be resumed with a later daskevo.
        is_ours = module.partition(".")[0] in ("daskevo", "daskevo_workflows")
        return {
            "class": f"{module}.{type(self).__qualname__}",
            "source": None if is_ours else source_digest(type(self)),
            "targets": described(self.targets),
            **{name: described(value) for name, value in vars(self).items() if not name.startswith("_")},
        }


def described(value: Any) -> JSON:
    """Return a mutator's setting as a JSON value that identifies it.

    Raises
    ------
    InvalidInput
        If it is not a JSON value, layer, graph, pattern, function or mutator.
    """
    if isinstance(value, Layer):
        return value.key
    if isinstance(value, ModelGraph):
        return value.digest()
    if isinstance(value, (Pattern, Mutator)):
        return value.to_json()
    if isinstance(value, Mapping):
        return [[str(key), described(item)] for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [described(item) for item in value]
    if callable(value):
        return source_digest(value)
    check_json(value, "a setting of a mutator")
    return value


def operators_of(operators: Mapping[str, Operator] | Iterable[Layer | None]) -> dict[str, Operator]:
    """Return the operators of a mutator by label.

    Raises
    ------
    InvalidInput
        If there is none, one is not a layer or cell, or two have the same label.
    """
    if isinstance(operators, Mapping):
        named = list(operators.items())
    else:
        named = [(_label(operator), operator) for operator in operators]
    found = dict(named)
    if not found or len(found) < len(named):
        raise InvalidInput("a mutator needs operators to choose from, and no two with the same label")
    for label, operator in found.items():
        if type(label) is not str or not isinstance(operator, (Layer, ModelGraph, type(None))):
            raise InvalidInput(
                f"operator {label!r:.80} is a {type(operator).__name__}, not what layer() returns or a cell"
            )
    return found


def _label(operator: Any) -> str:
    if operator is None:
        return "none"
    if isinstance(operator, ModelGraph):
        return operator.name
    if not isinstance(operator, Layer):
        raise InvalidInput(f"an operator is what layer() returns, a cell, or None, not {operator!r:.80}")
    settings = ", ".join(f"{key}={value}" for key, value in operator.config.items())
    return f"{operator.kind}({settings})"


class OperatorMutator(Mutator):
    """Replaces each match by one of several operators.

    Parameters
    ----------
    targets:
        Single nodes.
    operators:
        label -> layer, cell, or None to delete the node; or only the layers.
    keep:
        Whether keeping the node is an option too, the first.
    """

    def __init__(
        self,
        targets: Pattern,
        operators: Mapping[str, Operator] | Iterable[Layer | None],
        *,
        keep: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.targets = targets
        self.operators = operators_of(operators)
        self.keep = keep
        if keep and "as it is" in self.operators:
            raise InvalidInput("'as it is' is the label of the node as it is")

    def mutate(self, graph: ModelGraph, match: Match, choose: Choose) -> None:
        label = choose("operator", [*(["as it is"] if self.keep else []), *self.operators])
        if label not in self.operators:
            return
        operator = self.operators[label]
        if operator is None:
            graph.delete(match.node)
        else:
            graph.replace(match.node, operator)


class InsertingMutator(Mutator):
    """Inserts one of several operators after each match.

    Parameters
    ----------
    targets:
        Single nodes, or chains, and then after the last node.
    operators:
        label -> layer, cell, or None for nothing; or only the layers.
    """

    def __init__(
        self,
        targets: Pattern,
        operators: Mapping[str, Operator] | Iterable[Layer | None],
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.targets = targets
        self.operators = operators_of(operators)

    def mutate(self, graph: ModelGraph, match: Match, choose: Choose) -> None:
        operator = self.operators[choose("operator", list(self.operators))]
        if operator is not None:
            graph.insert_after(match.nodes[-1], operator, "inserted")


class InputMutator(Mutator):
    """Connects each input of a match to another node that doesn't depend on it.

    Parameters
    ----------
    targets:
        Single nodes.
    sources:
        Nodes that may become inputs, besides the current one; None: all. The model's inputs are always included.
    """

    def __init__(self, targets: Pattern, sources: NodePattern | None = None, *, name: str | None = None) -> None:
        super().__init__(name)
        self.targets = targets
        self.sources = sources

    def mutate(self, graph: ModelGraph, match: Match, choose: Choose) -> None:
        for index, place in enumerate(graph[match.node].inputs):
            source = choose(f"input {index}", self._possible(graph, match.node, place))
            if source != place:
                graph.change_input(match.node, index, source)

    def _possible(self, graph: ModelGraph, name: str, place: str) -> list[str]:
        # A source that depends on the node would close a cycle.
        later = {name, *graph.descendants(name)}
        found = [
            node.name
            for node in graph.nodes
            if node.name not in later and (node.name in graph.inputs or self.sources is None or self.sources.test(node))
        ]
        current = source_of(place)[0]
        # The present source is always an option, and with its slot, so that a graph can stay as it is.
        return [place if each == current else each for each in found] if current in found else [place, *found]
