"""The identity of a run, equal from Python and from the command line.

There are four different keys (docs/identity.md); each cache and each comparison uses one of them:

- *vertex id*: these layers may share weights. :mod:`daskevo.graph.identity`; best matches, stored models.
- *training key*: this is the same training. :func:`daskevo.models.training_key` with :func:`daskevo.runs.identity`;
  duplicates of a search.
- *data key*: these are the same rows. :func:`data_key`; studies and their snapshots.
- *problem key*: this is the same problem. :mod:`daskevo_workflows.problems.content`; records of runs, modules and data
  that processes keep, snapshots.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from daskevo.code_identity import made_of
from daskevo.extras import TENSORFLOW, keras_backend
from daskevo.runs import RunRecord
from daskevo.search import Strategy
from daskevo.tuning import Unit
from daskevo.types import JSON, Objective
from daskevo_workflows.evaluation.transfer import Transfer
from daskevo_workflows.execution.event_log import note
from daskevo_workflows.execution.passed_functions import Callbacks, passed_identity
from daskevo_workflows.execution.size_limits import SizeLimits
from daskevo_workflows.problems import ProblemReference
from daskevo_workflows.problems.building import space_of
from daskevo_workflows.problems.content import PYTHON, keep_sources, version_of
from daskevo_workflows.problems.source_parts import source_parts

logger = logging.getLogger(__name__)

UNKNOWN = "problem unknown"
"""Kind of the event that names parts of a problem that can't be inspected."""


class DataKey(NamedTuple):
    """The identity of a problem's data.

    Parameters
    ----------
    trained:
        Digest of the training data, as in older records; for a dataset that makes batches, of the first and last one.
        None for a problem with its own training loop.
    whole:
        Digest of all data, including validation data.
    unknown:
        Names of parts that can't be inspected; such data count as different from all others.
    python:
        The version of Python for which `whole` is valid, if it contains user code; None: all versions.
    """

    trained: str | None
    whole: str
    unknown: tuple[str, ...] = ()
    python: str | None = None


def data_key(reference: ProblemReference, data: Any, trained: str | None) -> DataKey:
    """Return the data key; if the problem states a version, parts that can't be inspected are ignored."""
    made = made_of(data, names=["data"])
    unknown = () if version_of(reference.load()) is not None else made.unknown
    return DataKey(trained, made.digest, unknown, PYTHON if made.files else None)


def mind_problem(
    reference: ProblemReference, record: RunRecord, rows: DataKey | None = None, passed: Sequence[str] = ()
) -> None:
    """Store a problem's sources in the run's folder; warn once about parts that can't be compared.

    Parameters
    ----------
    passed:
        Names of objects passed to the search that can't be inspected.
    """
    keep_sources(record.folder, reference.made)
    unknown = (*reference.made.unknown, *(rows.unknown if rows else ()), *passed)
    if unknown and not any(record.events(UNKNOWN)):
        what = f"problem {reference.name!r}{' and what was passed with it' if passed else ''}"
        words = (
            f"of {what} this can't be looked into: {', '.join(unknown)}. So nobody "
            "can tell whether it is the same when the run is to go on, and it won't: begin a new one with "
            'problem_version = "1" in the problem, and give it another version when it changes'
        )
        logger.warning("%s", words)
        note(record, UNKNOWN, words)


def problem_identity(reference: ProblemReference, rows: DataKey | None = None) -> dict[str, JSON]:
    """Return the identity of a problem and its data for a run's record; `parts` are only for messages."""
    found: dict[str, JSON] = {**reference.to_json(), "parts": source_parts(reference)}
    made = reference.made.to_json() if reference.made.digest else {}
    if rows is not None:
        if rows.trained is not None:
            found["data"] = rows.trained
        made |= {"python": PYTHON, "data": rows.whole} | ({"data_python": rows.python} if rows.python else {})
        if rows.unknown:
            made["unknown"] = [*reference.made.unknown, *rows.unknown]
    return {**found, "made": made} if made else found


def identity_of(
    reference: ProblemReference,
    objectives: Objective | Sequence[Objective],
    strategy: Strategy,
    *,
    seed: int,
    transfer: Transfer,
    control_share: float,
    epochs: int | None,
    limits: SizeLimits | None = None,
    callbacks: Callbacks = (),
    unit: Unit | None = None,
) -> dict[str, JSON]:
    """Return the identity that a run's record stores, and that a resumed run must match.

    The arguments are those of :func:`daskevo_workflows.nas.search`; `unit` is None where candidates are trained in one
    piece.
    """
    problem = reference.load()
    if not isinstance(objectives, Objective) and len(objectives) == 1:
        objectives = objectives[0]
    backend = keras_backend()
    return {
        # The content decides; the parts are stored only to tell the user what changed.
        "problem": problem_identity(reference),
        "space": space_of(problem).to_json(),
        # A single objective stays a string, so that older runs can be resumed.
        "objective": str(objectives) if isinstance(objectives, Objective) else [*map(str, objectives)],
        "seed": seed,
        "strategy": {"name": strategy.name, "settings": strategy.settings},
        # Left out for TensorFlow, as in records of earlier versions of daskevo, which trained with no other.
        **({} if backend == TENSORFLOW else {"backend": backend}),
        "policy": {
            **transfer.to_record(),
            "control_share": control_share,
            "epochs": epochs or problem.epochs,
            "batch_size": problem.batch_size,
            "passed": passed_identity(callbacks, transfer.freeze, is_versioned=version_of(problem) is not None),
            **({"limits": {name: list(bounds) for name, bounds in limits.items()}} if limits else {}),
            **({} if unit is None else {"unit": unit}),
        },
    }
