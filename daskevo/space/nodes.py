"""What a model graph is made of: layers by class name and arguments, and the nodes that call them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from daskevo.errors import InvalidInput
from daskevo.space.choice import as_lists
from daskevo.types import JSON, check_json

if TYPE_CHECKING:
    from daskevo.space.wiring import Wiring

INPUT = "InputLayer"
MERGES = frozenset({"Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Dot"})
"""Classes of Keras that are called with a list of tensors."""


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer as Keras writes it: its class, and the arguments that make it. Nothing is imported or run.

    Parameters
    ----------
    kind:
        The class' name, such as ``"Conv2D"``.
    config:
        Arguments, as JSON values; those left out have Keras' defaults.
    module:
        Where Keras has the class.
    registered:
        For a class of one's own: the name under which it was registered, ``"package>Class"``.
    """

    kind: str
    config: Mapping[str, JSON]
    module: str | None = "keras.layers"
    registered: str | None = None

    @cached_property
    def key(self) -> str:
        """Text that equal layers have in common, whatever their names."""
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


@dataclass(frozen=True)
class Node:
    """One call of a layer, or of a cell, in a model graph.

    Parameters
    ----------
    name:
        Of the node; no two of a graph have the same.
    layer:
        What is called; a :class:`ModelGraph` is a cell.
    inputs:
        Where its tensors come from, in order: the name of a node, with ``":1"`` for its second output and so on.
        # (n_inputs,)
    call:
        How the layer is called, as recorded of a model. None: with its one tensor, or with the list of them.
    shares:
        The node whose layer this is another call of.
    """

    name: str
    layer: Layer | Wiring
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
    """Return the node and output slot that a place such as ``"lstm:1"`` names."""
    name, _, slot = place.partition(":")
    if slot and not slot.isdigit():
        raise InvalidInput(f"{place!r:.80} names no output of a node: write 'name', or 'name:1' for its second output")
    return name, int(slot or 0)


def place_of(name: str, slot: int) -> str:
    """Return how an output slot of a node is written."""
    return f"{name}:{slot}" if slot else name
