"""What is done about trainers themselves: restarted when due, ended with an evaluation, missed when there is none."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from daskevo.errors import NoTrainer
from daskevo_workflows.event_kinds import RECYCLED
from daskevo_workflows.notes import Noted, note
from daskevo_workflows.trainers import Trainers

logger = logging.getLogger(__name__)

NO_TRAINER_S = 60.0
"""How long to wait for a first trainer, or for another when all are gone, where the cluster starts none itself."""


class Upkeep:
    """Care for the trainers of a run.

    Parameters
    ----------
    trainers:
        Who is there.
    record:
        Where events are noted.
    recycle_after:
        Evaluations after which an idle trainer is restarted; None = never.
    grows:
        Asked where there is no trainer: whether the cluster will start one by itself.
    """

    def __init__(self, trainers: Trainers, record: Noted, recycle_after: int | None, grows: Callable[[], bool]) -> None:
        self._trainers = trainers
        self._record = record
        self._recycle_after = recycle_after
        self._grows = grows
        self._kept: set[str] = set()
        self._alone_since: float | None = None

    def why_recycle(self, name: str) -> str | None:
        """Say why a trainer is due for a restart: training leaks memory, whatever one clears; None if it is not."""
        trainer = self._trainers.present.get(name)
        evaluations = self._trainers.evaluations.get(name, 0)
        if trainer is None or self._trainers.used.get(name) or name in self._trainers.restarting or name in self._kept:
            return None
        if trainer.paused:
            return "paused for its memory"
        due = self._recycle_after and evaluations >= self._recycle_after
        return f"after {evaluations} evaluations" if due else None

    def recycle(self, name: str) -> None:
        """Restart a trainer that is due."""
        why = self.why_recycle(name)
        if why is None:
            return
        if self._trainers.present[name].provider:
            self._say_kept(name, why)
        elif self._trainers.restart(name):
            note(self._record, RECYCLED, f"{name} {why}", worker=name)

    def _say_kept(self, name: str, why: str) -> None:
        """Say once per trainer that it should be restarted and isn't: all others would wait for its shards."""
        self._kept.add(name)
        words = f"{name} {why} is not restarted, because it is a provider too: its memory grows with each evaluation"
        logger.warning("%s; start providers and trainers as workers of their own for long runs", words)
        note(self._record, "not recycled", words, worker=name)

    def check_any(self, now: float) -> None:
        """See whether there is a trainer, or there will be (`now` by the monotonic clock).

        Raises
        ------
        NoTrainer
        """
        if self._trainers.slots or self._trainers.restarting:
            self._alone_since = None
            return
        self._alone_since = self._alone_since or now
        if now - self._alone_since > NO_TRAINER_S and not self._grows():
            stuck = ", ".join(sorted({str(trainer.name) for trainer in self._trainers.stuck.values()}))
            raise NoTrainer(
                f"no worker with the resource 'evaluation' for {NO_TRAINER_S:g} s"
                + (f" but those that can't end an evaluation that was given up ({stuck})" if stuck else "")
                + ": start some with --resources evaluation=1 (daskevo.local_cluster does), then run the same command "
                "again to go on"
            )

    def end(self, future: Any, place: str, key: str, what: str) -> str:
        """End the process that a task runs in, or keep the slot out of use where nobody can; say which.

        The task is cancelled first, or the restart would make Dask run it again elsewhere.

        Parameters
        ----------
        place, key:
            The trainer's name, and the task's.
        what:
            What was given up, in words.
        """
        future.cancel(force=True)
        if self._trainers.restart(place):
            return f"its trainer {place} was restarted"
        self._trainers.stick(place, key)
        words = f"its trainer {place} has no nanny and goes on with it: it gets no other until it has ended"
        logger.warning("%s was given up; %s", what, words)
        return words
