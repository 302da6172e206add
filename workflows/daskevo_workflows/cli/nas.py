"""The command `daskevo nas`: search architectures for a problem, on a local or an existing cluster."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from daskevo_workflows.cli.batch_jobs import batch_of, batch_options
from daskevo_workflows.cli.completion import PROBLEM
from daskevo_workflows.cli.interrupts import Interrupts
from daskevo_workflows.cli.invocation import command, same_command
from daskevo_workflows.cli.json_lines import AS_JSON, NAS_KEYS, print_json_line
from daskevo_workflows.cli.paths import default_run_folder, root_for_run
from daskevo_workflows.cli.resume import settle, why_ended
from daskevo_workflows.cli.run_frame import carry_on, open_run
from daskevo_workflows.cli.run_messages import say_all_at_random, say_unanswered
from daskevo_workflows.cli.run_options import COUNT, SECONDS, quota_option, run_options, time_limit_option
from daskevo_workflows.cli.search_summary import say_inherited, say_models, say_stored
from daskevo_workflows.cli.size_options import size_options
from daskevo_workflows.cli.transfer_options import transfer_options, typed_transfer
from daskevo_workflows.cli.walltime import Walltime, end_out_of_time, walltime_option
from daskevo_workflows.execution.deadline import WALLTIME

if TYPE_CHECKING:
    from daskevo_workflows.execution.progress import Progress
    from daskevo_workflows.results.result import Result

KEPT = "Every finished evaluation is kept"
"""Message about a run that was stopped."""

SHOWN = 5
"""Best models printed at the end, at most."""

FRONT_SHOWN = 20
"""Models of a front printed at the end, at most."""

STRATEGY_WORDS = (
    *("evolution", "non-aged-evolution", "multi-objective", "reinforce", "tpe", "gp", "grid", "random"),
    *("asha", "halving", "hyperband", "median"),
)
"""Keys of :data:`daskevo_workflows.nas.STRATEGIES`, copied because importing it would slow `--help` down."""


def _limit(value: Any) -> Any:
    """Return seconds, ``auto`` or ``none`` (as text, since None means that the option was not given)."""
    return value if value in ("auto", "none") else SECONDS.convert(value, None, None)


@click.command(short_help="Search architectures for a problem.")
@click.argument("problem", type=PROBLEM)
@click.option(
    "--evaluations",
    type=COUNT,
    default=100,
    show_default=True,
    metavar="N",
    help="Total number of finished evaluations, including those of earlier starts.",
)
@run_options(
    "search",
    "runs/PROBLEM-seedSEED, with a suffix for other ways to inherit: -no-transfer, -freeze-prefix, ...",
    "it between runs",
)
@quota_option
@click.option("--scope", help="Group of models to inherit from.  [default: the name in the problem, not its file's]")
@click.option(
    "--strategy",
    type=click.Choice(STRATEGY_WORDS),
    default="evolution",
    show_default="evolution; multi-objective for several objectives",
    metavar="WORD",
    help=f"How candidates are chosen: {', '.join(STRATEGY_WORDS)}. tpe and gp need Optuna, gp PyTorch too. With "
    "several objectives, multi-objective, tpe and gp use all of them, evolution and reinforce the first. asha, "
    "halving, hyperband and median train candidates in parts, and go on with the better ones.",
)
@click.option(
    "--objective",
    multiple=True,
    metavar="'max METRIC'|'min METRIC'",
    help="What to optimise. Give it several times to search for the Pareto front; the first is the quality. Besides "
    "the problem's own metrics there are parameters, flops, depth, seconds and own_bytes.  [default: the problem's]",
)
@click.option(
    "--population",
    type=COUNT,
    metavar="N",
    help="Size of the population in evolution.  [default: 50]",
)
@click.option("--sample", type=COUNT, metavar="N", help="Members drawn to choose each parent from.  [default: 5]")
@click.option(
    "--first",
    type=COUNT,
    metavar="N",
    help="Epochs of a candidate's first part (asha, halving, hyperband), or of each part (median).  [default: 1]",
)
@click.option(
    "--steps",
    type=COUNT,
    metavar="N",
    help="Epochs of a whole training, for the same: first x eta x eta ...  [default: the most within the problem's, at "
    "least 3]",
)
@click.option(
    "--eta",
    type=click.IntRange(min=2),
    metavar="N",
    help="For asha, halving and hyperband: one in N candidates goes on, for N times as many epochs.  [default: 3]",
)
@click.option(
    "--candidates", type=COUNT, metavar="N", help="Number of candidates that start, for asha, halving and median."
)
@transfer_options
@size_options
@time_limit_option
@walltime_option
@click.option(
    "--evaluation-limit",
    type=_limit,
    metavar="S|auto|none",
    default="auto",
    show_default=True,
    help="Time limit of an evaluation in seconds. auto: 20 times the median of the finished ones, at least 600 s (6 "
    "hours before 3 have finished); none: no limit.",
)
@batch_options
@AS_JSON
def nas(problem: str, folder: Path | None, as_json: bool, **options: Any) -> None:
    """Search architectures for PROBLEM: a name of those below, or the path of a Python file.

    \b
    digits         handwritten digits of 8 x 8 pixels, by dense layers; small
    fashion-mnist  pictures of clothes, by convolutional networks
    flights        whether a flight will be late, from a table of flights, weather and planes
    attn           CANDLE ATTN, drug response; here with synthetic data
    covertype      forest cover types by dense layers with skip connections; here with synthetic data
    nas-bench-201  digits by convolutional networks of one cell, repeated
    nasnet         digits by convolutional networks of two cells, a normal and a reducing one
    my_problem.py  your own problem; docs/tutorial.md writes one

    \b
    A first search, about a minute:
        daskevo nas digits --evaluations 20

    Each candidate inherits the longest prefix that an earlier model has already trained, freezes the part that has been
    trained enough, trains the rest, and stores only what changed. Give the same command again to continue a stopped
    search; it keeps its seed, strategy and policy unless an option says otherwise.

    Exit codes: 0 the search has ended; 1 too many evaluations failed; 2 it could not start or continue, and the message
    says what to do (if the scheduler died, the same command continues); 70 an unexpected error, with its traceback
    (finished work is kept); 75 the walltime was over, or the batch job was ended (the same command continues); 130
    interrupted (the same command continues).
    """
    context = click.get_current_context()
    # A run that goes on keeps its own settings: only what was typed may change them, not click's defaults.
    given = {name for name in options if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
    if folder is None:
        folder = default_run_folder(problem, options["seed"], typed_transfer(options))
    carry_on(folder, options["walltime"], KEPT, partial(_search, problem, folder, as_json, options, given))


def _search(
    problem: str,
    folder: Path,
    as_json: bool,
    options: dict[str, Any],
    given: Collection[str],
    interrupts: Interrupts,
    walltime: Walltime,
) -> str:
    """Run the search, print and save its results; return the reason for its end, as a word."""
    import daskevo
    from daskevo.extras import need, training_packages
    from daskevo.runs.folder import read_info
    from daskevo.search.continuation import continuing
    from daskevo.types import Objective
    from daskevo_workflows.cli.progress import ProgressLine
    from daskevo_workflows.evaluation.offered_metrics import check_objectives
    from daskevo_workflows.evaluation.quiet_import import import_keras
    from daskevo_workflows.nas import search
    from daskevo_workflows.problems import refer
    from daskevo_workflows.problems.building import space_to_search
    from daskevo_workflows.problems.packages import need_data_of
    from daskevo_workflows.results.result import Result
    from daskevo_workflows.stage_training.begin import check_backend

    # Refuse bad input, or report a finished run, before starting a cluster, which takes far longer than these checks.
    need("a search", *training_packages())
    need_data_of(problem)
    reference = refer(problem)
    info = read_info(folder)
    root = root_for_run(folder, options["root"])
    batch = batch_of(options, folder)
    settings = settle(folder, info, reference, options, given)
    if settings.anew:
        words = f"Nothing of the run in {folder} had finished, and {problem} is another by now: it is begun anew."
        click.echo(words, err=as_json)
    stop = None if info is None or settings.anew else why_ended(folder, options["evaluations"])
    if stop is not None:
        return _say_nothing_left(problem, Result(folder, daskevo.open(root, settings.scope), stop), as_json, options)
    if continuing(settings.strategy) is not None:
        check_backend(reference.load())
    goals = Objective.parse_all(settings.objective)
    check_objectives(goals)
    # The search starts it once more. Here it may refuse the space while that costs nothing.
    settings.strategy.start(space_to_search(reference.load()), goals, settings.seed)
    line = ProgressLine(goals[0].metric)
    began = time.time()
    walltime.say()

    def progress(now: Progress) -> None:
        interrupts.check()
        line(now)

    with open_run(folder, root, settings.scope, str(goals[0]), batch, options, "search") as repository:
        say_all_at_random(settings.strategy, options["evaluations"])
        with contextlib.closing(line), walltime.gently():
            import_keras()
            result = search(
                reference,
                settings.strategy,
                repository=repository,
                objective=settings.objective,
                evaluations=options["evaluations"],
                run=folder,
                time_limit_s=options["time_limit"],
                deadline=walltime.deadline,
                evaluation_limit_s=None if options["evaluation_limit"] == "none" else options["evaluation_limit"],
                on_progress=progress,
                **settings.search_options(),
            )
        # Loading the best model takes Keras and seconds, which a job at its end doesn't have.
        _say_result(result, err=as_json, save=result.stop[0] != WALLTIME)
    if as_json:
        _print_summary(result)
    if result.stop[0] == WALLTIME:
        # A job that was told to end early may have had too little time by chance: the next one is worth a try.
        done = walltime.is_told or result.last_report > began
        end_out_of_time(folder, KEPT, done=done, why=result.stop[1])
    return result.stop[0]


def _print_summary(result: Result) -> None:
    """Print the line of JSON; with several objectives it includes the front."""
    summary = result.summary()
    more: tuple[str, ...] = ()
    if len(result.objectives) > 1:
        names = [objective.metric for objective in result.objectives]
        summary["front"] = [
            {"model": found.model_id, "metrics": {name: found.metrics.get(name) for name in names}}
            for found in result.front()
        ]
        more = ("front",)
    print_json_line((*NAS_KEYS, *more), summary)


def _say_nothing_left(problem: str, result: Result, as_json: bool, options: dict[str, Any]) -> str:
    """Print the results of a run that has ended, and how to continue it."""
    finished, asked = result.summary()["evaluations"], options["evaluations"]
    # A run that ended with nothing finished fails again, each time it is asked for.
    result.check_finished()
    click.echo(f"Nothing left to do: {finished} of {asked} evaluations are finished.", err=as_json)
    _say_result(result, err=as_json, since=result.last_report)
    if result.stop[0] == "finished":
        more = command("nas", problem, "--evaluations", str(2 * max(finished, asked)), "--run", result.folder)
        click.echo(f"For more evaluations, ask for a higher number:\n    {more}", err=as_json)
    if as_json:
        _print_summary(result)
    return result.stop[0]


def _say_result(result: Result, *, err: bool, since: float | None = None, save: bool = True) -> None:
    """Print the results, and write the report and the best model as a `.keras` file.

    Parameters
    ----------
    since:
        Files written after this time, in seconds since the epoch, are not written again; None: always write.
    save:
        Whether there is time to write files.
    """
    from daskevo.errors import DaskevoError
    from daskevo_plugins.formatting import plain, say_count, say_seconds, say_share, sentence
    from daskevo_workflows.evaluation.quiet_import import import_keras
    from daskevo_workflows.reports.freeze_summary import say_rule
    from daskevo_workflows.reports.series import say_other_data
    from daskevo_workflows.results.atomic_files import save_model
    from daskevo_workflows.results.run_root import REPOSITORY, recorded_root

    summary = result.summary()
    if other_data := say_other_data(result.series.happenings):
        click.echo(sentence(other_data), err=err)
    apart = f", {say_count(summary['failures'], 'failure')}" if summary["failures"] else ""
    apart += f", {say_count(summary['rejected'], 'rejected candidate')}" if summary["rejected"] else ""
    click.echo(
        f"{say_count(summary['evaluations'], 'evaluation')} in {say_seconds(summary['runtime_s'])}{apart}; "
        f"{say_inherited(result, summary['transferred'])}. It ended because: {plain(result.stop[1])}.",
        err=err,
    )
    if not summary["evaluations"]:
        return
    # A repository of the run's own was empty when it began; one that others use may have had models.
    was_empty = recorded_root(result.folder) == result.folder / REPOSITORY
    if (unanswered := say_unanswered(result.reports, was_empty=was_empty)) is not None:
        click.echo(unanswered, err=err)
    if summary["transferred"] and (rule := say_rule(result.info.identity.get("policy"))):
        click.echo(f"{say_share(summary['mean_frozen_share'])} of all vertices were frozen: {rule}.", err=err)
    if (stored := say_stored(summary)) is not None:
        click.echo(f"Stored: {stored}.", err=err)
    several = len(result.objectives) > 1
    if several:
        click.echo(f"The front has {say_count(len(result.front()), 'model')}:", err=err)
    shown = result.front()[:FRONT_SHOWN] if several else result.best(SHOWN)
    for place, words in enumerate(say_models(result, shown), start=1):
        click.echo(f"  {place}. {words}", err=err)
    if several and len(result.front()) > FRONT_SHOWN:
        click.echo(
            f"  … and {len(result.front()) - FRONT_SHOWN} more, best first by {result.objective.metric}", err=err
        )
    if not save:
        click.echo("best model and report: written when the search has ended", err=err)
        return
    best, report = result.folder / "best.keras", result.folder / "report.html"
    try:
        (first,) = result.best(1)
        # With none living, the load of the best raises what is said of it below.
        (saved,) = result.best(1, living=True) or [first]
        if not _is_newer(best, since):
            import_keras()
            save_model(saved.model, best)
        which = "" if saved.model_id == first.model_id else f" ({saved.model_id}, the best that has not been retired)"
        click.echo(f"best model: {best}{which}", err=err)
        click.echo(f"report:     {report if _is_newer(report, since) else result.report()}", err=err)
        click.echo(f"all models: {command('models', 'ls', result.folder)}", err=err)
    except (DaskevoError, OSError) as error:
        # The search is over and recorded, so the same command can write these files later.
        click.echo(f"{error}\nThe same command tries again: {same_command(result.folder)}", err=True)


def _is_newer(path: Path, since: float | None) -> bool:
    return since is not None and path.exists() and path.stat().st_mtime > since
