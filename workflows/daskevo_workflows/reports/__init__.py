"""Reports: one HTML file per run, or per pair of runs, readable offline."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from daskevo.errors import InvalidInput

__all__ = ["write_report"]


def write_report(run: Path, other: Path | None = None, output: Path | None = None) -> Path:
    """Write the report of a run, or of two side by side, or of a study, and return where it lies.

    Parameters
    ----------
    run, other:
        Folders of runs; they may still be going on.
    output:
        The HTML file; in `run` by default.

    Raises
    ------
    RunFolderUnusable
        If a folder holds no run, or the page can't be written.
    InvalidInput
        If the two runs have different objectives, one of two is a study, or matplotlib is not installed.
    """
    try:
        from daskevo_workflows.reports.page import save, write
        from daskevo_workflows.reports.study_page import render_study
    except ImportError as error:
        raise InvalidInput(
            f"a report needs {error.name}, which is not installed: pip install 'daskevo[dashboard]'"
        ) from error
    from daskevo_workflows.reports.reading import read_runs
    from daskevo_workflows.reports.study_reading import is_study, read_study

    run = Path(run)
    if output is None:
        output = run / ("report.html" if other is None else f"report-with-{Path(other).resolve().name}.html")
    if any(is_study(folder) for folder in (run, other) if folder is not None):
        if other is not None:
            raise InvalidInput("a study can't be shown beside another run: make a report of each")
        return save(render_study(read_study(run), version=version("daskevo")), Path(output))
    return write(read_runs([run] if other is None else [run, Path(other)]), Path(output), version=version("daskevo"))
