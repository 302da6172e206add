"""Neural architecture search with transfer learning: run a search, view its results, and refine the best models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import daskevo
from daskevo.errors import InvalidInput
from daskevo.extras import need, training_packages
from daskevo.runs import RunRecord, RunState
from daskevo.search import Strategy
from daskevo.search.continuation import continuing
from daskevo.tuning import Unit
from daskevo.types import Objective
from daskevo_workflows.evaluation.offered_metrics import check_objectives
from daskevo_workflows.evaluation.transfer import FREEZE, Transfer
from daskevo_workflows.execution import strategy_names
from daskevo_workflows.execution.deadline import At, moment_of
from daskevo_workflows.execution.event_kinds import SESSION
from daskevo_workflows.execution.executor import Executor
from daskevo_workflows.execution.parts_check import check_parts
from daskevo_workflows.execution.passed_functions import Callbacks
from daskevo_workflows.execution.progress import Progress
from daskevo_workflows.execution.refine import refine
from daskevo_workflows.execution.run_facts import about_run
from daskevo_workflows.execution.run_identity import identity_of, mind_problem
from daskevo_workflows.execution.scheduler_lost import told_if_scheduler_gone
from daskevo_workflows.execution.search_settings import SearchSettings
from daskevo_workflows.execution.size_limits import SizeLimits, check_size_limits
from daskevo_workflows.execution.synchronous_client import check_can_lead
from daskevo_workflows.execution.time_limits import Limit, build_limit_s, check_limit
from daskevo_workflows.problems import Problem, ProblemReference, refer
from daskevo_workflows.problems.building import check_builds, space_to_search
from daskevo_workflows.reports import write_figures as figures
from daskevo_workflows.results.loadable import check_loadable
from daskevo_workflows.results.look import frames, look
from daskevo_workflows.results.result import Found, Result

if TYPE_CHECKING:
    from daskevo.repository import Repository

__all__ = ["STRATEGIES", "Found", "Progress", "Result", "Transfer", "figures", "frames", "look", "refine", "search"]


STRATEGIES: Mapping[str, Callable[..., Strategy]] = strategy_names.STRATEGIES
"""Strategies by their name on the command line. Those that train candidates in parts need to know how far; by name,
`search` takes the problem's epochs."""


