"""A problem object on its way to trainers: once to each, whatever number of evaluations it does of it.

The object is the result of a Dask task of its own, which evaluations depend on: Dask keeps it in trainers' memory,
takes it to those that come later, and makes it again where all that had it are gone. It has a key of its own for each
delivery; keys by content get lost where something is let go and sent again.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from distributed.protocol.pickle import dumps, loads

from daskevo_workflows.execution.trainers import DELIVERED
from daskevo_workflows.problems.protocol import Problem
from daskevo_workflows.problems.reference import ProblemReference
from daskevo_workflows.problems.user_modules import Source, forget_changed, import_all, importing

_GONE = ("cancelled", "error", "lost")
_numbers = itertools.count()


class Parcel:
    """A problem object, with the sources of the user's own modules that it is made of."""

    def __init__(self, instance: Problem, modules: Mapping[str, Source]) -> None:
        self.instance = instance
        self.modules = modules

    def __reduce__(self) -> tuple[Callable[..., Parcel], tuple[Any, ...]]:
        return _unpacked, (dumps(self.instance), dict(self.modules))


def _unpacked(packed: bytes, modules: Mapping[str, Source]) -> Parcel:
    forget_changed(modules)
    with importing(modules):
        import_all(modules)
        return Parcel(loads(packed), modules)


def hand_over(parcel: Parcel) -> Parcel:
    """Return what was sent: the task whose result evaluations depend on."""
    return parcel


class Delivery:
    """Has a problem where it is needed.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    reference:
        Of the problem.
    """

    def __init__(self, client: Any, reference: ProblemReference) -> None:
        self.reference = reference.to_trainers()
        """What evaluations are told of it."""
        self._client = client
        self._whole = reference
        self._future: Any = None

    def parcel(self) -> Any:
        """Return what evaluations take as an argument besides: a future of the object; None where it is none."""
        if self._whole.instance is None:
            return None
        if self._future is None or self._future.status in _GONE:
            name = f"{DELIVERED}{self._whole.key[:12]}-{self._whole.nonce[:8]}-{next(_numbers)}"
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sending large graph")  # once, which is the point of it
                self._future = self._client.submit(
                    hand_over,
                    Parcel(self._whole.instance, self._whole.made.modules),
                    key=name,
                    # On a trainer, whoever that is by then; a power of two, so that what is left of 1 is 1 afterwards.
                    resources={"evaluation": 2**-20},
                    pure=False,
                )
        return self._future

    def close(self) -> None:
        """Let it go everywhere."""
        if self._future is not None:
            self._future.release()
            self._future = None
