"""Resume an existing run: its settings, whether it is the one asked for, and whether any work is left.

Everything is read from the run's record before a cluster is started.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daskevo_workflows.cli import size_options, transfer_options
from daskevo_workflows.cli.size_options import changed_limits
from daskevo_workflows.cli.transfer_options import changed_transfer, typed_transfer

if TYPE_CHECKING:
    from daskevo.runs import RunInfo
    from daskevo.search import Strategy
    from daskevo.tuning import Unit
    from daskevo_workflows.evaluation.transfer import Transfer
    from daskevo_workflows.execution.size_limits import SizeLimits
    from daskevo_workflows.problems import ProblemReference

SETTINGS: Mapping[str, str] = {
    "population": "population",
    "sample": "sample",
    "first": "first",
    "most": "steps",
    "eta": "eta",
    "candidates": "candidates",
}
"""Setting of a strategy -> the option that sets it."""

FLAGS: Mapping[str, str] = {
    "objective": "--objective",
    "seed": "--seed",
    "strategy.name": "--strategy",
    **{f"strategy.settings.{name}": f"--{option}" for name, option in SETTINGS.items()},
    "strategy.settings.every": "--first",
    **transfer_options.FLAGS,
    **size_options.FLAGS,
}
"""Part of a run's identity -> the option that sets it."""


SEVERAL = "multi-objective"
"""The strategy of a new run with several objectives, unless another is named."""


@dataclass(frozen=True)
class CallSettings:
    """Arguments of a search besides problem and time limits (see :func:`daskevo_workflows.nas.search`)."""

    strategy: Strategy
    objective: Sequence[str]
    seed: int
    transfer: Transfer
    control_share: float
    epochs: int | None
    scope: str
    limits: SizeLimits
    unit: Unit | None = None
    anew: bool = False
    """Whether the folder's run has no results and its problem has changed since: then it is started afresh."""

    def search_options(self) -> dict[str, Any]:
        """Return the keyword arguments of `search` that are part of a run's identity."""
        names = ("seed", "transfer", "control_share", "epochs", "limits", "unit")
        return {name: getattr(self, name) for name in names}


def settle(
    folder: Path,
    info: RunInfo | None,
    reference: ProblemReference,
    options: Mapping[str, Any],
    given: Collection[str],
) -> CallSettings:
    """Return the settings of a new run, or those of the folder's run, changed by the options given.

    If the folder's run has no results and its problem has changed since, return those of a new run.

    Parameters
    ----------
    options:
        All options of the command, including defaults.
    given:
        Names of the options given on the command line.

    Raises
    ------
    RunMismatch
        If the folder holds a different run, or one that can be resumed only from Python.
    """
    from daskevo.errors import InvalidInput, RunMismatch
    from daskevo.runs.begun_anew import begins_anew
    from daskevo.runs.mismatch import check_identity
    from daskevo.types import Objective
    from daskevo_workflows.evaluation.transfer import recorded_transfer
    from daskevo_workflows.execution.run_identity import identity_of

    loaded = reference.load()
    if info is None:
        scope, objective = options["scope"] or loaded.name, options["objective"] or [loaded.objective]
        # The default strategy uses only the first objective.
        word = SEVERAL if len(objective) > 1 and "strategy" not in given else options["strategy"]
        limits = changed_limits({}, options)
        return CallSettings(
            _strategy(options, word, loaded.epochs),
            objective,
            options["seed"],
            typed_transfer(options),
            0.0,
            None,
            scope,
            limits,
        )
    policy: Mapping[str, Any] = _mapping(info.identity.get("policy"))
    # The record says what the callbacks were, and can't make them: the command would go on without them.
    if passed := _mapping(policy.get("passed")).get("callbacks"):
        raise _begun_in_python(folder, f"callbacks ({', '.join(map(str, passed))})")
    try:
        transfer = changed_transfer(recorded_transfer(policy), options, given)
    except InvalidInput as error:
        # The record has a function as `freeze` by its name only: without --freeze there is nothing to go on with.
        if "freeze" not in given:
            raise _begun_in_python(folder, error.message) from error
        transfer = changed_transfer(recorded_transfer({**policy, "freeze": None}), options, given)
    # Only runs that train candidates in parts have one; for these the strategy says how many epochs there are.
    unit = policy.get("unit")
    settings = CallSettings(
        _recorded_strategy(folder, _mapping(info.identity.get("strategy")), options, given, loaded.epochs),
        options["objective"] or _texts(info.identity.get("objective")) or [loaded.objective],
        options["seed"] if "seed" in given else info.identity.get("seed", options["seed"]),
        transfer,
        policy.get("control_share", 0.0),
        policy.get("epochs") if unit is None else None,
        str(options["scope"] or info.about.get("scope") or loaded.name),
        changed_limits(_mapping(policy.get("limits")), options),
        unit,
    )
    asked = identity_of(
        reference, Objective.parse_all(settings.objective), settings.strategy, **settings.search_options()
    )
    # The search itself asks the repository whether a model was put; here there is no cluster yet.
    if begins_anew(folder, info.identity, asked, lambda name: False):
        return replace(settle(folder, None, reference, options, given), anew=True)
    try:
        check_identity(folder, info.identity, asked)
    except RunMismatch as error:
        flags = [FLAGS[part] for part in error.parts if part in FLAGS]
        own = f". Without {', '.join(flags)} it goes on with its own" if flags else ""
        raise RunMismatch(f"{error.message}{own}", **error.facts) from error
    return settings


