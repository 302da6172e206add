"""Send a problem object to trainers, once to each, for any number of evaluations.

The object is the result of a Dask task, which evaluations depend on. Dask keeps it in trainers' memory, copies it to
new trainers, and runs the task again if all trainers that had it are gone. Each delivery has its own key, because Dask
may lose a key that is released and sent again.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from distributed.protocol.pickle import dumps, loads

from daskevo_workflows.execution.trainers import DELIVERED
from daskevo_workflows.problems.protocol import Problem
from daskevo_workflows.problems.reference import ProblemReference
from daskevo_workflows.problems.user_modules import Source, forget_changed, import_all, importing

if TYPE_CHECKING:
    from distributed import Future

_GONE = ("cancelled", "error", "lost")
_numbers = itertools.count()


class Parcel:
    """A problem object, with the sources of the user's own modules that it uses."""

    def __init__(self, instance: Problem, modules: Mapping[str, Source]) -> None:
        self.instance = instance
        self.modules = modules

    def __reduce__(self) -> tuple[Callable[..., Parcel], tuple[Any, ...]]:
        return _unpacked, (dumps(self.instance), dict(self.modules))


def _unpacked(packed: bytes, modules: Mapping[str, Source]) -> Parcel:
    forget_changed(modules)
    with importing(modules):
        # Before the object is unpickled, which imports its classes by name, and would take older modules.
        import_all(modules)
        return Parcel(loads(packed), modules)


def hand_over(parcel: Parcel) -> Parcel:
    """Return the argument: the task whose result evaluations depend on."""
    return parcel


class Delivery:
    """Makes a problem available on trainers.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    reference:
        Of the problem.
    """

    def __init__(self, client: Any, reference: ProblemReference) -> None:
        self.reference = reference.to_trainers()
        """The reference that evaluations get."""
        self._client = client
        self._whole = reference
        self._future: Future | None = None

    def parcel(self) -> Future | None:
        """Return a future of the object, as an argument of evaluations; None if the problem is not an object."""
        if self._whole.instance is None:
            return None
        if self._future is None or self._future.status in _GONE:
            name = f"{DELIVERED}{self._whole.key[:12]}-{self._whole.nonce[:8]}-{next(_numbers)}"
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sending large graph")  # it is sent only once
                self._future = self._client.submit(
                    hand_over,
                    Parcel(self._whole.instance, self._whole.made.modules),
                    key=name,
                    # Run it on any trainer. A power of two, so that subtracting and adding it leaves exactly 1.
                    resources={"evaluation": 2**-20},
                    pure=False,
                )
        return self._future

    def close(self) -> None:
        """Release the object on all trainers."""
        if self._future is not None:
            self._future.release()
            self._future = None
