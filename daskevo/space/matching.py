"""Patterns that select where a mutator applies: single nodes, chains of nodes, and regions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from daskevo.errors import InvalidInput
from daskevo.space.builder import source_digest
from daskevo.space.model_graph import ModelGraph
from daskevo.space.nodes import Node
from daskevo.types import JSON


@dataclass(frozen=True)
class Match:
    """A place that a pattern found.

    Parameters
    ----------
    nodes:
        Names, in graph order. # (n_nodes,), at least 1
    """

    nodes: tuple[str, ...]

    @property
    def node(self) -> str:
        """The first node; the only one, unless the pattern is a chain or a region."""
        return self.nodes[0]

    def __str__(self) -> str:
        return self.node


class Pattern(ABC):
    """Finds places in a graph."""

    @abstractmethod
    def find(self, graph: ModelGraph) -> list[Match]:
        """Return the matches in graph order; no two share a node."""

    @abstractmethod
    def to_json(self) -> JSON:
        """Return a description that differs between different patterns."""


class NodePattern(Pattern):
    """Finds single nodes by a test; made by :func:`of_kind`, :func:`named` and :func:`where`, combined by & | ~.

    Examples
    --------
    >>> from daskevo.space import cell_of, layer
    >>> graph = cell_of(layer("Dense", units=8), layer("Dropout", rate=0.5), layer("Dense", units=4))
    >>> [match.node for match in (of_kind("Dense") & ~where(lambda node: node.config["units"] == 8)).find(graph)]
    ['dense.2']
    """

    def __init__(self, test: Callable[[Node], bool], text: JSON) -> None:
        self.test = test
        self._text = text

    def find(self, graph: ModelGraph) -> list[Match]:
        # The model's inputs can't be mutated.
        return [Match((node.name,)) for node in graph.nodes if node.name not in graph.inputs and self.test(node)]

    def to_json(self) -> JSON:
        return self._text

    def __and__(self, other: NodePattern) -> NodePattern:
        return NodePattern(lambda node: self.test(node) and other.test(node), ["and", self._text, other._text])

    def __or__(self, other: NodePattern) -> NodePattern:
        return NodePattern(lambda node: self.test(node) or other.test(node), ["or", self._text, other._text])

    def __invert__(self) -> NodePattern:
        return NodePattern(lambda node: not self.test(node), ["not", self._text])


def of_kind(*kinds: str) -> NodePattern:
    """Match nodes by the class of their layer: ``of_kind("Conv2D", "SeparableConv2D")``; a cell is a ``"Cell"``."""
    _check_words(kinds, "layer types")
    return NodePattern(lambda node: node.kind in kinds, ["kind", *kinds])


def named(*globs: str) -> NodePattern:
    """Match nodes by name, with ``*``, ``?`` and ``[...]`` as in file names: ``named("block*_add")``."""
    _check_words(globs, "names")
    return NodePattern(lambda node: any(fnmatchcase(node.name, glob) for glob in globs), ["name", *globs])


def where(test: Callable[[Node], bool]) -> NodePattern:
    """Match nodes by a test: ``where(lambda node: node.config.get("strides") == [2, 2])``."""
    if not callable(test):
        raise InvalidInput(f"`where` takes a function of a node, not {test!r:.80}")
    return NodePattern(test, ["where", source_digest(test)])


def _check_words(words: tuple[str, ...], what: str) -> None:
    if not words or not all(isinstance(word, str) and word for word in words):
        raise InvalidInput(f"a pattern needs {what} as strings, at least one, not {words!r:.80}")


class Chain(Pattern):
    """Consecutive nodes, each being the only consumer of the one before, which is its only input.

    Parameters
    ----------
    *links:
        Patterns of the nodes, in order.

    Examples
    --------
    >>> from daskevo.space import cell_of, layer
    >>> graph = cell_of(layer("Conv2D", filters=8), layer("ReLU"), layer("Conv2D", filters=8))
    >>> [match.nodes for match in Chain(of_kind("Conv2D"), of_kind("ReLU")).find(graph)]
    [('conv2d', 'relu')]
    """

    def __init__(self, *links: NodePattern) -> None:
        if len(links) < 2 or not all(isinstance(link, NodePattern) for link in links):
            raise InvalidInput("a chain is made of two or more patterns of nodes")
        self.links = links

    def find(self, graph: ModelGraph) -> list[Match]:
        return _apart(self._from(graph, match.node) for match in self.links[0].find(graph))

    def _from(self, graph: ModelGraph, name: str) -> tuple[str, ...]:
        found = [name]
        for link in self.links[1:]:
            # An output of the model is read by its user, so a node with one consumer may still have another reader.
            after = graph.consumers(found[-1])
            if len(after) != 1 or graph[after[0]].inputs != (found[-1],) or graph.is_output(found[-1]):
                return ()
            if not link.test(graph[after[0]]):
                return ()
            found.append(after[0])
        return tuple(found)

    def to_json(self) -> JSON:
        return ["chain", *(link.to_json() for link in self.links)]


class Region(Pattern):
    """All nodes with matching names, as one place: for example a block whose layers share a name prefix.

    ``graph.group(match.nodes, "block")`` makes a cell of it.

    Parameters
    ----------
    *globs:
        As for :func:`named`.
    """

    def __init__(self, *globs: str) -> None:
        self._pattern = named(*globs)

    def find(self, graph: ModelGraph) -> list[Match]:
        nodes = tuple(match.node for match in self._pattern.find(graph))
        return [Match(nodes)] if nodes else []

    def to_json(self) -> JSON:
        return ["region", self._pattern.to_json()]


def _apart(found: Iterable[tuple[str, ...]]) -> list[Match]:
    """Return the matches that share no node with an earlier one."""
    # Else a mutator would apply twice to a node, or to one that its first application has removed.
    taken: set[str] = set()

    def apart() -> Iterator[Match]:
        for nodes in found:
            if nodes and taken.isdisjoint(nodes):
                taken.update(nodes)
                yield Match(nodes)

    return list(apart())