def why_ended(folder: Path, evaluations: int) -> tuple[str, str] | None:
    """Return why a run has no work left, as a word and a sentence; None if it has work.

    Raises
    ------
    RunFolderUnusable, CorruptRecord
        If its record can't be read.
    """
    from daskevo.runs import RunState, RunView
    from daskevo.types import Objective

    with RunView(folder) as view:
        if view.label_changes():
            return None  # label changes are still due in the repository
        run_state = RunState(Objective.parse_all(view.info.identity["objective"]), evaluations, view.info.label)
        run_state.ask(view.requests())
        for report in view.reports():
            run_state.report(report)
        stop, sessions, exhausted = run_state.stop_reason(), view.sessions(), view.events("exhausted")
    # Only the strategy knows whether candidates are left: what the last session found is believed.
    if stop is None and sessions and sessions[-1].ended == "exhausted":
        return "exhausted", exhausted[-1].message if exhausted else "the space has no more candidates"
    return stop


def _strategy(options: Mapping[str, Any], word: str, epochs: int) -> Strategy:
    from daskevo_workflows.execution.strategy_names import strategy_named

    return strategy_named(word, epochs, **_own_settings(options))


def _recorded_strategy(
    folder: Path, recorded: Mapping[str, Any], options: Mapping[str, Any], given: Collection[str], epochs: int
) -> Strategy:
    from daskevo_workflows.execution.strategy_names import STRATEGIES, strategy_named

    # Optuna strategies are named after their sampler, which is also the word of the option.
    words = {getattr(make, "name", f"optuna {word}"): word for word, make in STRATEGIES.items()}
    word = words.get(recorded.get("name", ""))
    if "strategy" in given and options["strategy"] != word:
        # It differs from the run's: the comparison that follows says so.
        return _strategy(options, options["strategy"], epochs)
    if word is None:
        raise _begun_in_python(folder, f"the strategy {recorded.get('name')!r}")
    try:
        settings = {**_mapping(recorded.get("settings")), **_own_settings(options)}
        return strategy_named(word, epochs, **settings)
    except TypeError as error:
        raise _begun_in_python(folder, f"settings of {recorded.get('name')!r} that are not known here") from error


def _own_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the strategy's settings that were typed: strategies have defaults of their own."""
    return {option: options[option] for option in SETTINGS.values() if options[option] is not None}


def _begun_in_python(folder: Path, what: str) -> Exception:
    from daskevo.errors import RunMismatch

    return RunMismatch(
        f"the run in {folder} was begun with {what}, which the command line does not have: go on with it from Python "
        "(daskevo_workflows.nas.search), or use another folder for a new run",
        path=str(folder),
        parts=[],
    )


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
