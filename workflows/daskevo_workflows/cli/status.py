"""The command `daskevo status`: progress and results of a run, without a cluster, during the run or later."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from daskevo_workflows.cli.completion import FOLDER
from daskevo_workflows.cli.json_lines import AS_JSON, NAS_KEYS, TUNE_KEYS, print_json_line
from daskevo_workflows.cli.models_arguments import print_columns
from daskevo_workflows.cli.search_summary import say_hyperparameters, say_models, say_stored

if TYPE_CHECKING:
    from daskevo.runs import SessionRow
    from daskevo_workflows.results.result import Result

SHOWN = 3
"""Best models printed, at most."""

STATE = "state"
"""Key in this command's JSON besides those of `daskevo nas --json` and `daskevo tune --json`."""


@click.command(short_help="Show the progress and results of a search or a study.")
@click.argument("run", type=FOLDER)
@AS_JSON
def status(run: Path, as_json: bool) -> None:
    """Show progress and results of the run in folder RUN, whether it is running, stopped or finished.

    \b
    A search in another terminal, or in a batch job:
        daskevo status runs/digits-seed0

    No cluster is needed, and nothing is changed. For its models: `daskevo models ls RUN`; for figures:
    `daskevo report RUN`.
    """
    from daskevo_workflows.reports.study_reader import is_study

    if is_study(run):
        _study(run, as_json)
    else:
        _search(run, as_json)


def _search(run: Path, as_json: bool) -> None:
    from daskevo_workflows.results.look import look

    result = look(run)
    if as_json:
        print_json_line((*NAS_KEYS, STATE), {**result.summary(), STATE: result.series.state})
        return
    _print(_search_lines(result))


def _search_lines(result: Result) -> list[tuple[str, str]]:
    from daskevo_plugins.formatting import plain, say_seconds
    from daskevo_workflows.reports.freeze_summary import say_frozen
    from daskevo_workflows.reports.series import say_other_data
    from daskevo_workflows.results.run_root import borrowed_from

    series, summary, about = result.series, result.summary(), result.info.about
    apart = [f"{summary['failures']} failed", f"{summary['rejected']} rejected", f"{summary['duplicates']} repeated"]
    counted = [words for words in apart if not words.startswith("0 ")]
    of = f" of {series.asked}" if series.asked else ""
    root = about.get("repository") and _root(result.folder, str(about["repository"]))
    lines = [
        (
            "search",
            f"{plain(series.facts.get('problem', '?'), 80)}, seed {result.info.identity.get('seed')}; "
            f"{_strategy(result.info.identity)}; {series.arm}",
        ),
        (STATE, _state(series.state, result.sessions)),
        *([("data", words)] if (words := say_other_data(series.happenings)) else []),
        ("evaluations", ", ".join([f"{summary['evaluations']}{of} finished", *counted])),
        ("running time", say_seconds(summary["runtime_s"])),
        ("inherited", say_frozen(series)),
    ]
    if (stored := say_stored(summary)) is not None:
        lines.append(("stored", stored))
    where = "in memory: gone with its cluster" if root is None else f"{plain(root, 300)}, scope {about.get('scope')}"
    if (home := borrowed_from(result.folder)) is not None:
        where += f"; that of {plain(home, 300)}, of which this is a copy"
    lines.append(("repository", where))
    if summary["evaluations"]:
        lines += [
            ("best" if place == 0 else "", words) for place, words in enumerate(say_models(result, result.best(SHOWN)))
        ]
    return lines


def _strategy(identity: Mapping[str, Any]) -> str:
    """Return the name of a search's strategy; of one that trains in parts also how far."""
    from daskevo_plugins.formatting import plain

    recorded = identity.get("strategy")
    strategy = recorded if isinstance(recorded, dict) else {}
    settings, unit = strategy.get("settings"), identity.get("unit")
    if unit is None or not isinstance(settings, dict):
        return plain(strategy.get("name", "?"), 80)
    until = f" until {unit} {settings['most']}" if "most" in settings else ""
    return plain(f"{strategy.get('name', '?')}, each candidate in parts{until}, each part an evaluation", 160)


def _root(folder: Path, recorded: str) -> str:
    """Return the run's repository; for a copied folder the one inside, where its models are looked up."""
    from daskevo.errors import DaskevoError
    from daskevo_workflows.results.run_root import recorded_root

    try:
        return str((recorded_root(folder) or Path(recorded)).absolute())
    except DaskevoError:
        return recorded  # the repository is broken; still show the run


def _study(run: Path, as_json: bool) -> None:
    from daskevo.runs import RunView
    from daskevo_plugins.formatting import plain, say_qualities, say_saved, say_seconds
    from daskevo_workflows.reports.study_reader import read_study
    from daskevo_workflows.studies.accounts import summary

    study = read_study(run)
    if as_json:
        found = None
        for one in study.best[:1]:
            named = {**one.configuration.sequences, **one.configuration.constants}
            said = {name: repr(value) for name, value in named.items()}
            found = {"quality": one.quality, "step": one.step, "hyperparameters": said, "snapshot": None}
        line = summary(study.figures, study.runtime_s, found)
        print_json_line((*TUNE_KEYS, STATE), {**line, STATE: study.state})
        return
    with RunView(run) as view:
        sessions = view.sessions()
    figures = study.figures
    lines = [
        ("study", f"{plain(study.facts.get('problem', '?'), 80)}; {plain(study.facts.get('strategy', '?'), 200)}"),
        (STATE, _state(study.state, sessions)),
        ("trials", f"{figures.trials}; {study.asked - study.pending} of {study.asked} requests answered"),
        (
            "steps",
            f"{figures.total_steps:,}, of which {figures.unique_steps:,} differ, and {figures.trained_steps:,} were "
            f"trained ({say_saved(figures.total_steps, figures.trained_steps)})",
        ),
        ("running time", say_seconds(study.runtime_s)),
    ]
    shown = study.best[:SHOWN]
    lines += [
        (
            "best" if place == 0 else "",
            f"{study.objective.metric} {quality}  step {one.step}  {say_hyperparameters(one.configuration, 300)}",
        )
        for place, (one, quality) in enumerate(zip(shown, say_qualities([one.quality for one in shown]), strict=True))
    ]
    _print(lines)


def _state(state: str, sessions: Sequence[SessionRow]) -> str:
    """Describe the last session; without an end: when it last wrote, and on its host whether its process lives."""
    from daskevo_plugins.formatting import plain, say_seconds

    if not sessions or sessions[-1].ended is not None:
        return "ended" if state == "closed" else f"ended: {plain(state)}"
    last = sessions[-1]
    ago = say_seconds(max(0.0, time.time() - last.last))
    known, process = lives(last.process), plain(last.process, 100)
    if known is None:
        return f"{plain(state)}; last heard of {ago} ago, process {process}"
    # The record alone can't tell the two apart; the process can, on its own host.
    said = plain(state).replace("running, or killed", "running" if known else "killed", 1)
    return f"{said}; last heard of {ago} ago, process {process}, which {'is there' if known else 'is gone'}"


def lives(process: str) -> bool | None:
    """Tell whether a process, ``NUMBER on HOST``, exists on this host; None if it is on another host."""
    # At most nine digits: more are no process number, and os.kill would raise OverflowError.
    found = re.fullmatch(r"([1-9]\d{0,8}) on (\S+)", process)
    if found is None or found[2] != socket.gethostname():
        return None
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return False
    # It exists, and belongs to somebody else.
    except PermissionError:
        pass
    return True


def _print(lines: Sequence[tuple[str, str]]) -> None:
    print_columns([(f"{name}:" if name else "", words) for name, words in lines])
