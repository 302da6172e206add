"""Read access to a graph of nodes connected by name: edges, order, dependencies, validity."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Self

from daskevo.errors import InvalidMutation
from daskevo.space.candidate import MAX_NAME_CHARACTERS
from daskevo.space.nodes import CellGraph, Layer, Node, source_of
from daskevo.types import JSON

MOST_NODES = 10_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*")

REASONS: dict[str, str] = {
    "missing-node": "Name a node that it has, as `graph.order()` lists them.",
    "cycle": "Take a source that doesn't depend on the target: see `graph.descendants(target)`.",
    "dangling": "Every node needs its inputs and every output its node when a mutation ends.",
    "name-taken": "Give each node its own name.",
    "name": "Use letters, digits, '_', '.' and '-', and begin with a letter or digit.",
    "layer": "Give what `layer(kind, ...)` returns, or a ModelGraph as a cell.",
    "call": "Replace the node, or put a merging layer before it.",
    "chain": "Repeat one node, or a cell made by `group`.",
    "no-match": "Let its `targets` match what the model has.",
    "size": f"At most {MOST_NODES} are allowed.",
}
"""Reason why a graph can't be changed -> advice."""


@dataclass(frozen=True)
class Primitive:
    """One change of a graph.

    Parameters
    ----------
    primitive:
        ``create``, ``delete``, ``replace``, ``connect``, ``disconnect``, ``insert after``, ``change input``,
        ``repeat`` or ``group``.
    nodes:
        Names of the nodes concerned.
    mutator, at:
        The mutator and its match; None and empty if the graph was changed by hand.
    choices:
        Choices made by the mutator so far, in this application.
    """

    primitive: str
    nodes: tuple[str, ...]
    mutator: str | None
    at: tuple[str, ...]
    choices: Mapping[str, JSON]


@dataclass
class Acting:
    """The mutator that is changing a graph now."""

    mutator: str | None = None
    at: tuple[str, ...] = ()
    prefix: str = ""
    choices: Mapping[str, JSON] = field(default_factory=dict)


