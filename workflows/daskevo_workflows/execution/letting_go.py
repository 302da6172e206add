"""The end of a run: its cancelled tasks are waited for, then trainers that have not ended them are restarted.

Nobody would restart them later, and the next run on the cluster would find them taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from daskevo_workflows.execution.run_deadline import grace_s
from daskevo_workflows.execution.trainers import Trainer, Trainers

Task = TypeVar("Task")

LETTING_GO_S = 10.0
"""How long cancelled tasks may take to end. Most notice after their current batch of data, or step."""


def hurried_s() -> float:
    """Return that time for a process that must exit and waits twice: a quarter of its grace at most."""
    return min(LETTING_GO_S, grace_s() / 4)


def let_go(
    running: Callable[[], Sequence[tuple[Task, Trainer]]],
    end: Callable[[Task], object],
    trainers: Trainers,
    take_in: Callable[[float], object],
    patience_s: float,
) -> None:
    """Wait until cancelled tasks have ended; restart the trainers of those that have not, and wait for that.

    Parameters
    ----------
    running:
        Returns the cancelled tasks that have begun and have not said that they are over, each with its trainer.
    end:
        Ends one together with its trainer's process.
    take_in:
        Takes in what has happened; waits for something to happen, at most this many seconds.
    patience_s:
        How long to wait for tasks, and then for restarts. 0: nobody is waited for, and no process is ended.

    Raises
    ------
    SchedulerUnreachable
    """
    if not patience_s:
        return

    def wait(is_due: Callable[[], object]) -> None:
        until = time.monotonic() + patience_s
        take_in(0.0)  # what has been said already counts, however long that took
        while is_due() and (left_s := until - time.monotonic()) > 0:
            take_in(left_s)

    wait(running)
    if not running():
        return
    there = {trainer.address for trainer in trainers.refresh().values()}
    for task, trainer in running():
        if trainer.address in there:
            end(task)
    wait(lambda: trainers.restarting)
