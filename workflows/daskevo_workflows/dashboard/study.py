"""Show studies on the dashboard: snapshots of their state, taken in the controller's thread and sent separately."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from daskevo_workflows.dashboard.dashboard_client import Sender
from daskevo_workflows.studies.participants import CrewEvents, Watcher

logger = logging.getLogger(__name__)


class Showing:
    """Shows a controller's studies on the scheduler's dashboard.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    """

    def __init__(self, client: Any) -> None:
        self._sender = Sender(client, "studies")
        self._studies: dict[int, Watcher] = {}

    def look(self, controller: CrewEvents) -> None:
        """Take snapshots of the state and send them, if it is time."""
        if self._sender.is_due():
            self._show(controller, controller.watchers)

    def close(self, controller: CrewEvents) -> None:
        """Report that all studies have ended."""
        if self._sender.has_last_word:
            self._show(controller, [])
            self._sender.wait()

    def _show(self, controller: CrewEvents, present: Sequence[Watcher]) -> None:
        began_s = time.thread_time()
        try:
            # By identity; studies are kept here, so that no other object gets the id of one that has ended.
            there = {id(study): study for study in present}
            # A study that has left the controller has ended: its last picture says so, once.
            gone = [study for number, study in self._studies.items() if number not in there]
            self._studies = there
            pictures = [study.picture(controller.scheduler, is_over=True) for study in gone]
            pictures += [study.picture(controller.scheduler) for study in present]
            self._sender.send(pictures, time.thread_time() - began_s)
        except Exception:
            # An exception raised here would end all studies.
            logger.exception("studies can't be shown on the dashboard any more")
            self._sender.given_up = True