class Wiring(CellGraph):
    """The read part of :class:`~daskevo.space.ModelGraph`.

    Parameters
    ----------
    name:
        The model's name.
    """

    def __init__(self, name: str = "model") -> None:
        self.name = name
        self.inputs: tuple[str, ...] = ()
        self.outputs: tuple[str, ...] = ()
        self.structure: JSON = None
        self.history: tuple[Primitive, ...] = ()
        self._nodes: dict[str, Node] = {}
        self._base: dict[str, Node] = {}
        self._acting = Acting()

    def __getitem__(self, name: str) -> Node:
        try:
            return self._nodes[name]
        except (KeyError, TypeError):
            raise self.error("missing-node", f"it has no node {name!r:.80}", (str(name),)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def __repr__(self) -> str:
        return f"ModelGraph({self.name!r}, {len(self)} nodes)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wiring) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    def order(self) -> tuple[str, ...]:
        """Return the names of all nodes in topological order, which is the same for equal graphs."""
        # Iterative, since a graph may be deeper than Python's recursion limit; the fixed starts make the order unique.
        found: dict[str, None] = {}
        ends = (source_of(place)[0] for place in self.outputs)
        for start in (*self.inputs, *ends, *sorted(self._nodes)):
            # A node goes to the result when all its sources are there; until then it stays on the stack below them.
            stack = [start]
            while stack:
                name = stack[-1]
                waiting = [] if name in found else [before for before in self.sources(name) if before not in found]
                if waiting:
                    stack += reversed(waiting)
                else:
                    found[stack.pop()] = None
        return tuple(found)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes in topological order."""
        return tuple(self._nodes[name] for name in self.order())

    def sources(self, name: str) -> tuple[str, ...]:
        """Return the nodes that a node depends on: its inputs, and the owner of a shared layer."""
        node = self[name]
        owner = () if node.shares is None else (node.shares,)
        return (*owner, *(source_of(place)[0] for place in node.inputs))

    def consumers(self, name: str) -> tuple[str, ...]:
        """Return the nodes that take a node's output."""
        # Raises if there is no such node.
        self[name]
        return tuple(
            other for other, node in self._nodes.items() if any(source_of(place)[0] == name for place in node.inputs)
        )

    def is_output(self, name: str) -> bool:
        """Tell whether an output of the model comes from a node."""
        return any(source_of(place)[0] == name for place in self.outputs)

    def descendants(self, *names: str) -> frozenset[str]:
        """Return all nodes that depend on one of these nodes, directly or indirectly."""
        after: dict[str, list[str]] = {}
        for other in self._nodes:
            for source in self.sources(other):
                after.setdefault(source, []).append(other)
        found: set[str] = set()
        stack = [self[name].name for name in names]
        while stack:
            for other in after.get(stack.pop(), ()):
                if other not in found:
                    found.add(other)
                    stack.append(other)
        return frozenset(found)

    @property
    def untouched(self) -> tuple[str, ...]:
        """Nodes with the same layer and inputs as in the base model."""
        return tuple(name for name, node in self._nodes.items() if self._base.get(name) == node)

    def digest(self) -> str:
        """Return a digest of nodes, inputs and outputs, equal for equal graphs in every process."""
        parts = [
            [
                node.name,
                node.layer.key if isinstance(node.layer, Layer) else node.layer.digest(),
                list(node.inputs),
                node.call,
                node.shares,
            ]
            for node in self.nodes
        ]
        # Without the graph's name and history: two ways to the same graph give equal graphs.
        text = repr([parts, self.inputs, self.outputs, self.structure])
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def check(self) -> None:
        """Check that every node has its inputs and every output its node.

        Raises
        ------
        InvalidMutation
            With reason ``dangling``.
        """
        for name, node in self._nodes.items():
            if not node.inputs and name not in self.inputs and (name in self.needed() or not self.outputs):
                raise self.error("dangling", f"node {name!r} has no input", (name,))
            if isinstance(node.layer, Wiring) and len(node.layer.inputs) != len(node.inputs):
                raise self.error(
                    "dangling",
                    f"cell {name!r} has {len(node.layer.inputs)} inputs, and {len(node.inputs)} flow into it",
                    (name,),
                )
        if not self.outputs:
            raise self.error("dangling", "it has no output", ())

    def needed(self) -> set[str]:
        """Return the nodes that an output depends on."""
        found: set[str] = set()
        stack = [source_of(place)[0] for place in self.outputs]
        while stack:
            name = stack.pop()
            if name not in found:
                found.add(name)
                stack += self.sources(name)
        return found

    # -- for code that changes the graph ---------------------------------------------------------------------------

    def copy(self) -> Self:
        """Return an independent copy."""
        other = type(self)(self.name)
        other.inputs, other.outputs, other.structure = self.inputs, self.outputs, self.structure
        # Nodes are immutable, so a shallow copy is independent.
        other.history, other._nodes, other._base = self.history, dict(self._nodes), self._base
        return other

    def put(self, node: Node) -> str:
        """Add a node, or replace the one with its name; return the name."""
        if not isinstance(node.layer, (Layer, Wiring)):
            raise self.error("layer", f"node {node.name!r} calls a {type(node.layer).__name__}", (node.name,))
        if node.name not in self._nodes and len(self._nodes) >= MOST_NODES:
            raise self.error("size", f"it has {len(self._nodes)} nodes", ())
        self._nodes[node.name] = node
        return node.name

    def drop(self, name: str) -> None:
        """Remove a node."""
        del self._nodes[name]

    def move(self, moved: Callable[[str], str], apart: Container[str] = ()) -> None:
        """Rewire all inputs, except of nodes in `apart`, and the outputs, to where `moved` maps them."""
        for name, node in self._nodes.items():
            inputs = tuple(map(moved, node.inputs))
            # Only values change while the dict is iterated over, not its keys.
            if inputs != node.inputs and name not in apart:
                self._nodes[name] = replace(node, inputs=inputs)
        self.outputs = tuple(map(moved, self.outputs))

    def new_name(self, name: str) -> str:
        """Return the name for a new node."""
        # A mutator may apply at many places with the same names; a user by hand should learn of a name that is taken.
        if self._acting.mutator is not None:
            return self.free_name(f"{self._acting.prefix}{name}")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARACTERS:
            raise self.error("name", f"{name!r:.80} is no name for a node", (str(name)[:80],))
        if name in self._nodes:
            raise self.error("name-taken", f"there is a node {name!r}", (name,))
        return name

    def free_name(self, name: str) -> str:
        """Return the name, with a number appended if it is taken."""
        found, number = name, 2
        while found in self._nodes:
            found, number = f"{name}.{number}", number + 1
        return found

    def error(self, reason: str, found: str, nodes: tuple[str, ...]) -> InvalidMutation:
        by = f" (mutator {self._acting.mutator!r} at {list(self._acting.at)})" if self._acting.mutator else ""
        return InvalidMutation(
            f"graph {self.name!r} can't be changed so{by}: {found}. {REASONS[reason]}", reason=reason, nodes=nodes
        )
