"""Maintain the trainers of a run: restart them when due, kill those that hang, fail if there is none."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

from daskevo.errors import NoTrainer
from daskevo_plugins.formatting import say_count
from daskevo_workflows.execution.event_kinds import RECYCLED
from daskevo_workflows.execution.event_log import Noted, note
from daskevo_workflows.execution.trainers import Trainers

logger = logging.getLogger(__name__)

NO_TRAINER_S = 60.0
"""Longest wait for a first trainer, or another after all are gone, if the cluster does not start any itself."""

ASKED_EVERY_S = 5.0
"""Interval of checks whether a restart that is due would still cost other clients something."""


class Upkeep:
    """Restarts and ends the trainers of a run.

    Parameters
    ----------
    trainers:
        The trainers that are present.
    record:
        Where events are noted.
    recycle_after:
        Number of evaluations after which an idle trainer is restarted; None = never.
    grows:
        Called if there is no trainer; tells whether the cluster will start one by itself.
    """

    def __init__(self, trainers: Trainers, record: Noted, recycle_after: int | None, grows: Callable[[], bool]) -> None:
        self._trainers = trainers
        self._record = record
        self._recycle_after = recycle_after
        self._grows = grows
        self._kept: dict[str, str] = {}
        """Why a trainer that is due is not restarted, by name: never, or while other clients have something there."""
        self._others: dict[str, tuple[float, int, int]] = {}
        """Time of the last check what other clients have on a trainer, and their tasks and results, by name."""
        self._alone_since: float | None = None

    def why_recycle(self, name: str) -> str | None:
        """Return why a trainer is due for a restart (training leaks memory that can't be freed); None if it is not."""
        trainer = self._trainers.present.get(name)
        evaluations = self._trainers.evaluations.get(name, 0)
        if trainer is None or self._trainers.used.get(name) or name in self._trainers.restarting:
            return None
        if trainer.paused:
            return "paused for its memory"
        due = self._recycle_after and evaluations >= self._recycle_after
        return f"after {evaluations} evaluations" if due else None

    def recycle(self, name: str) -> None:
        """Restart a trainer that is due, if no other client needs its process.

        Raises
        ------
        SchedulerUnreachable
        """
        why = self.why_recycle(name)
        if why is None:
            return
        kept = self._why_kept(name)
        if kept is not None:
            self._say_kept(name, why, kept)
        elif self._trainers.restart(name):
            self._kept.pop(name, None)
            note(self._record, RECYCLED, f"{name} {why}", worker=name)

    def _why_kept(self, name: str) -> str | None:
        """Return why an idle trainer that is due must not be restarted; None if it may be."""
        trainer = self._trainers.present[name]
        if trainer.provider:
            return "it is a provider too"
        if not trainer.nanny:
            return "it has no nanny that would start it again"
        tasks, keys = self._what_others_have(name)
        return (
            f"others have {say_count(tasks, 'task')} and {say_count(keys, 'result')} there" if tasks or keys else None
        )

    def _what_others_have(self, name: str) -> tuple[int, int]:
        """Count tasks and results that other clients would lose with a trainer's process; asked only now and then."""
        now = time.monotonic()
        asked, tasks, keys = self._others.get(name, (-math.inf, 0, 0))
        if now - asked >= ASKED_EVERY_S or not (tasks or keys):
            tasks, keys = self._trainers.others(name)
            self._others[name] = now, tasks, keys
        return tasks, keys

    def _say_kept(self, name: str, why: str, kept: str) -> None:
        """Warn, once per trainer, that it should be restarted but isn't."""
        is_said = name in self._kept
        self._kept[name] = kept
        if is_said:
            return
        words = f"{name} {why} is not restarted, because {kept}: its memory grows with each evaluation"
        logger.warning("%s; start providers and trainers as workers of their own for long runs", words)
        note(self._record, "not recycled", words, worker=name)

    def check_any(self, now: float) -> None:
        """Check that there is a trainer or will be one (`now` by the monotonic clock).

        Raises
        ------
        NoTrainer
        """
        self._end_stuck()
        still = self._standing_still()
        if (
            self._trainers.slots > sum(self._trainers.present[name].slots for name in still)
            or self._trainers.restarting
        ):
            self._alone_since = None
            return
        if self._alone_since is None:
            self._alone_since = now
        if now - self._alone_since > NO_TRAINER_S and not self._grows():
            stuck = ", ".join(sorted({str(trainer.name) for trainer in self._trainers.stuck.values()}))
            if still:
                raise NoTrainer(
                    f"no trainer takes an evaluation for {NO_TRAINER_S:g} s: Dask has paused "
                    + ", ".join(f"{name}, which is not restarted, because {why}" for name, why in sorted(still.items()))
                    + " (distributed.worker.memory.pause says at which share of its memory limit): give trainers more "
                    "memory, or start providers and trainers as workers of their own, then run the same command again "
                    "to go on",
                    paused=sorted(still),
                )
            refused = set(self._trainers.refused.values())
            raise NoTrainer(
                f"no worker with the resource {self._trainers.claimed} for {NO_TRAINER_S:g} s"
                + (f" but those that can't end an evaluation that was given up ({stuck})" if stuck else "")
                + (f" but those that are of no use ({'; '.join(sorted(refused))})" if refused else "")
                + f": {self._trainers.how_to_start_one}. Then run the same command again to go on"
            )

    def end(self, future: Any, place: str, key: str, what: str) -> str:
        """Kill the process that a task runs in, or keep its slot out of use if that is impossible; say which.

        The task is cancelled first; otherwise Dask would run it again elsewhere after the restart.

        Parameters
        ----------
        place, key:
            The trainer's name, and the task's.
        what:
            What was cancelled, for messages.
        """
        future.cancel(force=True)
        others = self._lost_with_it(place)
        if others is None and self._trainers.restart(place):
            return f"its trainer {place} was restarted"
        self._trainers.stick(place, key)
        why = others or "has no nanny"
        words = f"its trainer {place} {why} and goes on with it: it gets no other until it has ended"
        logger.warning("%s was given up; %s", what, words)
        return words

    def _lost_with_it(self, place: str) -> str | None:
        """Return what other clients would lose with a busy trainer's process; None if nothing that matters.

        If the trainer has one thread, other clients' tasks are only waiting and can run elsewhere. A silent trainer
        delivers no results to anybody.
        """
        trainer = self._trainers.present.get(place)
        if trainer is None or not trainer.nanny or self._trainers.is_silent(place):
            return None
        tasks, keys = self._what_others_have(place)
        if not keys and (not tasks or trainer.threads == 1):
            return None
        return f"has {say_count(tasks, 'task')} and {say_count(keys, 'result')} of others"

    def _standing_still(self) -> dict[str, str]:
        """Return the idle trainers that are paused and not restarted, with the reason."""
        present, used = self._trainers.present, self._trainers.used
        return {
            name: why
            for name, why in self._kept.items()
            if name in present and present[name].paused and not used.get(name)
        }

    def _end_stuck(self) -> None:
        """Kill the processes of cancelled evaluations once other clients have nothing there any more."""
        for trainer in list(self._trainers.stuck.values()):
            name = str(trainer.name)
            there = self._trainers.present.get(name)
            if (
                there is None
                or not there.nanny
                or there.address != trainer.address
                or name in self._trainers.restarting
            ):
                continue
            if self._lost_with_it(name) is None:
                self._trainers.restart(name)
