"""What a run keeps alive in its repository: label changes carried out, and samples of what they add up to."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping

from daskevo.errors import ClusterError, ModelLost, ModelRetired, SchedulerUnreachable, UnknownModel
from daskevo.repository import Repository
from daskevo.runs import LabelChange, RunRecord
from daskevo_workflows.execution.event_kinds import STORAGE
from daskevo_workflows.execution.event_log import note

logger = logging.getLogger(__name__)

STORAGE_S = 3.0
"""Least time between two samples of what the repository holds."""
CHOOSING_S = 60.0
"""How long a label is kept for evaluations that have not chosen their ancestor yet."""


class Holdings:
    """The repository's side of a run's labels.

    Parameters
    ----------
    repository:
        Where the models are.
    record:
        Has the label changes that were decided and not carried out yet, and gets the samples.
    choosing:
        Returns the keys of the evaluations under way that have not chosen their ancestor yet.
    """

    def __init__(self, repository: Repository, record: RunRecord, choosing: Callable[[], Collection[str]]) -> None:
        self.storage: Mapping[str, int] = {}
        """The last sample: stored_bytes, full_copy_bytes, live_models."""
        self._repository = repository
        self._record = record
        self._choosing = choosing
        self._sampled = 0.0
        self._waits: dict[int, tuple[float, frozenset[str]]] = {}

    def change_labels(self) -> None:
        """Carry out the label changes in the record, in order: what is given comes before what is taken.

        What is taken waits for the evaluations that were under way when it was decided, until they have chosen their
        ancestor. So they find what they would have found, had the decision taken longer: on one trainer a run of the
        same seed is the same run.
        """
        carried_out: list[int] = []
        for number, change in self._record.label_changes():
            if self._must_wait(number, change):
                break
            try:
                getattr(self._repository, change.action)(change.model_id, change.label)
            except (ModelLost, ModelRetired, UnknownModel) as error:
                note(self._record, "label", f"{change.action} {change.label} on {change.model_id}: {error}")
            except SchedulerUnreachable:
                raise
            except ClusterError as error:
                # Home is being opened elsewhere; the change stays in the record and is tried again with the next.
                logger.info("label changes are put off: %s", error)
                break
            carried_out.append(number)
            self._waits.pop(number, None)
        if carried_out:
            self._record.labels_changed(carried_out)

    def go_on(self) -> None:
        """Carry out the label changes that had to wait and need not any more."""
        if self._waits:
            self.change_labels()

    def _must_wait(self, number: int, change: LabelChange) -> bool:
        """Tell whether a change has to wait for evaluations to choose their ancestor."""
        if change.action != "release":
            return False
        now = time.monotonic()
        since, waiting = self._waits.get(number, (now, None))
        choosing = self._choosing()
        left = frozenset(choosing) if waiting is None else waiting.intersection(choosing)
        self._waits[number] = since, left
        return bool(left) and now - since < CHOOSING_S

    def sample(self, *, at_once: bool = False) -> None:
        """Ask what the repository holds, and record it; unless `at_once`, only if the last sample is old enough."""
        now = time.monotonic()
        if now - self._sampled < STORAGE_S and not at_once:
            return
        self._sampled = now
        try:
            stats = self._repository.stats()
        except ClusterError as error:
            logger.info("what the repository holds can't be asked now: %s", error)
            return
        self.storage = {
            "stored_bytes": int(stats["payload_bytes"]),
            "full_copy_bytes": int(stats["full_copy_bytes"]),
            "live_models": int(stats["models"]),
        }
        self._record.event(STORAGE, "", **self.storage)
