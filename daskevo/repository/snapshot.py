"""The state of a training at a step, which `put_snapshot` stores and from which a training can continue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.graph import ArchitectureGraph
from daskevo.graph.validation import MAX_NAME_CHARACTERS
from daskevo.types import JSON, ModelId, TensorSpec, check_json

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A training's state at a step: weights, optimizer, random numbers, position in the data.

    Parameters
    ----------
    graph:
        The model's architecture graph; None for a training that has none: all of its state is in `attached`.
    weights:
        One array per tensor of the graph, in the order of ``graph.tensors``; empty without a graph.
    attached:
        Further state by name, such as ``optimizer/0000`` and ``random/0000``: any shapes, any dtypes that are stored.
    extra:
        Other data for resuming, as JSON.

    Raises
    ------
    InvalidInput
        If the weights aren't the graph's tensors in number, shape and dtype, a name is no text of 1 to 1,000
        characters, or something is no numpy array of a dtype that is stored.

    Examples
    --------
    >>> snapshot = Snapshot(None, (), {"random/0000": np.zeros(2, np.uint32)}, {"step": 3})
    >>> snapshot.nbytes
    8
    """

    graph: ArchitectureGraph | None
    weights: tuple[Array, ...]
    attached: Mapping[str, Array] = field(default_factory=dict)
    extra: JSON = None

    def __post_init__(self) -> None:
        wanted = () if self.graph is None else self.graph.tensors
        if len(self.weights) != len(wanted):
            raise InvalidInput(
                f"a snapshot of a model with {len(wanted)} tensors was given {len(self.weights)} weights: one per "
                "tensor of its architecture graph are needed, in the order of graph.tensors"
            )
        for number, (key, array) in enumerate(zip(wanted, self.weights, strict=True)):
            found = _spec_of(array, f"weight {number}")
            if found != key.spec:
                raise InvalidInput(
                    f"weight {number} of a snapshot is {found.dtype}{list(found.shape)}, but tensor {number} of its "
                    f"architecture graph is {key.spec.dtype}{list(key.spec.shape)}"
                )
        for name, array in self.attached.items():
            if type(name) is not str or not 1 <= len(name) <= MAX_NAME_CHARACTERS:
                raise InvalidInput(
                    f"{name!r:.60} can't name an attached tensor: use text of 1 to {MAX_NAME_CHARACTERS} characters"
                )
            check_json(name, "name of an attached tensor")
            _spec_of(array, f"what is attached as {name!r:.60}")

    @property
    def nbytes(self) -> int:
        """Bytes of all its arrays."""
        return sum(array.nbytes for array in (*self.weights, *self.attached.values()))


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredSnapshot(Snapshot):
    """A snapshot as it was read from a repository; its arrays are read-only.

    Parameters
    ----------
    name:
        The name that it is stored under.
    step:
        Training step of the state.
    metrics:
        Values measured at that step, by name.
    base:
        The earlier snapshot with which it shares tensors, if there was one.
    """

    name: ModelId
    step: int
    metrics: Mapping[str, JSON]
    base: ModelId | None = None


def _spec_of(array: object, what: str) -> TensorSpec:
    if not isinstance(array, np.ndarray):
        raise InvalidInput(f"{what} is a {type(array).__name__}: a snapshot holds numpy arrays")
    spec = TensorSpec.of(array)
    try:
        # As a record is read back: what it would refuse then, such as an array of objects, must not be stored.
        return TensorSpec.from_json(spec.to_json())
    except CorruptRecord as error:
        raise InvalidInput(f"{what} can't be stored ({error})") from error
