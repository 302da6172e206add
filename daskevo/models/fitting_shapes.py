"""Fitting adjacent shapes after a mutation: small layers in between, by rules; what no rule fits is refused.

Paper 003 leaves this to its users (section 6). Each layer that is put in is a node of its own, named after the one it
serves, and stands in the graph's history under the mutator ``fitting``; the same graph is always fitted the same way.
What Keras takes as it is, is left as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from daskevo.errors import CandidateRejected
from daskevo.models.output_shapes import Misfit, Spec, all_specs, first_call, inputs_of, output_specs, spec_at
from daskevo.space import Layer, ModelGraph, Node, layer
from daskevo.space.nodes import MERGES

PADDED = 2
"""Sizes that differ by this much at most are padded with zeros, larger differences pooled."""

_BY_RANK = {3: "1D", 4: "2D", 5: "3D"}
_WINDOWED = ("Conv", "DepthwiseConv", "SeparableConv", "MaxPooling", "AveragePooling")


class Expected:
    """What a base model says of shapes: how many dimensions its nodes take, and what its outputs are.

    Parameters
    ----------
    base:
        The graph, before any mutation.
    """

    def __init__(self, base: ModelGraph) -> None:
        specs = all_specs(base)
        flat = base.expanded()
        self.ranks = {node.name: (node.kind, [spec.rank for spec in inputs_of(node, specs)]) for node in flat.nodes}
        self.outputs = tuple(spec_at(place, specs) for place in flat.outputs)

    def rank(self, node: Node, index: int) -> int | None:
        """Return how many dimensions an input of a node had in the base; None of a node that isn't the base's."""
        kind, ranks = self.ranks.get(node.name, (None, []))
        # A mutator may have put another layer under the name.
        if kind != node.kind or not ranks:
            return None
        return ranks[min(index, len(ranks) - 1)]


def fit(
    graph: ModelGraph,
    expected: Expected,
    *,
    merge: str = "Concatenate",
    vectors: Literal["pool", "flatten"] = "pool",
) -> ModelGraph:
    """Return a graph whose adjacent shapes fit, cells expanded.

    Rules, in graph order, each where Keras would refuse (1 and 2: where the base model didn't have it so):

    1. A layer that takes one tensor and gets several: they are merged.
    2. A node of the base that took vectors and gets more dimensions: pooled over all positions, or flattened.
    3. A convolution or pooling whose window is larger than its input: the input is padded with zeros.
    4. A merge of different sizes: sizes that differ by 2 at most are padded, others pooled to the smallest.
    5. An element-wise merge of different widths: the others are projected to the width of the first, by Dense or a
       convolution of size 1; one with strides where sizes and width differ and strides do.
    6. A merge of vectors and tensors of more dimensions: these are pooled over all positions, or flattened.

    Parameters
    ----------
    expected:
        Of the base model.
    merge:
        The layer of rule 1.
    vectors:
        How rules 2 and 6 make vectors.

    Raises
    ------
    CandidateRejected
        If no rule helps, or an output isn't what it is in the base model; `reason` says which node and which shapes.
    """
    return _Fitting(graph.expanded(), expected, merge, vectors).run()


class _Fitting:
    def __init__(self, graph: ModelGraph, expected: Expected, merge: str, vectors: str) -> None:
        self.graph = graph
        self.expected = expected
        self.merge = merge
        self.vectors = vectors
        self.specs: dict[str, tuple[Spec, ...]] = {}

    def run(self) -> ModelGraph:
        for name in self.graph.order():
            with self.graph.acting("fitting", (name,), f"{name}.", {}):
                self._fit(name)
        with self.graph.acting("fitting", (), "output.", {}):
            self._fit_outputs()
        return self.graph

    # -- one node --------------------------------------------------------------------------------------------------

    def _fit(self, name: str) -> None:
        for index in range(len(self.graph[name].inputs)):
            self._fit_rank(name, index)
        node = self.graph[name]
        if len(node.inputs) > 1 and node.call is None and not node.takes_list:
            self._merge_inputs(name)
        try:
            self.specs[name] = self._asked(name)
        except Misfit as error:
            self._help(name, str(error))

    def _help(self, name: str, said: str) -> None:
        node = self.graph[name]
        if node.takes_list and node.kind in MERGES:
            self._fit_merge(name, said)
        elif node.kind.startswith(_WINDOWED):
            self._pad_window(name)
        try:
            self.specs[name] = self._asked(name)
        except Misfit:
            # What Keras said of the shapes as they came, not of those that the attempt to fit made of them.
            raise self._refused(name, said) from None

    def _asked(self, name: str) -> tuple[Spec, ...]:
        node = self.graph[name]
        found = output_specs(node, inputs_of(node, self.specs), first_call(self.graph, node, self.specs))
        for spec in found:
            # Keras computes some such shapes without an error.
            if any(size is not None and size < 1 for size in spec.shape[1:]):
                raise Misfit(f"nothing is left of its input: {spec}")
        return found

    def _refused(self, name: str, said: str) -> CandidateRejected:
        node = self.graph[name]
        shapes = ", ".join(map(str, inputs_of(node, self.specs)))
        return CandidateRejected(f"{node.kind} {name!r} can't take {shapes}: {said}", nodes=(name,))

    def _put(self, kind: str, what: Layer, name: str, index: int) -> Spec:
        """Put a layer between a node and one of its inputs."""
        place = self.graph[name].inputs[index]
        made = self.graph.create(f"{kind}{index}", what, [place])
        self.graph.change_input(name, index, made)
        try:
            (spec,) = self.specs[made] = self._asked(made)
        except Misfit as error:
            raise self._refused(made, str(error)) from None
        return spec

    # -- rules -----------------------------------------------------------------------------------------------------

    def _fit_rank(self, name: str, index: int) -> None:
        node = self.graph[name]
        spec = inputs_of(node, self.specs)[index]
        if self.expected.rank(node, index) == 2 and spec.rank > 2:
            self._to_vector(name, index)

    def _to_vector(self, name: str, index: int) -> Spec:
        spec = inputs_of(self.graph[name], self.specs)[index]
        suffix = _BY_RANK.get(spec.rank)
        if self.vectors == "flatten" or suffix is None:
            return self._put("flatten", layer("Flatten"), name, index)
        return self._put("pool", layer(f"GlobalAveragePooling{suffix}"), name, index)

    def _merge_inputs(self, name: str) -> None:
        node = self.graph[name]
        made = self.graph.create("merge", layer(self.merge), node.inputs)
        # The same tensor may flow in twice; both edges go.
        for place in dict.fromkeys(node.inputs):
            while place in self.graph[name].inputs:
                self.graph.disconnect(place, name)
        self.graph.connect(made, name)
        with self.graph.acting("fitting", (made,), f"{made}.", {}):
            self._fit(made)

    def _pad_window(self, name: str) -> None:
        node = self.graph[name]
        (spec,) = inputs_of(node, self.specs)[:1]
        sizes = spec.shape[1:-1]
        window = _each(node.config.get("kernel_size", node.config.get("pool_size", 2)), len(sizes))
        dilation = _each(node.config.get("dilation_rate", 1), len(sizes))
        if spec.rank not in _BY_RANK or None in sizes or not len(window) == len(dilation) == len(sizes):
            return
        needed = [(each - 1) * apart + 1 for each, apart in zip(window, dilation, strict=True)]
        missing = [max(0, size - found) for size, found in zip(needed, sizes, strict=True) if found is not None]
        if any(missing):
            self._pad(name, 0, missing)

    def _pad(self, name: str, index: int, missing: Sequence[int]) -> Spec:
        both = [[each // 2, each - each // 2] for each in missing]
        padding: Any = both[0] if len(both) == 1 else both
        return self._put("pad", layer(f"ZeroPadding{len(both)}D", padding=padding), name, index)

    def _fit_merge(self, name: str, said: str) -> None:
        node = self.graph[name]
        if node.kind == "Dot" or (node.kind == "Concatenate" and node.config.get("axis", -1) != -1):
            return
        count = len(node.inputs)
        if min(spec.rank for spec in inputs_of(node, self.specs)) == 2:
            for index in range(count):
                if inputs_of(self.graph[name], self.specs)[index].rank > 2:
                    self._to_vector(name, index)
        specs = inputs_of(self.graph[name], self.specs)
        if len({spec.rank for spec in specs}) > 1:
            raise self._refused(name, said)
        width = None if node.kind == "Concatenate" else specs[0].shape[-1]
        if specs[0].rank > 2 and len({spec.shape[1:-1] for spec in specs}) > 1:
            self._fit_sizes(name, width, said)
        for index in range(count):
            spec = inputs_of(self.graph[name], self.specs)[index]
            if width is not None and spec.shape[-1] != width:
                self._put("project", _projection(spec.rank, width), name, index)

    def _fit_sizes(self, name: str, width: int | None, said: str) -> None:
        specs = inputs_of(self.graph[name], self.specs)
        sizes = [spec.shape[1:-1] for spec in specs]
        if any(size is None for each in sizes for size in each) or specs[0].rank not in _BY_RANK:
            raise self._refused(name, said)
        known: list[list[int]] = [[int(size or 0) for size in each] for each in sizes]
        largest, smallest = ([pick(each) for each in zip(*known, strict=True)] for pick in (max, min))
        if all(high - low <= PADDED for high, low in zip(largest, smallest, strict=True)):
            for index, each in enumerate(known):
                if each != largest:
                    self._pad(name, index, [high - size for high, size in zip(largest, each, strict=True)])
            return
        for index, each in enumerate(known):
            if each != smallest:
                self._put(*_shrinking(specs[index], each, smallest, width), name, index)

    def _fit_outputs(self) -> None:
        for wanted, place in zip(self.expected.outputs, self.graph.outputs, strict=True):
            found = spec_at(place, self.specs)
            if (found.shape[1:], found.dtype) != (wanted.shape[1:], wanted.dtype):
                raise CandidateRejected(
                    f"the output {place!r} is {found} of {found.dtype}, and the base model's is {wanted} of "
                    f"{wanted.dtype}",
                    nodes=(place,),
                )


def _each(value: Any, count: int) -> list[int]:
    return [value] * count if isinstance(value, int) else list(value)


def _projection(rank: int, width: int, strides: int = 1) -> Layer:
    if rank == 2:
        return layer("Dense", units=width)
    return layer(f"Conv{_BY_RANK[rank]}", filters=width, kernel_size=1, strides=strides)


def _shrinking(spec: Spec, sizes: Sequence[int], wanted: Sequence[int], width: int | None) -> tuple[str, Layer]:
    """Return what makes exactly the sizes that are wanted of larger ones."""
    strides = [size // goal for size, goal in zip(sizes, wanted, strict=True)]
    # A convolution of size 1 takes every stride-th position: size / stride of them, rounded up.
    exact = [-(-size // stride) for size, stride in zip(sizes, strides, strict=True)] == list(wanted)
    if width not in (None, spec.shape[-1]) and len(set(strides)) == 1 and strides[0] > 1 and exact:
        assert width is not None
        return "project", _projection(spec.rank, width, strides[0])
    # Pooling without padding gives (size - window) // stride + 1 positions: solved for the window.
    window = [size - (goal - 1) * stride for size, goal, stride in zip(sizes, wanted, strides, strict=True)]
    kind = f"AveragePooling{_BY_RANK[spec.rank]}"
    return "pool", layer(kind, pool_size=window, strides=strides)
