"""Hyper-parameter studies that train each shared training step only once (paper 002, TreeML)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daskevo.errors import DaskevoError, InvalidInput, InvalidProblem
from daskevo.extras import need, training_packages
from daskevo.space import ModelSpace
from daskevo.tuning import Configuration, ConfigurationSpace, Constant, architectures
from daskevo.tuning.architectures import ARCHITECTURE
from daskevo.types import Objective
from daskevo_workflows.evaluation.failures import say_error
from daskevo_workflows.execution.run_facts import about_run
from daskevo_workflows.execution.run_identity import DataKey, data_key, mind_problem, problem_identity
from daskevo_workflows.execution.scheduler_lost import told_if_scheduler_gone
from daskevo_workflows.execution.synchronous_client import check_can_lead
from daskevo_workflows.problems import Problem, ProblemReference, refer
from daskevo_workflows.problems.building import check_builds, space_of
from daskevo_workflows.problems.reference import data_of
from daskevo_workflows.stage_training import check, data_digest
from daskevo_workflows.stage_training.begin import check_backend, own_loop
from daskevo_workflows.studies.assignment import Setting
from daskevo_workflows.studies.controller import Controller
from daskevo_workflows.studies.crew import DaskCrew
from daskevo_workflows.studies.result import FoundTrial, StudyResult
from daskevo_workflows.studies.stored_snapshots import learn
from daskevo_workflows.studies.study import Study
from daskevo_workflows.studies.study_record import KEEP_BEST, Ledger

if TYPE_CHECKING:
    from daskevo.repository import Repository

__all__ = ["FoundTrial", "Study", "StudyResult", "controller", "study"]


def study(
    problem: str | Path | Problem | ProblemReference,
    space: ConfigurationSpace | None = None,
    *,
    repository: Repository,
    run: str | Path = "run",
    seed: int = 0,
    objective: str | None = None,
    steps: int | None = None,
    controller: Controller | None = None,
    copy_every_s: float | None = 120.0,
    step_limit_s: float | None = 1800.0,
    keep_best: int = KEEP_BEST,
) -> Study:
    """Open a study, or continue the one in its folder.

    Trials that have bit-identical hyper-parameters from the first step on are trained together until they diverge.
    There the training state is stored in the repository as a snapshot. Snapshots of earlier studies with the same
    problem and seed are used too.

    Parameters
    ----------
    problem:
        Name, Python file, object or reference (see :mod:`daskevo_workflows.problems`). Its data are prepared in this
        process too, to check batch sizes; a study can be continued only with the same data.
    space:
        What to tune (:func:`daskevo.tuning.grid`, :func:`daskevo.tuning.conditional`,
        :func:`daskevo.tuning.architectures`); None: the problem's own space, of hyper-parameters or of architectures.
    repository:
        A repository opened on the cluster that trains (`daskevo.open`).
    run:
        The run's folder.
    seed:
        Initial weights, data order, all other random numbers, and the requests of strategies follow from it.
    objective:
        ``max METRIC`` or ``min METRIC``; None: the problem's own.
    steps:
        Length of a full training, in the space's unit, for strategies that don't set it; None: the problem's epochs,
        if the unit is the epoch.
    controller:
        The controller of other studies, to share trainers and running stages with (see :func:`controller`); None: an
        own one.
    copy_every_s:
        Seconds of training after which a copy of the state is stored in case of failures, besides the snapshots where
        trials diverge and end; None: never.
    step_limit_s:
        Time limit of a step, a scoring or a snapshot, in seconds; used if the study has its own controller.
    keep_best:
        Number of best trials of each strategy whose snapshots are kept even if they leave the strategy.

    Returns
    -------
    Study
        For use in a ``with`` block.

    Raises
    ------
    InvalidProblem, UnknownProblem, InvalidInput
        If an argument is not valid.
    RunMismatch, RunFolderUnusable
        If the folder holds another study, or one of another repository, or can't be used.
    NoTrainer, SchedulerUnreachable
        If the cluster can't train; raised when waiting for results.
    """
    need("a study", *training_packages())
    check_can_lead(repository.client, "tune.study")
    if type(seed) is not int or not 0 <= seed < 2**32:
        raise InvalidInput(f"seed={seed!r:.40}: use 0 to 4294967295")
    if steps is not None and (type(steps) is not int or steps < 1):
        raise InvalidInput(f"steps={steps!r:.40}: use a whole number from 1")
    if type(keep_best) is not int or keep_best < 1:
        raise InvalidInput(f"keep_best={keep_best!r:.40}: use a whole number from 1")
    reference = refer(problem)  # type: ignore[arg-type]
    loaded = reference.load()
    check_backend(loaded)
    tuned = space_to_tune(loaded, space)
    if space is None and not own_loop(loaded):
        check_builds(loaded)
    goal = Objective.parse(objective or loaded.objective)
    unit = _unit(tuned)
    # Data are needed in this process too: their digest is part of the study's identity.
    data, rows = data_to_tune(reference, loaded)
    origin = origin_of(reference, seed, rows)
    identity = identity_of(reference, tuned, goal, seed, rows)
    with told_if_scheduler_gone():
        about = about_run(repository)
        stored = repository.snapshots()
    # Only a controller of the study's own is closed with it.
    own = controller is None
    leading = controller or Controller(DaskCrew(repository.client, step_limit_s))

    def ledger() -> Ledger:
        opened = Ledger(run, identity, about, tuned, goal, origin, keep_best)
        _, others = learn(leading.plan, stored, origin)
        if others:
            words = f"{others} of its snapshots were made by other versions of Keras and the like"
            opened.note("snapshots passed over", f"{words}: what is needed of them is trained again")
        mind_problem(reference, opened.record, rows)
        opened.teach(leading.plan)
        return opened

    def setting(label: str) -> Setting:
        return Setting(reference, repository, seed, goal, f"request:{label}", f"cache:{label}", copy_every_s)

    try:
        return Study(
            controller=leading,
            is_owner=own,
            space=tuned,
            ledger=ledger,
            origin=origin,
            setting=setting,
            check=checking(loaded, data),
            seed=seed,
            steps=steps or (loaded.epochs if unit == "epoch" else None),
            repository=repository,
            stored=stored,
        )
    except BaseException:
        # A controller that was passed in belongs to the caller, and may run other studies.
        if own:
            leading.close()
        raise


def controller(client: Any, *, step_limit_s: float | None = 1800.0, recycle_after: int | None = 50) -> Controller:
    """Return a controller, which runs studies on a cluster's trainers; several studies of one share common stages.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    step_limit_s:
        Time limit of a step, a scoring or a snapshot, in seconds; after it the trainer is restarted and its trials
        fail. None: no limit.
    recycle_after:
        Restart an idle trainer after this many tasks; None: never.

    Returns
    -------
    Controller
        For use in a ``with`` block around those of its studies.
    """
    check_can_lead(client, "tune.controller")
    return Controller(DaskCrew(client, step_limit_s, recycle_after))


def space_to_tune(problem: Problem, space: ConfigurationSpace | None = None) -> ConfigurationSpace:
    """Return the space of a study: the given one, or else the problem's own.

    Architectures of a problem are trained with its batch size, and their unit of steps is the epoch.

    Raises
    ------
    InvalidProblem, InvalidInput
        If there is no space, or the given one is not a space of configurations.
    """
    if space is not None:
        if not isinstance(space, ConfigurationSpace) or not isinstance(space, ModelSpace):
            raise InvalidInput(
                f"{type(space).__name__} is no space of configurations: see daskevo.tuning.grid and "
                "daskevo.tuning.architectures"
            )
        return space
    has_loop = own_loop(problem)
    found = None if has_loop and not hasattr(problem, "space") else space_of(problem)
    if isinstance(found, ConfigurationSpace):
        return found
    if found is None or has_loop:
        raise InvalidProblem(
            f"a study of problem {problem.name!r}, which has a training loop of its own, tunes hyper-parameters: let "
            "space() return daskevo.tuning.grid(learning_rate=[...], ...), or give the study such a space"
        )
    return architectures(found, {"batch_size": Constant(problem.batch_size)})


def steps_of(problem: Problem, space: ConfigurationSpace, steps: int | None = None) -> int:
    """Return the steps of a full training: the given ones, or the problem's epochs if the unit is the epoch.

    Raises
    ------
    InvalidInput
        If neither says how many.
    """
    if steps is not None:
        return steps
    if (unit := _unit(space)) != "epoch":
        raise InvalidInput(f"the unit of the space is the {unit}, and nobody says how many a training has: give steps")
    return problem.epochs


def identity_of(
    reference: ProblemReference, space: ConfigurationSpace, objective: Objective, seed: int, rows: DataKey
) -> dict[str, Any]:
    """Return the identity of a study, which its record keeps and a resumed study must match."""
    return {
        "problem": problem_identity(reference, rows),
        "space": space.to_json(),  # type: ignore[attr-defined]
        "objective": str(objective),
        "seed": seed,
        "strategy": {"name": "a study", "settings": {}},
        "policy": {"unit": _unit(space)},
    }


def data_to_tune(reference: ProblemReference, problem: Problem) -> tuple[Any, DataKey]:
    """Return a problem's data, prepared once per process and reference, and their data key.

    Raises
    ------
    InvalidProblem
        If it has none.
    """
    data = _data(reference, problem)
    return data, data_key(reference, data, None if own_loop(problem) else data_digest(data))


def _data(reference: ProblemReference, problem: Problem) -> Any:
    try:
        return data_of(reference)
    except DaskevoError:
        raise
    # A problem's own code runs here: it may raise anything, and also call sys.exit().
    except (Exception, SystemExit) as error:
        raise InvalidProblem(f"problem {problem.name!r} has no data: data() raised {say_error(error)}") from error


def checking(problem: Problem, data: Any) -> Callable[[Configuration, int], None]:
    """Return a function of configuration and last step that raises for trials that can't be trained.

    A candidate whose model can't be built is let through: its trial fails on its trainer, and others go on.
    """

    def see(configuration: Configuration, until: int) -> None:
        try:
            check(problem, configuration, data, until=until)
        except InvalidInput:
            raise
        except (Exception, SystemExit) as error:
            if ARCHITECTURE not in configuration.constants:
                raise InvalidProblem(
                    f"problem {problem.name!r} can't be trained with {configuration}: {say_error(error)}"
                ) from error

    return see


def origin_of(reference: ProblemReference, seed: int, rows: DataKey) -> str:
    """Return the name that all trajectories of a problem, its data and a seed begin with.

    Names of earlier versions of daskevo differ: they ignored validation data and the code that a problem calls, so
    their snapshots are not reused.
    """
    # A part that can't be inspected may have changed, so nothing is shared with other processes.
    unknown = reference.nonce if rows.unknown else ""
    digest = hashlib.blake2b(f"{reference.key} {seed} {rows.whole} {unknown}".encode(), digest_size=8).hexdigest()
    return f"{reference.name}-{digest}"


def _unit(space: ConfigurationSpace) -> str:
    return str(getattr(space, "unit", "optimizer step"))
