"""What a search could use of trainers, said to the scheduler, for clusters that adapt themselves to it."""

from __future__ import annotations

import logging
import math
import time
from typing import Any

from daskevo.deploy.scaling_signal import TrainerDemand
from daskevo_workflows.execution.scheduler_lost import NO_ANSWER

logger = logging.getLogger(__name__)

SAID_EVERY_S = 1.0
"""A change is said this often: each costs a message, and clusters don't look more often."""
ASKED_EVERY_S = 10.0
"""Who waits for a trainer asks this often whether the cluster is still adaptive."""


class Demand:
    """One search's demand.

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
        """Say how many evaluations could be under way."""
        now = time.monotonic()
        if evaluations != self._said and now - self._when > SAID_EVERY_S:
            self._say(evaluations, now)

    def is_met_later(self) -> bool:
        """Return whether the cluster is adaptive: it will start a trainer for who has none."""
        now = time.monotonic()
        if now - self._when > ASKED_EVERY_S:
            self._say(self._said or 0, now)
        return self._adaptive

    def close(self) -> None:
        """Say that no more is wanted."""
        if self._said:
            self._say(0, time.monotonic())

    def _say(self, evaluations: int, now: float) -> None:
        self._said, self._when = evaluations, now

        def say() -> Any:
            # A client that gave its scheduler up has none any more.
            want = self._client.scheduler.daskevo_want_trainers
            return self._client.sync(want, client=self._client.id, search=self._search, evaluations=evaluations)

        self._adaptive = bool(self._tell("said", say))

    def _tell(self, what: str, call: Any) -> Any:
        try:
            return call()
        except NO_ANSWER as error:
            # A scheduler that is gone is noticed, and said, where the run asks it for its trainers.
            logger.warning("what the search could use of trainers could not be %s: %s", what, error)
            return None
