"""Spaces of Keras models said by base models and mutators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import keras

from daskevo.errors import InvalidInput
from daskevo.models.fitting_shapes import Expected, fit
from daskevo.models.model_graphs import graph_of, model_of
from daskevo.models.shape_only import shape_only
from daskevo.space import Candidate, ModelGraph, MutatedGraphs, Mutator, Size
from daskevo.space.nodes import MERGES
from daskevo.types import JSON

Base: TypeAlias = keras.Model | Callable[[], keras.Model] | ModelGraph


class Mutated(MutatedGraphs):
    """A space of Keras models: base models, and mutators that change them.

    Adjacent shapes are fitted after the mutations, and candidates that can't be fitted are rejected, while they are
    drawn: Keras is asked once for each layer and input, so drawing takes milliseconds, and none costs an evaluation.
    Weights of the bases aren't used.

    Parameters
    ----------
    name:
        A name for people and records.
    bases:
        Models, or functions that make one, or graphs; by label if there are several.
    mutators, evolve, steps, grow, shrink, size:
        As for :class:`daskevo.space.MutatedGraphs`.
    merge:
        How several tensors that flow into a layer which takes one are merged, such as ``"Concatenate"``, ``"Add"``.
    vectors:
        How a tensor with positions becomes a vector where one is needed: ``"pool"`` or ``"flatten"``.

    Raises
    ------
    InvalidInput, InvalidMutation
        As :class:`daskevo.space.MutatedGraphs`.
    CannotFlatten
        If a base has no graph.
    CandidateRejected
        If none of twenty candidates drawn can be fitted.

    Examples
    --------
    >>> import keras
    >>> from daskevo.space import InsertingMutator, layer, of_kind
    >>> def base():
    ...     return keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(4, 3), keras.layers.Flatten(),
    ...                              keras.layers.Dense(10, activation="softmax")])
    >>> space = Mutated("small", base, [
    ...     InsertingMutator(of_kind("Conv2D"), {"none": None, "pool": layer("MaxPooling2D")}, name="after")])
    >>> [space.build(candidate).count_params() for candidate in space.enumerate()]
    [1490, 410]
    """

    def __init__(
        self,
        name: str,
        bases: Base | Mapping[str, Base],
        mutators: Sequence[Mutator] = (),
        *,
        evolve: Sequence[Mutator] = (),
        steps: int | None = None,
        grow: float = 0.5,
        shrink: float = 0.2,
        size: Size | None = None,
        merge: str = "Concatenate",
        vectors: Literal["pool", "flatten"] = "pool",
    ) -> None:
        if merge not in MERGES:
            raise InvalidInput(f"merge is {merge!r:.40}, expected one of {sorted(MERGES)}")
        if vectors not in ("pool", "flatten"):
            raise InvalidInput(f"vectors is {vectors!r:.40}, expected 'pool' or 'flatten'")
        self.merge, self.vectors = merge, vectors
        named = bases if isinstance(bases, Mapping) else {"base": bases}
        graphs = {label: base if isinstance(base, ModelGraph) else graph_of(base) for label, base in named.items()}
        self._expected = {label: Expected(graph) for label, graph in graphs.items()}
        # `shape_only`: candidates are made to see whether they fit, and need no weights.
        super().__init__(
            name, graphs, mutators, evolve=evolve, steps=steps, grow=grow, shrink=shrink, size=size, around=shape_only
        )

    def finish(self, graph: ModelGraph, base: str) -> ModelGraph:
        return fit(graph, self._expected[base], merge=self.merge, vectors=self.vectors)

    def build(self, candidate: Candidate) -> Any:
        """Return a fresh, uncompiled Keras model of a candidate; raises as :meth:`Builder.build`."""
        return model_of(self.graph(candidate))

    def to_json(self) -> JSON:
        return {**super().to_json(), "merge": self.merge, "vectors": self.vectors}
