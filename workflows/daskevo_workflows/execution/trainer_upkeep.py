"""What is done about trainers themselves: restarted when due, ended with an evaluation, missed when there is none."""

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
"""How long to wait for a first trainer, or for another when all are gone, where the cluster starts none itself."""

ASKED_EVERY_S = 5.0
"""Who is due for a restart that would cost others something is looked at this often."""


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
        self._kept: dict[str, str] = {}
        """Why a trainer that is due is not restarted, by name: for good, or until others have nothing there."""
        self._others: dict[str, tuple[float, int, int]] = {}
        """When it was last asked what others have on a trainer, and how many tasks and keys, by name."""
        self._alone_since: float | None = None

    def why_recycle(self, name: str) -> str | None:
        """Say why a trainer is due for a restart: training leaks memory, whatever one clears; None if it is not."""
        trainer = self._trainers.present.get(name)
        evaluations = self._trainers.evaluations.get(name, 0)
        if trainer is None or self._trainers.used.get(name) or name in self._trainers.restarting:
            return None
        if trainer.paused:
            return "paused for its memory"
        due = self._recycle_after and evaluations >= self._recycle_after
        return f"after {evaluations} evaluations" if due else None

    def recycle(self, name: str) -> None:
        """Restart a trainer that is due, and whose process nobody else needs.

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
        """Say why the process of an idle trainer is not ended, though it is due; None: it may be ended."""
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
        """Count tasks and keys that others would lose with a trainer's process; asked now and then only."""
        now = time.monotonic()
        asked, tasks, keys = self._others.get(name, (-math.inf, 0, 0))
        if now - asked >= ASKED_EVERY_S or not (tasks or keys):
            tasks, keys = self._trainers.others(name)
            self._others[name] = now, tasks, keys
        return tasks, keys

    def _say_kept(self, name: str, why: str, kept: str) -> None:
        """Say once per trainer that it should be restarted and isn't."""
        is_said = name in self._kept
        self._kept[name] = kept
        if is_said:
            return
        words = f"{name} {why} is not restarted, because {kept}: its memory grows with each evaluation"
        logger.warning("%s; start providers and trainers as workers of their own for long runs", words)
        note(self._record, "not recycled", words, worker=name)

    def check_any(self, now: float) -> None:
        """See whether there is a trainer, or there will be (`now` by the monotonic clock).

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
            raise NoTrainer(
                f"no worker with the resource {self._trainers.claimed} for {NO_TRAINER_S:g} s"
                + (f" but those that can't end an evaluation that was given up ({stuck})" if stuck else "")
                + f": {self._trainers.how_to_start_one}. Then run the same command again to go on"
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
        others = self._lost_with_it(place)
        if others is None and self._trainers.restart(place):
            return f"its trainer {place} was restarted"
        self._trainers.stick(place, key)
        why = others or "has no nanny"
        words = f"its trainer {place} {why} and goes on with it: it gets no other until it has ended"
        logger.warning("%s was given up; %s", what, words)
        return words

    def _lost_with_it(self, place: str) -> str | None:
        """Say what others would lose if a busy trainer's process were ended; None: nothing that counts.

        Where the one thread is taken, tasks of others only wait, and run elsewhere. Of one that is silent nobody gets
        anything any more.
        """
        trainer = self._trainers.present.get(place)
        if trainer is None or not trainer.nanny or self._trainers.is_silent(place):
            return None
        tasks, keys = self._what_others_have(place)
        if not keys and (not tasks or trainer.threads == 1):
            return None
        return f"has {say_count(tasks, 'task')} and {say_count(keys, 'result')} of others"

    def _standing_still(self) -> dict[str, str]:
        """Return idle trainers that are paused and not restarted, and why not."""
        present, used = self._trainers.present, self._trainers.used
        return {
            name: why
            for name, why in self._kept.items()
            if name in present and present[name].paused and not used.get(name)
        }

    def _end_stuck(self) -> None:
        """End the processes of evaluations that were given up, once others have nothing there any more."""
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
