"""A run function whose models inherit: build, inherit the longest prefix, train, score, put, and tell DeepHyper."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from deephyper.evaluator import JobStatus, RunningJob

from daskevo.errors import InvalidInput, ModelExists, ModelLost, ModelRetired, NotFinite, UnknownModel
from daskevo.freeze_policy import FreezePolicy
from daskevo.repository import Repository
from daskevo.space import Space
from daskevo.types import Objective, check_label, check_name
from daskevo_plugins.deephyper.outcomes import failure
from daskevo_plugins.deephyper.spaces import options_of
from daskevo_plugins.deephyper.storage import DaskStorage

DATA_KEPT = 2
"""Problems whose data a process keeps."""
_data: OrderedDict[str, Any] = OrderedDict()

Train = Callable[[Any, RunningJob], Any]


class TransferRunFunction:
    """Made by :func:`transfer_run_function`; called with a job, on a trainer.

    Attributes
    ----------
    repository:
        Where the models are.
    objective:
        What counts as better.
    label:
        What keeps the models that it puts.
    """

    def __init__(
        self,
        problem: Any,
        train: Train | None,
        repository: Repository,
        objective: Objective,
        label: str,
        freeze: Any,
        minimum_layers: int,
        seed: int,
    ) -> None:
        self.problem = problem
        self.train = train
        self.repository = repository
        self.objective = objective
        self.label = label
        self.freeze = freeze
        self.minimum_layers = minimum_layers
        self.seed = seed
        # Goes to trainers with the function: a process that has loaded this problem's data finds them by it.
        self._key = uuid.uuid4().hex

    def __repr__(self) -> str:
        return f"<{type(self).__name__} into {self.repository!r}, {self.objective}>"

    def __call__(self, job: RunningJob) -> dict[str, Any]:
        from daskevo.models import leaving_no_trace, seeded

        parameters = dict(job.parameters)
        text = f"{self.seed} {json.dumps(parameters, sort_keys=True, default=str)}"
        # By what is trained, never by the job's number or its worker.
        # 31 bits, as Keras and NumPy take a seed.
        number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big") >> 1
        with seeded(number), leaving_no_trace():
            return self._evaluated(job, parameters)

    def release(self, model_id: str) -> None:
        """Let go of a model: with no other label it is retired, and its tensors go once no descendant needs them."""
        with suppress(ModelLost, ModelRetired, UnknownModel):
            self.repository.release(model_id, self.label)

    def _evaluated(self, job: RunningJob, parameters: dict[str, Any]) -> dict[str, Any]:
        problem = self.problem.load() if hasattr(self.problem, "load") else self.problem
        model = _built(problem, parameters)
        # A job whose worker died after its put finds its model, and trains nothing.
        model_id = str(job.id) if isinstance(job.storage, DaskStorage) else None
        wish = {"freeze": self.freeze, "minimum_layers": self.minimum_layers}
        try:
            with self.repository.inherit(model, model_id=model_id, parent=_parent(job), **wish) as child:
                return self._trained(job, problem, child)
        except ModelExists as error:
            record = getattr(error, "record", None)
            if record is None or not isinstance(record.extra, Mapping) or record.extra.get("parameters") != parameters:
                raise
            return self._outcome(record.model_id, record.metrics, record.extra)

    def _trained(self, job: RunningJob, problem: Any, child: Any) -> dict[str, Any]:
        metrics = self._metrics(job, problem, child.model)
        if self.objective.metric not in metrics:
            raise InvalidInput(
                f"the objective is {str(self.objective)!r}, and training gave "
                f"{', '.join(sorted(metrics)) or 'no metrics'}: return one of that name"
            )
        if self.objective.quality(metrics) is None:
            return failure("not_finite", f"{self.objective.metric} is {metrics[self.objective.metric]}")
        # Nobody would ever release the model.
        if job.status is JobStatus.CANCELLED:
            return failure("CANCELLED", "nobody waits for it any more")
        inherited = child.report.inherited_tensors > 0
        extra = {
            "parameters": dict(job.parameters),
            "ancestor": child.ancestor if inherited else None,
            "frozen_share": float(child.frozen_share),
        }
        try:
            child.put(metrics=metrics, step=_steps(child.model), labels=[self.label], extra=extra, finite=True)
        except NotFinite as error:
            return failure("not_finite", error.message)
        return self._outcome(child.model_id, metrics, extra)

    def _metrics(self, job: RunningJob, problem: Any, model: Any) -> dict[str, Any]:
        if self.train is None:
            return _trained_by(problem, model, job, self.objective, self._key)
        found = self.train(model, job)
        if isinstance(found, Mapping):
            return {str(name): value for name, value in found.items()}
        return {self.objective.metric: found}

    def _outcome(self, model_id: str, metrics: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
        quality = self.objective.quality(dict(metrics))
        assert quality is not None
        # DeepHyper maximises; the metadata have the true figures.
        about = {"model_id": str(model_id), "ancestor": extra["ancestor"], "frozen_share": extra["frozen_share"]}
        numbers = {name: float(value) for name, value in metrics.items() if _is_number(value)}
        return {"objective": self.objective.rank(quality), "metadata": {**numbers, **about}}


def transfer_run_function(
    problem: Any,
    train: Train | None = None,
    *,
    repository: Repository,
    objective: str | Objective | None = None,
    label: str = "search:deephyper",
    freeze: Any = "prefix",
    minimum_layers: int = 0,
    seed: int = 0,
) -> TransferRunFunction:
    """Make a run function for DeepHyper's searches whose models inherit from each other.

    Each model gets the longest prefix that a model of the repository shares with it, frozen unless told otherwise; what
    it trained is stored for those that come later.

    Parameters
    ----------
    problem:
        ``build(parameters)``, which returns a fresh, uncompiled Keras model; or a problem of daskevo's, with `build`,
        `compile`, `data` and `score`, whose `space` is a `Space` (for `to_hp_problem`), or a reference to one.
    train:
        ``train(model, job)``, which compiles, fits and scores the model, and returns its metrics by name, or the
        objective's alone. Nothing is negated. Use the Keras callback :func:`daskevo_plugins.deephyper.follow` for
        stoppers and time limits. A problem of daskevo's has its own.
    repository:
        Of the same cluster.
    objective:
        ``max METRIC`` or ``min METRIC``; the repository's when None. DeepHyper maximises, so that its column
        ``objective`` has a minimised metric negated; the column ``m:METRIC`` has it as it is.
    label:
        What keeps the models, until `release`.
    freeze, minimum_layers:
        As `Repository.inherit` takes them.
    seed:
        With the parameters, it seeds weights and shuffling.

    Returns
    -------
    TransferRunFunction
        Its results have the metadata ``model_id``, ``ancestor``, ``frozen_share`` and all metrics. Give its `release`
        to a search as `on_leave`.

    Raises
    ------
    InvalidInput
        If there is no objective, or two, nothing that trains, or no such policy to freeze.
    """
    stated = objective if isinstance(objective, Objective | None) else Objective.parse(objective)
    if stated is None and repository.objective is None:
        raise InvalidInput("nothing says what counts as better: give objective='max METRIC' or 'min METRIC'")
    if None not in (stated, repository.objective) and stated != repository.objective:
        raise InvalidInput(f"the objective {str(stated)!r} was given, and the repository's is '{repository.objective}'")
    whole = hasattr(problem, "load") or all(
        callable(getattr(problem, part, None)) for part in ("build", "compile", "data", "score")
    )
    if train is None and not whole:
        raise InvalidInput("give train=, a function of a model and a job; or a problem that can be compiled and scored")
    if not whole and not callable(getattr(problem, "build", problem)):
        raise InvalidInput(f"{type(problem).__name__} makes no models: give a function of the parameters, or a problem")
    FreezePolicy.parse(freeze)  # here, as otherwise each job would fail
    chosen = stated if stated is not None else repository.objective
    assert chosen is not None
    return TransferRunFunction(problem, train, repository, chosen, check_label(label), freeze, minimum_layers, seed)


def _built(problem: Any, parameters: Mapping[str, Any]) -> Any:
    build = getattr(problem, "build", problem)
    if not hasattr(problem, "space"):
        return build(dict(parameters))
    space = problem.space()
    if not isinstance(space, Space):
        raise InvalidInput(f"problem {problem.name!r} has a conditional space: search it with daskevo_workflows.nas")
    return build(options_of(space, parameters))


def _trained_by(problem: Any, model: Any, job: RunningJob, objective: Objective, key: str) -> dict[str, Any]:
    """Train as a problem of daskevo's says, and return its metrics."""
    from daskevo_plugins.deephyper.keras_callback import follow

    if key not in _data:
        _data[key] = problem.data()
        while len(_data) > DATA_KEPT:
            _data.popitem(last=False)
    data = _data[key]
    problem.compile(model)
    options = {
        "epochs": problem.epochs,
        "batch_size": problem.batch_size,
        "callbacks": [*(problem.callbacks() if hasattr(problem, "callbacks") else ()), follow(job, objective)],
        "verbose": 0,
    }
    if hasattr(problem, "fit"):
        history = problem.fit(model, *data.train, **options)
    else:
        history = model.fit(*data.train, **options)
    metrics = {name: values[-1] for name, values in history.history.items() if values}
    return {**metrics, **problem.score(model, data)}


def _parent(job: RunningJob) -> str | None:
    """Return the model whose configuration was mutated, where the search says so."""
    with suppress(KeyError):  # a storage that lost its data on the way here
        parent = job.storage.load_job(job.id)["metadata"].get("parent")
        return None if parent is None else check_name(parent)
    return None


def _steps(model: Any) -> int:
    optimizer = getattr(model, "optimizer", None)
    return 0 if optimizer is None else int(np.asarray(optimizer.iterations))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
