"""Reports: one offline HTML file per run or comparison of runs, and figures for a paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from daskevo.errors import InvalidInput
from daskevo.types import ModelId
from daskevo_workflows.results.atomic_files import write_file

if TYPE_CHECKING:
    from daskevo_workflows.reports.series import RunSeries

__all__ = ["write_figures", "write_report"]

FORMATS = ("svg", "png", "pdf")
"""Formats of figures."""


def write_report(run: str | Path, *others: str | Path, output: str | Path | None = None) -> Path:
    """Write the report of a run, of a comparison of runs, or of a study; return its path.

    Two runs are shown next to each other. More are grouped into arms: runs that differ only in their seed are drawn as
    median and range.

    Parameters
    ----------
    run, others:
        Folders of runs, each once; they may still be running.
    output:
        The HTML file; by default in `run`.

    Raises
    ------
    RunFolderUnusable
        If a folder holds no run, or the page can't be written.
    InvalidInput
        If the runs have different objectives, one of several is a study, or matplotlib is not installed.
    """
    try:
        # Imported here, and tried: matplotlib comes with an extra, and the command line must start without it.
        from daskevo_workflows.reports.page import render
        from daskevo_workflows.reports.study_page import render_study
    except ImportError as error:
        raise _without(error, "a report needs") from error
    from daskevo_workflows.reports.arms import labelled
    from daskevo_workflows.reports.run_reader import read_run
    from daskevo_workflows.reports.study_reader import is_study, read_study
    from daskevo_workflows.reports.unique_runs import each_once

    folders = each_once([Path(folder) for folder in (run, *others)])
    if output is None:
        # Each comparison has a file of its own, so that the report of the run alone stays.
        names = "".join(f"-with-{folder.resolve().name}" for folder in folders[1:2])
        rest = f"-and-{len(folders) - 2}-more" if len(folders) > 2 else ""
        output = folders[0] / f"report{names}{rest}.html"
    if any(is_study(folder) for folder in folders):
        if len(folders) > 1:
            raise InvalidInput("a study can't be shown beside another run: make a report of each")
        page = render_study(read_study(folders[0]), version=version("daskevo"))
    else:
        # The labels come last: they say what tells these runs apart, which only all of them together show.
        runs = labelled([_with_retired(read_run(one), one) for one in folders])
        page = render(runs, version=version("daskevo"))
    return write_file(Path(output), page)


def _with_retired(run: RunSeries, folder: Path) -> RunSeries:
    from daskevo_workflows.reports.tables import shown_models
    from daskevo_workflows.results.model_status import GONE, look_up

    # The report is of the record alone; only whether weights are still there has to be asked of the repository.
    states = look_up(folder, map(ModelId, shown_models(run)))
    return replace(run, retired=frozenset(name for name, state in states.items() if state in GONE))


def write_figures(
    runs: Sequence[str | Path],
    folder: str | Path,
    *,
    formats: Sequence[str] = ("svg", "png"),
    targets: Sequence[float] | None = None,
) -> list[Path]:
    """Write the figures of paper 000 (6 to 10) for runs, one column wide: ``quality``, ``time-to-target``, ``runtime``,
    ``tasks`` and ``storage``, with their captions in ``captions.md``; return the files.

    Runs that differ only in their seed form an arm, drawn as median and range; runs that inherit nothing are labelled
    "no transfer". The same runs always give identical files.

    Parameters
    ----------
    runs:
        Folders of runs, each once; they may still be running.
    folder:
        Where to write; created if it doesn't exist.
    formats:
        Of ``svg``, ``png`` (300 dpi) and ``pdf``.
    targets:
        Qualities for the time-to-target figure; None: some round ones.

    Raises
    ------
    RunFolderUnusable
        If a folder holds no run, or a file can't be written.
    InvalidInput
        If the runs have different objectives or there are too many to tell apart, one is a study, no evaluation has
        finished, or matplotlib is not installed.
    """
    try:
        from daskevo_workflows.reports.figure_files import write_all
    except ImportError as error:
        raise _without(error, "figures need") from error
    from daskevo_workflows.reports.arms import arms_of
    from daskevo_workflows.reports.run_reader import read_run
    from daskevo_workflows.reports.study_reader import is_study
    from daskevo_workflows.reports.unique_runs import each_once

    folders = each_once([Path(run) for run in runs])
    if (study := next((one for one in folders if is_study(one)), None)) is not None:
        raise InvalidInput(
            f"{study} holds a study of hyper-parameters, and these figures are of searches: daskevo report {study} "
            "draws its stage tree",
            path=str(study),
        )
    return write_all(arms_of([read_run(one) for one in folders]), Path(folder), formats, targets)


def _without(error: ImportError, needs: str) -> InvalidInput:
    return InvalidInput(f"{needs} {error.name}, which is not installed: pip install 'daskevo[dashboard]'")
