"""Begin or resume a training in stages, and check beforehand whether a problem can be trained so."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from daskevo.errors import InvalidInput
from daskevo.extras import need_tensorflow
from daskevo.repository import Snapshot
from daskevo.tuning import Configuration, Trajectory
from daskevo_workflows.evaluation.quiet_import import import_keras
from daskevo_workflows.stage_training.protocol import Training

REMEMBERED = 256
_checked: OrderedDict[tuple[int, bytes], tuple[Any, tuple[str, ...]]] = OrderedDict()


def begin(problem: Any, trajectory: Trajectory, data: Any, *, seed: int) -> Training:
    """Begin to train a problem's model along a trajectory: nothing is trained yet.

    Parameters
    ----------
    problem:
        With `build`, `compile` and `score` (see :class:`daskevo_workflows.problems.Problem`), or with a `training_loop`
        and nothing of Keras.
    trajectory:
        The hyper-parameters by step; its origin names model, data, seed and ancestor.
    data:
        What the problem's `data` returns: arrays, or ``Data(train=(dataset, None), ...)`` with a PyDataset.
    seed:
        0 to 2**32 - 1. Initial weights, dropout, the order of the data and all else that is drawn follow from it.

    Raises
    ------
    InvalidInput
        If this can't be trained in stages; the message says what to do.
    """
    return _training(problem, trajectory, data, seed, None)


def resume(
    problem: Any, trajectory: Trajectory, data: Any, snapshot: Snapshot, *, seed: int, other_versions: bool = False
) -> Training:
    """Go on from a snapshot, as if the training had never been cut.

    Parameters
    ----------
    problem, trajectory, data, seed:
        As for :func:`begin`; the trajectory is the snapshot's own until its step, and any other from there.
    snapshot:
        Of such a training.
    other_versions:
        Go on also if Keras, TensorFlow, numpy or daskevo had other versions: then what follows is a training as good as
        any, but perhaps not the same bits.

    Raises
    ------
    InvalidInput
        If the snapshot is of another model, other data, another seed, trajectory or optimizer, or other versions.
    CorruptRecord
        If it isn't a snapshot of such a training.
    """
    return _training(problem, trajectory, data, seed, snapshot, other_versions)


def check(problem: Any, configuration: Configuration, data: Any = None, *, until: int = 1) -> None:
    """Check that a problem can be trained in stages: its model is built and compiled, and nothing is trained.

    Parameters
    ----------
    data:
        If given, they are looked at too, batch sizes are held against them, and the problem's `batch` gets a sample.
    until:
        Values of hyper-parameters until this step are looked at.

    Raises
    ------
    InvalidInput
        If it can't: a hyper-parameter that nobody takes, a batch size that isn't one, a callback or data that can't be
        split, ...
    """
    configuration.check(until)
    if own_loop(problem):
        return
    check_backend(problem)
    import_keras()
    from daskevo_workflows.stage_training.augmentation import augmented
    from daskevo_workflows.stage_training.compiled import compiled
    from daskevo_workflows.stage_training.data import feed_of
    from daskevo_workflows.stage_training.schedule import Schedule

    # What is built and what takes which name depend on the header alone: trials of a study mostly share it.
    key = id(problem), configuration.header
    known = _checked.get(key)
    if known is None:
        made = compiled(problem, configuration, 0)
        if all(problem is not other for other, _ in _checked.values()):
            made.warn_of_what_is_not_checked()
        # The problem is kept with its entry, so that no other gets its id.
        known = _checked[key] = problem, made.others
        while len(_checked) > REMEMBERED:
            _checked.popitem(last=False)
    if data is None:
        return
    feed = feed_of(data)
    Schedule(configuration, (), feed, problem).check(0, until)
    if known[1]:
        values = {**configuration.constants, **configuration.at(0)}
        augmented(problem, feed.first(), values, known[1], 0, 0)


def data_digest(data: Any) -> str:
    """Return a digest of training data by their content, for origins of trajectories.

    Of a PyDataset, the first and the last batch count.

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    import_keras()
    from daskevo_workflows.stage_training.data import feed_of

    return feed_of(data).digest


def own_loop(problem: Any) -> bool:
    """Whether a problem has a training loop of its own."""
    return callable(getattr(problem, "training_loop", None))


def check_backend(problem: Any) -> None:
    """Check that Keras' backend can train a problem in stages: TensorFlow alone has states that go on bit for bit here.

    Raises
    ------
    InvalidInput
        If it is another, and the problem has no training loop of its own.
    """
    if not own_loop(problem):
        need_tensorflow("a Keras model that is trained in stages, by a study or a strategy that continues trainings,")


def _training(
    problem: Any, trajectory: Trajectory, data: Any, seed: int, snapshot: Snapshot | None, other_versions: bool = False
) -> Training:
    if type(seed) is not int or not 0 <= seed < 2**32:
        raise InvalidInput(f"a training's seed is {seed!r:.40}, expected a whole number from 0 to 2**32 - 1")
    if own_loop(problem):
        from daskevo_workflows.stage_training.loops import LoopTraining

        return LoopTraining(problem, trajectory, data, seed, snapshot, other_versions)
    check_backend(problem)
    import_keras()
    from daskevo_workflows.stage_training.training import KerasTraining

    return KerasTraining(problem, trajectory, data, seed, snapshot, other_versions)
