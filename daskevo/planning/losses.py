"""What follows when a task is lost: it is given again, or counts as failed. Searches and studies use the same rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Generic, Literal, TypeVar

Key = TypeVar("Key", bound=Hashable)

LossKind = Literal[
    "died", "silent", "repository", "cancelled", "left", "not begun", "unfetched", "paused", "refused", "cut off"
]
"""How a task was lost.

========== ===========================================================================
died       its trainer died while it ran
silent     its trainer sent no heartbeat while it ran
repository the repository did not answer it
cancelled  somebody else cancelled it
left       its trainer left in good order
not begun  its trainer died, or did not get on, before it began
unfetched  it had ended, but its result could not be fetched
paused     its trainer was paused for its memory before it began
refused    its trainer has other versions of what decides a training, and gets no task any more
cut off    the client lost its connection to the scheduler, or the cluster restarted
========== ===========================================================================
"""

DEATHS = 2
"""Trainers that may die during a task before it counts as failed: one death may be the machine's fault."""
LOSSES = 6
"""Losses of any kind before it counts as failed. They say little about the task when the trainer died before it began,
or left in good order (cluster scaled down, worker lifetime over)."""

_DEADLY = ("died", "silent", "repository", "cancelled")
_UNCOUNTED = ("paused", "refused", "cut off")


class Losses(Generic[Key]):
    """Counts the losses of each task since it last stored something.

    Examples
    --------
    >>> losses = Losses[str]()
    >>> losses.count("evaluation 3", "died"), losses.count("evaluation 3", "cut off")
    (None, None)
    >>> losses.count("evaluation 3", "died")
    2
    >>> [losses.count("evaluation 4", "left") for _ in range(6)]
    [None, None, None, None, None, 6]
    """

    def __init__(self) -> None:
        self._deaths: Counter[Key] = Counter()
        self._losses: Counter[Key] = Counter()

    def died(self, key: Key) -> bool:
        """Tell whether a trainer has died during a task that was given again since."""
        return self._deaths[key] > 0

    def count(self, key: Key, kind: LossKind) -> int | None:
        """Count a loss of a task.

        Returns
        -------
        int, optional
            The number of its losses, if it counts as failed now; it is forgotten then. None: give it again.
        """
        # These say nothing about the task or its trainer, and may hit all tasks at once any number of times.
        if kind in _UNCOUNTED:
            return None
        self._losses[key] += 1
        self._deaths[key] += kind in _DEADLY
        if self._deaths[key] < DEATHS and self._losses[key] < LOSSES:
            return None
        number = self._losses[key]
        self.forget(key)
        return number

    def forget(self, key: Key) -> None:
        """Begin to count anew: the task has stored something since, so it gets on in spite of its losses."""
        self._deaths.pop(key, None)
        self._losses.pop(key, None)
