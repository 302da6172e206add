"""Tell the scheduler how many trainers a search could use, for adaptive clusters."""

from __future__ import annotations

import logging
import math
import time
from typing import Any

from daskevo.deploy.scaling_signal import TrainerDemand
from daskevo_workflows.execution.scheduler_lost import NO_ANSWER

logger = logging.getLogger(__name__)

SAID_EVERY_S = 1.0
"""Minimum time between two messages about a change; clusters don't look more often."""
ASKED_EVERY_S = 10.0
"""Interval at which a search without trainers asks whether the cluster is still adaptive."""


class Demand:
    """The demand of one search for trainers.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    search:
        The run's name, unique within the client.
    """

    def __init__(self, client: Any, search: str) -> None:
        self._client = client
        self._search = search
        self._said: int | None = None
        self._when = -math.inf
        self._adaptive = False
        self._tell("registered", lambda: client.register_plugin(TrainerDemand()))

    def say(self, evaluations: int) -> None:
        """Report how many evaluations could run now."""
        now = time.monotonic()
        if evaluations != self._said and now - self._when > SAID_EVERY_S:
            self._say(evaluations, now)

    def is_met_later(self) -> bool:
        """Return whether the cluster is adaptive, so that it will start a trainer."""
        now = time.monotonic()
        if now - self._when > ASKED_EVERY_S:
            self._say(self._said or 0, now)
        return self._adaptive

    def close(self) -> None:
        """Report that no trainer is needed any more."""
        if self._said:
            self._say(0, time.monotonic())

    def _say(self, evaluations: int, now: float) -> None:
        self._said, self._when = evaluations, now

        def say() -> Any:
            # Looked up at each call: a client that has given its scheduler up has none, which raises.
            want = self._client.scheduler.daskevo_want_trainers
            return self._client.sync(want, client=self._client.id, search=self._search, evaluations=evaluations)

        self._adaptive = bool(self._tell("said", say))

    def _tell(self, what: str, call: Any) -> Any:
        try:
            return call()
        except NO_ANSWER as error:
            # A lost scheduler is detected and reported where the run asks it for its trainers.
            logger.warning("what the search could use of trainers could not be %s: %s", what, error)
            return None
