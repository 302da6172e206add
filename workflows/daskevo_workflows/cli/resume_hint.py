"""Messages that say how to continue a stopped run."""

from __future__ import annotations

from pathlib import Path

from daskevo_workflows.cli.invocation import same_command
from daskevo_workflows.cli.paths import RUN


def how_to_go_on(folder: Path, what: str) -> str:
    """Say how to continue a run that was interrupted.

    Parameters
    ----------
    what:
        What is kept of it, such as ``Every finished evaluation is kept``.
    """
    if not (folder / RUN).exists():
        return (
            f"Stopped before the run had begun: there is nothing to keep yet. To begin it:\n    {same_command(folder)}"
        )
    return f"Stopped. {kept(folder, what)}"


def kept(folder: Path, what: str, how: str = "to go on") -> str:
    """Say what is kept of a run, and the command that goes on with it."""
    return f"{what}; {how}:\n    {same_command(folder)}"
