"""Which data a run's qualities are of: what its trainers have prepared, by their data key, and whether it may go on."""

from __future__ import annotations

import logging

from daskevo.errors import RunMismatch
from daskevo.runs import RunRecord
from daskevo_workflows.execution.event_kinds import DATA, OTHER_DATA
from daskevo_workflows.execution.event_log import note
from daskevo_workflows.problems.content import PYTHON, VERSION

logger = logging.getLogger(__name__)


class RunData:
    """The data of one run, in this session.

    A run that has a finished evaluation goes on with its own data only. Data that differed in the session that it began
    in differ at each call of `data()`, and a problem that states a version answers for them: then it is said once for
    each, and the run goes on.

    Parameters
    ----------
    record:
        Of the run.
    has_finished:
        Whether an evaluation of it has finished.
    is_versioned:
        Whether the problem states a version.

    Attributes
    ----------
    allowed:
        Digests of the data that trainers may train with; none: all.
    """

    def __init__(self, record: RunRecord, *, has_finished: bool, is_versioned: bool) -> None:
        self._record = record
        others = record.events(OTHER_DATA)
        begun = [event for event in record.events(DATA) if has_finished and event.facts.get("python", PYTHON) == PYTHON]
        self._known = [str(event.facts.get("digest")) for event in (*begun[-1:], *others)]
        is_strict = record.resumed and begun and not others and not is_versioned
        self.allowed = tuple(self._known) if is_strict else ()

    def seen(self, rows: str | None, worker: str) -> None:
        """Take in the data key of what a trainer has prepared; None: it can't be looked into.

        Raises
        ------
        RunMismatch
            If the run can't go on with it.
        """
        if rows is None or rows in self._known:
            return
        if self.allowed:
            raise self.mismatch(worker)
        if not self._known:
            self._record.event(DATA, f"as {worker} has prepared them", digest=rows, python=PYTHON)
        else:
            words = (
                f"the data that {worker} has prepared aren't those that this run began with: data() gives others at "
                "each call, or what it reads has changed since. Qualities of both can't be compared: begin a new run, "
                "in another folder"
            )
            logger.warning("%s", words)
            note(self._record, OTHER_DATA, words, worker=worker, digest=rows)
        self._known.append(rows)

    def mismatch(self, worker: str) -> RunMismatch:
        """Return what ends a session whose trainers have other data than the run began with."""
        return RunMismatch(
            f"{self._record.folder} holds a run on other data than {worker} has prepared: what data() reads has "
            "changed since the run was begun, or data() gives others at each call. Nothing was trained on them. Go on "
            "with the data as they were, or take another folder (and another scope, if the repository is shared) for a "
            f'new run. A problem that says {VERSION} = "1" before its run is begun answers for its data itself',
            path=str(self._record.folder),
            parts=["data"],
        )