def search(
    problem: str | Path | Problem | ProblemReference,
    strategy: Strategy | str = "evolution",
    *,
    repository: Repository,
    objective: str | Sequence[str] | None = None,
    evaluations: int = 100,
    run: str | Path = "run",
    seed: int = 0,
    transfer: Transfer | bool = True,
    freeze: Any = None,
    control_share: float = 0.0,
    time_limit_s: float | None = None,
    deadline: At = None,
    evaluation_limit_s: Limit = "auto",
    recycle_after: int | None = 50,
    callbacks: Callbacks = (),
    epochs: int | None = None,
    keep_best: int = 5,
    limits: SizeLimits | None = None,
    unit: Unit | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Search a problem's model space; resume the run if its folder holds one.

    For each candidate the repository finds the earlier model that shares the longest prefix of layers. The candidate
    inherits that prefix, freezes the part that has been trained enough, trains the rest, and stores only what changed
    (paper 000). Models that leave the strategy's population are retired unless they are among the best.

    Parameters
    ----------
    problem:
        Name, Python file, object or reference (see :mod:`daskevo_workflows.problems`).
    strategy:
        A key of `STRATEGIES`, such as ``evolution`` or ``asha``, or a strategy object. With several objectives,
        ``multi-objective``, ``tpe`` and ``gp`` use all of them, ``evolution`` only the first.
    repository:
        A repository opened on the cluster that trains (`daskevo.open`).
    objective:
        ``max METRIC`` or ``min METRIC``; None: the problem's own. A list, as in
        ``["max val_accuracy", "min parameters"]``, searches for the front that no candidate dominates
        (`Result.front`); the first is the quality stored with models, and all must be finite. Besides the metrics
        that `score` returns there are `parameters`, `flops`, `depth`, `seconds` and `own_bytes`
        (``daskevo_workflows.evaluation.offered_metrics``).
    evaluations:
        Total number of finished evaluations; a resumed run continues up to it. Failures and duplicates are not
        included; after ``max(20, evaluations)`` failures, or when the space is exhausted, the run ends and says why.
    run:
        The run's folder.
    seed:
        With one trainer, the same seed gives the same candidates and scores. With several, requests depend on which
        evaluation ends first; the record holds the order.
    transfer:
        How candidates inherit (:class:`daskevo_workflows.evaluation.transfer.Transfer`); False: not at all (the
        baseline); True: the default policy.
    freeze:
        Part of the prefix to freeze, instead of the default policy's ``steps:300``: ``prefix`` (as in the paper),
        ``none`` (inherit and fine-tune everything), a share, ``steps:K``, or a function of a layer.
    control_share:
        Share of candidates, drawn by their number, that inherit nothing: a control arm within the run.
    time_limit_s:
        Time limit of this call, in seconds. Evaluations still running then are cancelled and repeated by the next call;
        trainers that have not ended them 10 s later are restarted.
    deadline:
        Time at which this process must end, such as the end of its batch job: seconds since the epoch, or a function
        that returns them (or None) and is called again and again. An evaluation is not begun if it would probably not
        end in time (by the 95th percentile of the run's evaluations); running ones may go on until 20 s before
        (``daskevo.batch.grace`` in Dask's configuration). Then the run ends with "walltime", and the same call
        continues it.
    evaluation_limit_s:
        Time limit of one evaluation, in seconds, once its trainer has imported Keras and prepared the data (for which
        it has 180 s more). ``"auto"``: 20 times the median of the run's finished evaluations, at least 10 minutes; 6
        hours until 3 have finished. None: no limit, so a hanging evaluation is waited for for ever. An evaluation past
        its limit is cancelled and counts as failed, and its trainer is restarted; a trainer without a nanny gets no
        other evaluation until it has ended that one.
    recycle_after:
        Restart an idle trainer after this many evaluations; None = never. Training leaks memory: 8 MB per evaluation
        of a tiny model, 75 MB for one of `flights` (Adam, 30 layers), and clearing Keras sessions does not free it. A
        trainer that is also a provider is not restarted; the record then has an event "not recycled".
    callbacks:
        Keras callbacks, for example early stopping: a list, copied for each evaluation, or a function that makes one.
        A run can be resumed only with the same callbacks.
    epochs:
        Number of epochs, instead of the problem's.
    keep_best:
        Number of best models that are kept, labelled ``best:<run>``, even if they leave the population. With several
        objectives these belong to the front; of a larger front, those with the largest crowding distance are kept, and
        a model that was dropped is not taken back.
    limits:
        Limits of model size, as ``{"parameters": (None, 1_000_000), "depth": (3, 10)}``: the least and the most of
        `parameters`, `flops` or `depth`. Other candidates are rejected: they are built for their graph, but never
        trained, and spend no budget. After 500 duplicate or rejected candidates in a row the run ends as "exhausted".
    unit:
        Unit of the steps of strategies that train candidates in parts, and continue those that are promising
        (successive halving, Hyperband, median stopping): ``epoch``, as with None, or ``optimizer step``. A candidate
        inherits when its first part begins; each later part goes on from the state of the one before, bit for bit as
        one piece would.
        Each part is an evaluation, and its model one that others may inherit from. Such candidates are trained by
        :mod:`daskevo_workflows.stage_training`, whose requirements are checked first.
    on_progress:
        Called after each report and about once a second; must not raise.

    Raises
    ------
    InvalidProblem, UnknownProblem, InvalidInput
        If an argument is not valid or no candidate can be built; also if called inside a task or in the event loop of
        an asynchronous client.
    RunMismatch, RunFolderUnusable
        If the folder holds another run, or one of another repository, or can't be used. A run without a finished
        evaluation is started afresh if its problem or callbacks have changed since, because they have been mended.
    NoTrainer, SchedulerUnreachable
        If the cluster can't train.
    RunFailed
        If nothing had finished when the run ended.
    CannotRebuild
        If the installed Keras can't load models of the run that is resumed.
    InvalidProblem
        If the first evaluation to end has no data, or none of the objective's metric.
    KeyboardInterrupt
        After an orderly stop; the same call continues the run later.
    """
    need("a search", *training_packages())
    # A search blocks until it ends, and must not do so in an event loop.
    check_can_lead(repository.client, "nas.search")

    # Refuse everything that can be refused before the folder becomes a run.
    _check(evaluations, control_share, recycle_after, keep_best, epochs, seed)
    check_limit(evaluation_limit_s)
    ends = moment_of(deadline)
    policy = _policy(transfer, freeze)
    reference = refer(problem)  # type: ignore[arg-type]
    loaded = reference.load()
    goals = Objective.parse_all(loaded.objective if objective is None else objective)
    check_objectives(goals)
    bounds = check_size_limits(limits)
    chosen = _strategy(strategy, loaded.epochs)
    repository = _with_objective(repository, goals[0])
    space = space_to_search(loaded)
    check_builds(loaded)
    chosen.start(space, goals, seed)  # before there is a run: it may refuse the space
    parts = check_parts(
        chosen,
        loaded,
        unit=unit,
        transfer=policy,
        epochs=epochs,
        callbacks=callbacks,
        limits=bounds,
        build_limit_s=build_limit_s(evaluation_limit_s),
    )
    identity = identity_of(
        reference,
        goals,
        chosen,
        seed=seed,
        transfer=policy,
        control_share=control_share,
        epochs=epochs,
        limits=bounds,
        callbacks=callbacks,
        unit=parts,
    )
    with told_if_scheduler_gone():
        about = about_run(repository)
    # Takes the folder's lock: from here on this process alone writes the run.
    record = RunRecord(run, identity, about, was_put=lambda name: repository.status(name).state != "unknown")
    # What the record says if something is raised before the run has an end of its own.
    ended = "error"
    try:
        sessions = [session.opened for session in record.sessions()]
        run_state = RunState(goals, evaluations, record.info.label, keep_best, sessions)
        # Refill the state, then the strategy, from the record: nothing else survives a kill.
        run_state.ask(record.requests())
        for number, name in record.identities().items():
            run_state.identify(number, name)
        for report in record.reports():
            run_state.report(report)
        mind_problem(reference, record, passed=identity["policy"]["passed"].get("unknown", ()))
        # Before training: models that this Keras can't load would silently be missing as ancestors.
        check_loadable(repository, {report.model_id for report in run_state.reports.values()})
        _tell_again(chosen, run_state)
        settings = SearchSettings(
            seed=seed,
            transfer=policy,
            control_share=control_share,
            time_limit_s=time_limit_s,
            deadline=deadline,
            evaluation_limit_s=evaluation_limit_s,
            recycle_after=recycle_after,
            callbacks=callbacks,
            epochs=epochs,
            limits=bounds,
            unit=parts,
            most_steps=getattr(continuing(chosen), "most", None),
        )
        record.event(
            SESSION,
            "",
            evaluations=evaluations,
            time_limit_s=time_limit_s,
            deadline=ends,
            evaluation_limit_s=evaluation_limit_s,
            recycle_after=recycle_after,
            keep_best=keep_best,
        )
        executor = Executor(
            client=repository.client,
            repository=repository,
            reference=reference,
            strategy=chosen,
            record=record,
            run_state=run_state,
            settings=settings,
            on_progress=on_progress,
        )
        stop = executor.run()
        ended = stop[0]
    except KeyboardInterrupt:
        ended = "interrupted"
        raise
    finally:
        # Whatever was raised: a session that is left open looks like that of a killed process.
        record.close(ended)
    result = Result(record.folder, repository, stop)
    # Raise only after the record is closed, so that a failed run can be viewed and resumed.
    result.check_finished()
    return result


def _check(
    evaluations: int, control_share: float, recycle_after: int | None, keep_best: int, epochs: int | None, seed: int
) -> None:
    if evaluations < 1 or keep_best < 1:
        raise InvalidInput(f"evaluations={evaluations}, keep_best={keep_best}: use 1 or more")
    if not 0 <= control_share <= 1:
        raise InvalidInput(f"control_share={control_share}: use a share from 0 to 1")
    if (recycle_after is not None and recycle_after < 1) or (epochs is not None and epochs < 1):
        raise InvalidInput(f"recycle_after={recycle_after}, epochs={epochs}: use 1 or more, or None")
    if not 0 <= seed < 2**32:
        raise InvalidInput(f"seed={seed}: use 0 to 4294967295")


def _policy(transfer: Transfer | bool, freeze: Any) -> Transfer:
    if isinstance(transfer, Transfer):
        if freeze is not None:
            raise InvalidInput("freeze is part of the policy of transfer: Transfer(freeze=...)")
        return transfer
    if type(transfer) is not bool:
        raise InvalidInput(f"transfer={transfer!r:.60}: pass a Transfer, True or False")
    return Transfer("best match" if transfer else "none", FREEZE if freeze is None else freeze)


def _with_objective(repository: Repository, goal: Objective) -> Repository:
    """Return a handle on the same scope with this objective, declaring it if the scope had none.

    Raises
    ------
    ScopeMismatch
        If the scope has another objective.
    """
    # The handle's objective decides what quality is put with models; the caller's handle stays as it is.
    if repository.objective == goal:
        return repository
    settings = repository.settings
    handle: Repository = daskevo.open(
        repository.root,
        repository.scope,
        client=repository.client,
        objective=str(goal),
        memory=settings.memory,
        shards=settings.shards,
        durability=settings.durability,
        timeout_s=repository.timeout_s,
    )
    return handle


def _strategy(strategy: Strategy | str, epochs: int) -> Strategy:
    if isinstance(strategy, str):
        return strategy_names.strategy_named(strategy, epochs)
    if not isinstance(strategy, Strategy):
        raise InvalidInput(f"{type(strategy).__name__} is no strategy: see daskevo.search.Strategy for its parts")
    return strategy


def _tell_again(strategy: Strategy, run_state: RunState) -> None:
    """Tell a strategy the run's earlier reports again, in the same order, to restore its state."""
    for report in run_state.reports.values():
        strategy.tell(run_state.requests[report.number], report)
        # These departures were recorded by the session that first saw them; only the strategy's list is to be emptied.
        strategy.leave()
