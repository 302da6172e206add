"""Elements of model graphs: layers, given by class name and arguments, and nodes, which call them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from daskevo.errors import InvalidInput
from daskevo.space.choice import as_lists
from daskevo.types import JSON, check_json

INPUT = "InputLayer"
MERGES = frozenset({"Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Dot"})
"""Keras classes that are called with a list of tensors."""


# Compared and hashed by `key`: `config` is a mapping, which has no hash, and in which 1 == True.
@dataclass(frozen=True, eq=False)
class Layer:
    """A layer as in a Keras config: its class and arguments. Nothing is imported or run.

    Parameters
    ----------
    kind:
        The class' name, such as ``"Conv2D"``.
    config:
        Arguments, as JSON values; missing ones have Keras' defaults.
    module:
        The Keras module with the class.
    registered:
        For a user's class: the name under which it is registered, ``"package>Class"``.
    """

    kind: str
    config: Mapping[str, JSON]
    module: str | None = "keras.layers"
    registered: str | None = None

    @cached_property
    def key(self) -> str:
        """Text that is equal for equal layers, ignoring their names."""
        config = {name: value for name, value in self.config.items() if name != "name"}
        return json.dumps([self.kind, self.module, self.registered, config], sort_keys=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layer) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def changed(self, **arguments: JSON) -> Layer:
        """Return the layer with other arguments."""
        return replace(self, config={**self.config, **_plain(self.kind, arguments)})

    def to_json(self) -> JSON:
        """Return what Keras makes the layer of."""
        return {
            "module": self.module,
            "class_name": self.kind,
            "config": dict(self.config),
            "registered_name": self.registered,
        }


def layer(kind: str, **arguments: Any) -> Layer:
    """Return a layer to put into a graph.

    Parameters
    ----------
    kind:
        A class of ``keras.layers``, or, of one's own, the name it is registered under (``"package>Class"``).
    **arguments:
        As for the class; JSON values, tuples are taken for lists.

    Raises
    ------
    InvalidInput
        If an argument is no JSON value: give activations and initializers by their names.

    Examples
    --------
    >>> layer("Dense", units=16, activation="relu").changed(units=32).config
    {'units': 32, 'activation': 'relu'}
    """
    config = _plain(kind, arguments)
    if ">" in kind:
        return Layer(kind.rpartition(">")[2], config, None, kind)
    return Layer(kind, config)


def _plain(kind: str, arguments: Mapping[str, Any]) -> dict[str, JSON]:
    config = {name: as_lists(value) for name, value in arguments.items()}
    check_json(config, f"arguments of a {kind}")
    return config


class CellGraph(ABC):
    """A graph that a node calls as one layer; its nodes and their wiring are :class:`daskevo.space.wiring.Wiring`."""

    @abstractmethod
    def digest(self) -> str:
        """Return a digest, equal for equal graphs in every process."""


@dataclass(frozen=True)
class Node:
    """One call of a layer or cell in a model graph.

    Parameters
    ----------
    name:
        Unique within the graph.
    layer:
        The layer that is called; a :class:`ModelGraph` is a cell.
    inputs:
        Sources of its tensors, in order: the name of a node, with ``":1"`` for its second output and so on.
        # (n_inputs,)
    call:
        How the layer is called, as recorded from a model. None: with its one tensor, or with the list of them.
    shares:
        The node that owns the layer, if this is a further call of a shared one.
    """

    name: str
    layer: Layer | CellGraph
    inputs: tuple[str, ...] = ()
    call: JSON = None
    shares: str | None = None

    @property
    def kind(self) -> str:
        """Name of the layer's class; ``"Cell"`` of a cell."""
        return self.layer.kind if isinstance(self.layer, Layer) else "Cell"

    @property
    def config(self) -> Mapping[str, JSON]:
        """Arguments of the layer; empty of a cell."""
        return self.layer.config if isinstance(self.layer, Layer) else {}

    @property
    def takes_list(self) -> bool:
        """Whether the layer is called with a list of tensors."""
        if self.call == "list":
            return True
        return self.call is None and isinstance(self.layer, Layer) and self.layer.kind in MERGES


def source_of(place: str) -> tuple[str, int]:
    """Return the node and output index of a place such as ``"lstm:1"``."""
    name, _, slot = place.partition(":")
    if slot and not slot.isdigit():
        raise InvalidInput(f"{place!r:.80} names no output of a node: write 'name', or 'name:1' for its second output")
    return name, int(slot or 0)


def place_of(name: str, slot: int) -> str:
    """Return the place of a node's output."""
    return f"{name}:{slot}" if slot else name
