"""Read the training state of a Keras model from its variables, and write it back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.models import FlatModel, read_tensors, write_tensors
from daskevo.models.flat import spec_of
from daskevo.models.host_memory import to_host, to_variable
from daskevo.types import TensorSpec

Array = np.ndarray[Any, Any]


class TrainingState:
    """All variables that training changes, besides weights: by group.

    Parameters
    ----------
    flat:
        The flattened model.
    model:
        Compiled; its optimizer and its metrics are built.
    generator:
        Keras' SeedGenerator for operations that have none of their own.
    """

    def __init__(self, flat: FlatModel, model: Any, generator: Any) -> None:
        self._flat = flat
        self._model = model
        weights = set(map(id, flat.variables()))
        # Seed generators' states; what they are isn't asked, so that no other state is forgotten.
        random = [variable for variable in model.variables if id(variable) not in weights]
        self._groups: dict[str, Sequence[Any]] = {
            "optimizer": model.optimizer.variables,
            "random": [*random, generator.state],
        }

    def read(self) -> tuple[tuple[Array, ...], dict[str, Array]]:
        """Return weights in the graph's tensor order, and all others by name. Later steps don't change them."""
        return tuple(read_tensors(self._flat)), {name: to_host(variable) for name, variable in self._named().items()}

    def write(self, weights: Sequence[Array], others: Mapping[str, Array]) -> None:
        """Give all variables the values that `read` returned, perhaps in another process.

        Metrics are left alone if they are others: they are about what has been, and change no step.

        Raises
        ------
        InvalidInput
            If they don't fit this model and optimizer.
        """
        wanted = self._named()
        given = {name: array for name, array in others.items() if name.partition("/")[0] in (*self._groups, "metric")}
        if not _fit(_of("metric", given), _of("metric", wanted)):
            given = {name: array for name, array in given.items() if not name.startswith("metric/")}
            wanted = {name: variable for name, variable in wanted.items() if not name.startswith("metric/")}
        for group in self._groups:
            if not _fit(_of(group, given), _of(group, wanted)):
                raise InvalidInput(
                    f"the snapshot's {group} state has {len(_of(group, given))} tensors, and they aren't those of this "
                    f"model and its {type(self._model.optimizer).__name__} ({len(_of(group, wanted))}): build(), "
                    "compile() or the configuration differ from those that it was taken with"
                )
        write_tensors(self._flat, dict(enumerate(weights)))
        for name, array in given.items():
            to_variable(wanted[name], array)

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Restore all state of the model after this block."""
        weights, others = self.read()
        try:
            yield
        finally:
            self.write(weights, others)

    def _named(self) -> dict[str, Any]:
        # Metrics may make their variables later than others.
        groups = {**self._groups, "metric": self._model.metrics_variables}
        # By number: names of Keras' variables are not unique, and differ between processes.
        return {
            f"{group}/{number:04d}": variable
            for group, variables in groups.items()
            for number, variable in enumerate(variables)
        }


def _of(group: str, named: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if name.startswith(f"{group}/")}


def _fit(arrays: Mapping[str, Array], variables: Mapping[str, Any]) -> bool:
    return set(arrays) == set(variables) and all(
        TensorSpec.of(array) == spec_of(variables[name]) for name, array in arrays.items()
    )
