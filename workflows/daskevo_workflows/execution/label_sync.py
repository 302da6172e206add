"""Apply a run's label changes in its repository, and sample how much it stores."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from daskevo.errors import ClusterError, ModelLost, ModelRetired, SchedulerUnreachable, UnknownModel
from daskevo.repository import Repository
from daskevo.runs import LabelChange, RunRecord
from daskevo_workflows.evaluation.training_part import state_name
from daskevo_workflows.execution.event_kinds import STORAGE
from daskevo_workflows.execution.event_log import note

logger = logging.getLogger(__name__)

STORAGE_S = 3.0
"""Minimum time between two samples of the repository's size."""
SETTLED_S = 5.0
"""Longest wait until attempts of evaluations that were given up are settled."""
CHOOSING_S = 60.0
"""Longest time for which a label is kept for evaluations that have not chosen their ancestor yet."""


class Holdings:
    """Applies label changes from the record to the repository.

    Parameters
    ----------
    repository:
        Where the models are.
    record:
        Holds label changes that are still due; gets the samples.
    choosing:
        Returns the keys of matched and running evaluations that have not chosen their ancestor yet.
    state_label:
        Label that keeps models' states, too, where trainings are continued; None: there are none.
    """

    def __init__(
        self,
        repository: Repository,
        record: RunRecord,
        choosing: Callable[[], Collection[str]],
        state_label: str | None = None,
    ) -> None:
        self.storage: Mapping[str, int] = {}
        """The last sample: stored_bytes, full_copy_bytes, live_models."""
        self._repository = repository
        self._record = record
        self._choosing = choosing
        self._state_label = state_label
        self._sampled = 0.0
        self._waits: dict[int, tuple[float, frozenset[str]]] = {}
        self._due: list[LabelChange] = []

    def change_labels(self) -> None:
        """Carry out the label changes in the record, in order: labels are added before others are removed.

        Removing a label waits until the evaluations that were matched or running at the time of the decision have
        chosen their ancestor. So the choice does not depend on how fast the decision was made, and on one trainer runs
        with the same seed are equal.
        """
        carried_out: list[int] = []
        due = self._record.label_changes()
        now, choosing = time.monotonic(), frozenset(self._choosing())
        for number, change in due:
            # Noted for all at once: whoever is matched while a first change waits must not make a later one wait, too.
            if change.action == "release":
                self._waits.setdefault(number, (now, choosing))
        for number, change in due:
            # Changes are carried out in order, so those after it wait as well.
            since, waiting = self._waits.get(number, (now, frozenset()))
            if waiting & choosing and now - since < CHOOSING_S:
                break
            try:
                self._change(change)
            except SchedulerUnreachable:
                raise
            except ClusterError as error:
                # The home shard is moving; the change stays in the record and is tried again with the next one.
                logger.info("label changes are put off: %s", error)
                break
            carried_out.append(number)
            self._waits.pop(number, None)
        self._due = [change for _, change in due[len(carried_out) :]]
        if carried_out:
            self._record.labels_changed(carried_out)

    def _change(self, change: LabelChange) -> None:
        change_label = getattr(self._repository, change.action)
        try:
            change_label(change.model_id, change.label)
        except (ModelLost, ModelRetired, UnknownModel) as error:
            note(self._record, "label", f"{change.action} {change.label} on {change.model_id}: {error}")
        if change.label == self._state_label:
            # There may be none: nothing goes on from the last part, and a state may have found no room.
            with suppress(ModelLost, ModelRetired, UnknownModel):
                change_label(state_name(change.model_id), change.label)

    def wait_until_settled(self) -> None:
        """Wait until the fate of attempts that have ended is decided: no put of theirs is published after that."""
        until = time.monotonic() + SETTLED_S
        with suppress(ClusterError):
            while self._repository.stats()["unsettled"] and time.monotonic() < until:
                time.sleep(0.05)

    def release(self, model_id: str, label: str) -> None:
        """Release a model that no label change in the record is about."""
        try:
            with suppress(ModelLost, ModelRetired, UnknownModel):
                self._repository.release(model_id, label)
        except SchedulerUnreachable:
            raise
        except ClusterError as error:
            # The next session looks again.
            logger.info("%s can't be released now: %s", model_id, error)

    def release_strays(self, wanted: Collection[str]) -> None:
        """Release the states of all models but these.

        A state is put after its model, so a trainer that was given up in between may put it when the model has left.
        """
        if self._state_label is None:
            return
        kept = {state_name(model_id) for model_id in wanted}
        try:
            for found in self._repository.snapshots():
                if self._state_label in found.labels and found.name not in kept:
                    with suppress(ModelLost, ModelRetired, UnknownModel):
                        self._repository.release(found.name, self._state_label)
        except SchedulerUnreachable:
            raise
        except ClusterError as error:
            # The next session looks again.
            logger.info("states of models that have left can't be released now: %s", error)

    @property
    def leaving(self) -> frozenset[str]:
        """Models from which a label is still to be removed."""
        return frozenset(change.model_id for change in self._due if change.action == "release")

    def go_on(self) -> None:
        """Carry out label changes that had to wait, if they need not any more."""
        if self._waits:
            self.change_labels()

    def sample(self, *, at_once: bool = False) -> None:
        """Record the repository's size, if the last sample is old enough or `at_once` is set."""
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
            "live_models": int(stats["models"]) - int(stats["snapshots"]),
        }
        self._record.event(STORAGE, "", **self.storage)
