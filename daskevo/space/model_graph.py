"""The graph of a model that mutators change: nodes that call layers, and the history of changes.

Pure Python; :mod:`daskevo.models` converts between this graph and a Keras model. Source: paper 003, section 3 and
figure 5.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Self

from daskevo.errors import InvalidInput
from daskevo.space.cells import expand, group
from daskevo.space.nodes import INPUT, Layer, Node, source_of
from daskevo.space.wiring import Acting, Primitive, Wiring
from daskevo.types import JSON


class ModelGraph(Wiring):
    """A model, or a cell of one, as nodes that refer to each other by name.

    Parameters
    ----------
    name:
        The model's name.

    Attributes
    ----------
    inputs:
        Names of the model's input nodes. # (n_inputs,)
    outputs:
        Sources of the model's outputs, in the form of `Node.inputs`. # (n_outputs,)
    structure:
        Nesting of inputs and outputs, as recorded from a Keras model; None: a single one, or a list.
    history:
        Changes since the base model, in order.

    Examples
    --------
    >>> from daskevo.space import ModelGraph, layer
    >>> graph = ModelGraph("small")
    >>> graph.add_input("image", layer("InputLayer", batch_shape=(None, 64)))
    'image'
    >>> graph.create("hidden", layer("Dense", units=16), inputs=["image"])
    'hidden'
    >>> graph.create("digit", layer("Dense", units=10, activation="softmax"), inputs=["hidden"])
    'digit'
    >>> graph.outputs = ("digit",)
    >>> graph.insert_after("hidden", layer("Dropout", rate=0.5), name="dropout")
    'dropout'
    >>> graph["digit"].inputs, [(done.primitive, done.nodes) for done in graph.history[-1:]]
    (('dropout',), [('insert after', ('hidden', 'dropout'))])
    """

    def as_base(self) -> Self:
        """Return a copy with an empty history, as the base of further changes."""
        other = self.copy()
        other.history, other._base = (), dict(self._nodes)
        return other

    def expanded(self) -> Self:
        """Return a copy with cells replaced by their nodes, and without nodes that no output depends on."""
        return expand(self)

    # -- primitives ------------------------------------------------------------------------------------------------

    def add_input(self, name: str, layer: Layer | None = None) -> str:
        """Add an input to the model, or to a cell, where it needs no layer."""
        made = self.put(Node(self.new_name(name), layer or Layer(INPUT, {})))
        self.inputs += (made,)
        return made

    def create(self, name: str, layer: Layer | ModelGraph, inputs: Sequence[str] = ()) -> str:
        """Add a node and return its name.

        Parameters
        ----------
        name:
            Must be unused. Inside a mutator it gets the mutator's place as a prefix, and a number if it is taken.
        layer:
            The layer that it calls; a :class:`ModelGraph` makes it a cell.
        inputs:
            Sources of its tensors.

        Raises
        ------
        InvalidMutation
            ``name-taken``, ``missing-node`` or ``layer``.
        """
        name = self.new_name(name)
        for place in inputs:
            self._source(place)
        self.put(Node(name, layer, tuple(inputs)))
        self._record("create", name)
        return name

    def delete(self, name: str, *, bridge: bool = True) -> None:
        """Delete a node.

        Parameters
        ----------
        bridge:
            Connect the node's only input to the consumers of its output. False: they lose that input and must get
            another one before the mutation ends.

        Raises
        ------
        InvalidMutation
            ``missing-node``; ``dangling``, if it is an input, or an output without a bridge, or can't be bridged.
        """
        node = self[name]
        if name in self.inputs:
            raise self.error("dangling", f"{name!r} is an input of the model, which can't be deleted", (name,))
        if not bridge and self.is_output(name):
            raise self.error("dangling", f"an output of the model comes from {name!r}", (name,))
        used = bool(self.consumers(name)) or self.is_output(name)
        if bridge and used and len(node.inputs) != 1:
            raise self.error(
                "dangling", f"{name!r} has {len(node.inputs)} inputs: only one can take its place", (name,)
            )
        self._leave_sharing(name)
        if bridge and used:
            self._lead(name, node.inputs[0])
        else:
            for other in self.consumers(name):
                kept = [index for index, place in enumerate(self[other].inputs) if source_of(place)[0] != name]
                self._set_inputs(other, [self[other].inputs[index] for index in kept])
        self.drop(name)
        self._record("delete", name)

    def replace(self, name: str, layer: Layer | ModelGraph) -> str:
        """Replace the layer that a node calls; inputs and name stay the same.

        Raises
        ------
        InvalidMutation
            ``missing-node``; ``dangling``, if it is an input, or an output in use does not exist in the new layer.
        """
        node = self[name]
        if name in self.inputs:
            raise self.error("dangling", f"{name!r} is an input of the model, which can't be replaced", (name,))
        outputs = len(layer.outputs) if isinstance(layer, ModelGraph) else 1
        for place in (*self.outputs, *(place for other in self._nodes.values() for place in other.inputs)):
            source, slot = source_of(place)
            if source == name and slot >= outputs:
                raise self.error("dangling", f"output {slot} of {name!r} is in use, the new one has {outputs}", (name,))
        self._leave_sharing(name)
        self.put(Node(name, layer, node.inputs))
        self._record("replace", name)
        return name

    def connect(self, source: str, target: str, at: int | None = None) -> None:
        """Add an edge from a node to another, in addition to the target's other inputs.

        If a layer that takes one tensor gets several, they are merged when shapes are fitted.

        Parameters
        ----------
        at:
            Position among the inputs; None = last.

        Raises
        ------
        InvalidMutation
            ``missing-node``; ``cycle``; ``call``, if the target's call takes no further tensor.
        """
        self._check_edge(source, target)
        inputs = list(self[target].inputs)
        inputs.insert(len(inputs) if at is None else at, source)
        self._set_inputs(target, inputs)
        self._record("connect", source_of(source)[0], target)

    def disconnect(self, source: str, target: str) -> None:
        """Delete an edge; if it was the only one, the target must get another before the mutation ends.

        Raises
        ------
        InvalidMutation
            ``missing-node``, also if there is no such edge.
        """
        if source not in self[target].inputs:
            raise self.error("missing-node", f"nothing flows from {source!r} into {target!r}", (source, target))
        inputs = list(self[target].inputs)
        inputs.remove(source)
        self._set_inputs(target, inputs)
        self._record("disconnect", source_of(source)[0], target)

    def insert_after(self, source: str, layer: Layer | ModelGraph, name: str | None = None) -> str:
        """Insert a node between a node and all consumers of its output; return the new node's name.

        Raises
        ------
        InvalidMutation
            ``missing-node`` or ``name-taken``.
        """
        self._source(source)
        made = self.new_name(name or (layer.kind if isinstance(layer, Layer) else layer.name).lower())
        # Before the new node is there, or its own input would be moved to itself.
        self.move(lambda place: made if place == source else place)
        self.put(Node(made, layer, (source,)))
        self._record("insert after", source_of(source)[0], made)
        return made

    def change_input(self, name: str, index: int, source: str) -> None:
        """Connect one input of a node to another source.

        Raises
        ------
        InvalidMutation
            ``missing-node``, also if it has no such input; ``cycle``.
        """
        node = self[name]
        if not 0 <= index < len(node.inputs):
            raise self.error("missing-node", f"{name!r} has {len(node.inputs)} inputs, and no input {index}", (name,))
        self._check_edge(source, name)
        inputs = list(node.inputs)
        inputs[index] = source
        self.put(replace(node, inputs=tuple(inputs)))
        self._record("change input", name, source_of(source)[0])

    def repeat(self, names: str | Sequence[str], times: int, **changed: JSON) -> tuple[str, ...]:
        """Repeat a chain of nodes several times in a row; return the names of the copies, in order.

        Parameters
        ----------
        names:
            One node, or several that form a chain.
        times:
            Number of times the chain is there afterwards, from 1.
        **changed:
            Arguments to change in the copies' layers, if these have them: ``strides=1``.

        Raises
        ------
        InvalidMutation
            ``missing-node``; ``chain``, if the nodes don't form a chain.
        InvalidInput
            If `times` is none.
        """
        if type(times) is not int or times < 1:
            raise InvalidInput(f"times={times!r:.40}: use a whole number from 1")
        chain = (names,) if isinstance(names, str) else tuple(names)
        for before, after in itertools.pairwise(chain):
            if self[after].inputs != (before,) or self.consumers(before) != (after,):
                raise self.error("chain", f"{after!r} doesn't follow {before!r} alone", (before, after))
        if not chain or len(self[chain[0]].inputs) != 1 or any(name in self.inputs for name in chain):
            raise self.error("chain", f"{chain!r:.80} is no chain with one input", chain)
        made: list[str] = []
        last = chain[-1]
        for number in range(1, times):
            for name in chain:
                layer = self[name].layer
                known = {key: value for key, value in changed.items() if key in self[name].config}
                if isinstance(layer, Layer) and known:
                    layer = layer.changed(**known)
                # A copy owns its layer, also if the original shares one.
                copy = replace(self[name], name=self.free_name(f"{name}.r{number}"), layer=layer, shares=None)
                # Before the copy is there, as in `insert_after`.
                self._lead(last, copy.name)
                last = self.put(replace(copy, inputs=(last,)))
                made.append(last)
        self._record("repeat", *chain, *made)
        return tuple(made)

    def group(self, names: Sequence[str], name: str) -> str:
        """Replace several nodes by one cell that contains them; return its name.

        Raises
        ------
        InvalidMutation
            ``missing-node``; ``dangling``, if an input is among them; ``cycle``, if a path leaves them and returns.
        """
        made = group(self, names, name)
        self._record("group", made, *names)
        return made

    # -- for mutators ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def acting(self, mutator: str, at: Sequence[str], prefix: str, choices: Mapping[str, JSON]) -> Iterator[None]:
        """Record changes in this block as a mutator's, and prefix names of new nodes with its place."""
        before, self._acting = self._acting, Acting(mutator, tuple(at), prefix, choices)
        try:
            yield
        finally:
            self._acting = before

    # -- inside ----------------------------------------------------------------------------------------------------

    def _record(self, primitive: str, *nodes: str) -> None:
        acting = self._acting
        self.history += (Primitive(primitive, nodes, acting.mutator, acting.at, dict(acting.choices)),)

    def _source(self, place: str) -> str:
        name, slot = source_of(place)
        cell = self[name].layer
        if isinstance(cell, ModelGraph) and slot >= len(cell.outputs):
            raise self.error("missing-node", f"cell {name!r} has {len(cell.outputs)} outputs", (name,))
        return name

    def _check_edge(self, place: str, target: str) -> None:
        source = self._source(place)
        self[target]
        if target in self.inputs:
            raise self.error("call", f"{target!r} is an input of the model", (source, target))
        if source == target or source in self.descendants(target):
            raise self.error("cycle", f"{source!r} depends on {target!r}", (source, target))

    def _set_inputs(self, name: str, inputs: Sequence[str]) -> None:
        node = self[name]
        if node.call not in (None, "list"):
            raise self.error("call", f"{node.kind} {name!r} gets its tensors as named arguments", (name,))
        if isinstance(node.layer, ModelGraph) and len(inputs) > len(node.layer.inputs):
            raise self.error("call", f"cell {name!r} has only {len(node.layer.inputs)} inputs", (name,))
        self.put(replace(node, inputs=tuple(inputs)))

    def _lead(self, name: str, elsewhere: str) -> None:
        """Connect all consumers of a node's output to another source."""
        # All uses are looked at before any is moved, so that the graph stays as it was if this raises.
        for place in (*self.outputs, *(place for node in self.nodes for place in node.inputs)):
            source, slot = source_of(place)
            if source == name and slot:
                raise self.error(
                    "dangling", f"output {slot} of {name!r} is in use: nothing can take its place", (name,)
                )
        self.move(lambda place: elsewhere if place == name else place)

    def _leave_sharing(self, name: str) -> None:
        """Before a shared layer's owner changes, make the next node that calls the layer its owner."""
        heirs = [node for node in self.nodes if node.shares == name]
        for heir in heirs:
            self.put(replace(heir, shares=None if heir is heirs[0] else heirs[0].name))


def cell_of(*layers: Layer, name: str = "cell") -> ModelGraph:
    """Return a cell that calls layers one after the other.

    Examples
    --------
    >>> from daskevo.space import layer
    >>> cell = cell_of(layer("Conv2D", filters=8, kernel_size=3), layer("ReLU"), layer("ReLU"))
    >>> cell.order()
    ('in', 'conv2d', 'relu', 'relu.2')
    """
    cell = ModelGraph(name)
    place = cell.add_input("in")
    for layer in layers:
        place = cell.create(cell.free_name(layer.kind.lower()), layer, [place])
    cell.outputs = (place,)
    return cell
