"""The command `daskevo tune`: hyper-parameters over time, training each shared step only once."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from daskevo_workflows.cli.batch_jobs import batch_of, batch_options
from daskevo_workflows.cli.completion import TUNED
from daskevo_workflows.cli.interrupts import Interrupts
from daskevo_workflows.cli.invocation import same_command
from daskevo_workflows.cli.json_lines import AS_JSON, TUNE_KEYS, print_json_line
from daskevo_workflows.cli.paths import problem_word, root_for_run
from daskevo_workflows.cli.run_frame import carry_on, open_run
from daskevo_workflows.cli.run_options import COUNT, quota_option, run_options, time_limit_option
from daskevo_workflows.cli.search_summary import say_hyperparameters
from daskevo_workflows.cli.walltime import Walltime, end_out_of_time, walltime_option
from daskevo_workflows.execution.deadline import WALLTIME

if TYPE_CHECKING:
    from daskevo.types import Objective
    from daskevo_workflows.problems import ProblemReference
    from daskevo_workflows.studies.result import StudyResult
    from daskevo_workflows.studies.strategy_driver import StudyProgress

KEPT = "Every answer and every snapshot is kept"

BEST = "best.keras"
"""Name of the best model's file in a study's folder."""

SHOWN = 5
"""Best trials printed at the end, at most."""

STRATEGY_WORDS = ("grid", "random", "halving", "hyperband", "asha", "median", "pbt")
"""Copy of :data:`daskevo_workflows.studies.strategies.WORDS`; importing it would slow `--help` down."""


@click.command(short_help="Tune hyper-parameters over time, training shared steps once.")
@click.argument("problem", type=TUNED)
@click.option(
    "--strategy",
    type=click.Choice(STRATEGY_WORDS),
    default="grid",
    show_default=True,
    metavar="WORD",
    help=f"Which trials are trained, and how far: {', '.join(STRATEGY_WORDS)}.",
)
@click.option(
    "--evaluations",
    type=COUNT,
    metavar="N",
    help="Stop after this many evaluations.  [default: when the strategy ends]",
)
@click.option(
    "--steps",
    type=COUNT,
    metavar="N",
    help="Steps of a full training, in the unit of the space: epochs or optimizer steps.  [default: the problem's "
    "epochs]",
)
@click.option(
    "--first",
    type=COUNT,
    default=1,
    show_default=True,
    metavar="N",
    help="Steps of the first rung (halving, hyperband, asha), or between two decisions about a trial (median, pbt).",
)
@click.option(
    "--eta",
    type=click.IntRange(min=2),
    default=4,
    show_default=True,
    metavar="N",
    help="For halving, hyperband and asha: one in N trials is continued, for N times as many steps.",
)
@click.option(
    "--candidates", type=COUNT, metavar="N", help="Number of trials that start, for halving, asha and median."
)
@click.option("--population", type=COUNT, metavar="N", help="Size of the population of pbt.  [default: 10]")
@click.option(
    "--at-once",
    type=COUNT,
    metavar="N",
    help="Pending evaluations that the strategy may have: more of them share more steps, fewer let it learn earlier.  "
    "[default: 64]",
)
@run_options("study", "runs/PROBLEM-tune-seedSEED", "snapshots between studies")
@quota_option
@click.option("--scope", help="Group of models whose snapshots are used.  [default: the problem's name]")
@click.option("--objective", metavar="'max METRIC'|'min METRIC'", help="What to optimise.  [default: the problem's]")
@time_limit_option
@walltime_option
@batch_options
@AS_JSON
def tune(problem: str, folder: Path | None, as_json: bool, **options: Any) -> None:
    """Tune hyper-parameters over time for PROBLEM: digits-lr, which comes with daskevo, or the path of a Python file
    whose space() is one of daskevo.tuning. For a problem of daskevo nas, architectures are trained in parts.

    \b
    A first study, about half a minute:
        daskevo tune digits-lr --strategy grid
    Architectures, continuing the better ones:
        daskevo tune digits --strategy asha --candidates 16

    Trials with the same hyper-parameters from the first step on are trained together until they diverge; there the
    state is stored, and each continues from it. Give the same command again to continue a stopped study. Steps that
    another study of the same problem, data and seed has stored in the repository are not trained again.

    Exit codes: 0 the study has ended; 1 too many trials failed; 2 it could not start or continue, and the message says
    what to do; 70 an unexpected error, with its traceback; 75 the walltime was over, or the batch job was ended (the
    same command continues); 130 interrupted (the same command continues).
    """
    # Not of the strategy: several strategies share the study of a problem and a seed, and its steps.
    folder = folder or _default_folder(problem, options["seed"])
    carry_on(folder, options["walltime"], KEPT, partial(_study, problem, folder, as_json, options))


def _default_folder(problem: str, seed: int) -> Path:
    return Path("runs") / f"{problem_word(problem)}-tune-seed{seed}"


def _study(
    problem: str,
    folder: Path,
    as_json: bool,
    options: dict[str, Any],
    interrupts: Interrupts,
    walltime: Walltime,
) -> str:
    """Run the study, print and save its results; return the reason for its end, as a word."""
    import daskevo
    from daskevo.extras import need, training_packages
    from daskevo.types import Objective
    from daskevo_workflows import tune as tuning
    from daskevo_workflows.cli.progress import ProgressLine, say_study
    from daskevo_workflows.problems import refer
    from daskevo_workflows.problems.packages import need_data_of
    from daskevo_workflows.stage_training.begin import check_backend
    from daskevo_workflows.studies.ended import ended
    from daskevo_workflows.studies.strategies import strategy_of
    from daskevo_workflows.studies.strategy_driver import AT_ONCE

    # Refuse bad input before starting a cluster.
    need("a study", *training_packages())
    need_data_of(problem)
    reference = refer(problem)
    loaded = reference.load()
    check_backend(loaded)
    space = tuning.space_to_tune(loaded)
    steps = tuning.steps_of(loaded, space, options["steps"])
    settings = {name: options[name] for name in ("first", "eta", "population", "candidates")}
    # A strategy keeps state, and one that was asked whether the study is over has been told all reports.
    make_strategy = partial(strategy_of, options["strategy"], space, steps=steps, **settings)
    strategy = make_strategy()
    goal = Objective.parse(options["objective"] or loaded.objective)
    root = root_for_run(folder, options["root"])
    scope = options["scope"] or loaded.name
    wanted = {"evaluations": options["evaluations"], "at_once": options["at_once"] or AT_ONCE}
    if _may_be_over(folder, reference, space, goal, options["seed"]):
        look = daskevo.open(root, scope)
        found = ended(folder, make_strategy(), space, look, seed=options["seed"], steps=steps, **wanted)
        if found is not None:
            return _say_nothing_left(found, as_json)
    batch = batch_of(options, folder)
    line = ProgressLine(goal.metric, say=say_study)
    walltime.say()

    def progress(now: StudyProgress) -> None:
        interrupts.check()
        line(now)

    with open_run(folder, root, scope, str(goal), batch, options, "studies") as repository:
        with tuning.study(
            reference,
            space,
            repository=repository,
            run=folder,
            seed=options["seed"],
            objective=str(goal),
            steps=steps,
        ) as study:
            before = study.figures().trained_steps
            with contextlib.closing(line), walltime.gently():
                result = study.run(
                    strategy,
                    **wanted,
                    time_limit_s=options["time_limit"],
                    deadline=walltime.deadline,
                    on_progress=progress,
                )
            in_time = result.stop[0] != WALLTIME
            _say_result(result, err=as_json, save=in_time)
            summary = result.summary()
            # As for a search: a job that was told to end early may have had too little time by chance.
            done = walltime.is_told or result.figures.trained_steps > before
        if in_time:
            _say_report(result, err=as_json)
    if as_json:
        print_json_line(TUNE_KEYS, summary)
    if not in_time:
        end_out_of_time(folder, KEPT, done=done, why=result.stop[1])
    return result.stop[0]


def _may_be_over(folder: Path, reference: ProblemReference, space: Any, goal: Objective, seed: int) -> bool:
    """Return whether a study in a folder has trained, and may have nothing left to do.

    Raises
    ------
    RunMismatch
        If the folder holds another study, or a search.
    """
    from daskevo.runs.folder import read_info
    from daskevo.runs.mismatch import check_identity
    from daskevo_workflows import tune as tuning

    info = read_info(folder)
    if info is None:
        return False
    _, rows = tuning.data_to_tune(reference, reference.load())
    check_identity(folder, info.identity, tuning.identity_of(reference, space, goal, seed, rows))
    return (folder / BEST).exists()  # only the code that trains can write it


def _say_nothing_left(result: StudyResult, as_json: bool) -> str:
    """Print the results of a study that has ended, and write its report if that is missing."""
    from daskevo_plugins.formatting import say_count

    count = sum(report.status == "finished" for report in result.reports)
    click.echo(f"Nothing left to do: {say_count(count, 'evaluation')} finished.", err=as_json)
    _say_found(result, err=as_json)
    folder = result.study.folder
    click.echo(f"best model: {folder / BEST}", err=as_json)
    if (page := folder / "report.html").exists():
        click.echo(f"report:     {page}", err=as_json)
    else:
        _say_report(result, err=as_json)
    if as_json:
        print_json_line(TUNE_KEYS, result.summary())
    return result.stop[0]


def _say_result(result: StudyResult, *, err: bool, save: bool) -> None:
    """Print the results, and write the best model as a `.keras` file if there is time (`save`)."""
    from daskevo.errors import DaskevoError
    from daskevo_workflows.evaluation.quiet_import import import_keras
    from daskevo_workflows.results.atomic_files import save_model

    _say_found(result, err=err)
    if not result.figures.trials:
        return
    if not save:
        click.echo("best model and report: written when the study has ended", err=err)
        return
    path = result.study.folder / BEST
    try:
        import_keras()
        save_model(result.best(1)[0].model, path)
        click.echo(f"best model: {path}", err=err)
    except (DaskevoError, OSError) as error:
        again = same_command(result.study.folder)
        click.echo(f"The best model was not written: {error}\nThe same command tries again: {again}", err=True)


def _say_found(result: StudyResult, *, err: bool) -> None:
    """Print figures, the reason for the end, and the best trials."""
    from daskevo_plugins.formatting import plain, say_count, say_qualities, say_saved, say_seconds

    figures, metric = result.figures, result.study.objective.metric
    click.echo(
        f"{say_count(figures.trials, 'trial')} in {say_seconds(result.runtime_s)}: {figures.total_steps:,} steps, of "
        f"which {figures.unique_steps:,} differ, and {figures.trained_steps:,} were trained "
        f"({say_saved(figures.total_steps, figures.trained_steps)}). It ended because: {plain(result.stop[1])}.",
        err=err,
    )
    if not figures.trials:
        return
    best = result.best(SHOWN)
    for place, (found, quality) in enumerate(
        zip(best, say_qualities([found.quality for found in best]), strict=True), start=1
    ):
        words = f"{metric} {quality}  {found.trial}  step {found.step}  {say_hyperparameters(found.configuration)}"
        click.echo(f"  {place}. {words}", err=err)


def _say_report(result: StudyResult, *, err: bool) -> None:
    """Write the study's report, after its record is closed, and print its path."""
    from daskevo.errors import DaskevoError

    try:
        click.echo(f"report:     {result.report()}", err=err)
    except (DaskevoError, OSError) as error:
        click.echo(f"The report was not written: {error}", err=True)
