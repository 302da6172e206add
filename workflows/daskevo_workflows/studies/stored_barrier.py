"""Waiting for what is stored beside the training: an answer is told before its state is stored."""

from __future__ import annotations

import time
from collections.abc import Callable

from daskevo.tuning.plan import State
from daskevo_workflows.studies.controller import Controller

STORED_S = 60.0
"""How long at most: a state that isn't stored by then is trained again if somebody wants it."""


def until_stored(
    controller: Controller, is_meant: Callable[[State], bool] = lambda state: True, limit_s: float = STORED_S
) -> None:
    """Wait until the states that were answered, or those that are meant, are stored, or nobody stores them any more."""

    def under_way() -> bool:
        return any(map(is_meant, controller.scheduler.under_way.storing()))

    until = time.monotonic() + limit_s
    while controller.failure is None and controller.look(under_way) and time.monotonic() < until:
        time.sleep(0.05)
