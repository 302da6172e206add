"""The frame of a command that carries a run on: signals, walltime, its cluster and repository, its exit code."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from daskevo.errors import ClusterError, RunFailed
from daskevo_workflows.cli.batch_jobs import Batch
from daskevo_workflows.cli.clusters import a_cluster
from daskevo_workflows.cli.group import RefusedCommand
from daskevo_workflows.cli.interrupts import Interrupts, heard
from daskevo_workflows.cli.paths import RUN, run_folder
from daskevo_workflows.cli.run_messages import kept, say_first_is_slow, say_where
from daskevo_workflows.cli.walltime import Walltime, end_stopped

if TYPE_CHECKING:
    from daskevo.repository import Repository
    from daskevo_workflows.dashboard.dashboard_client import Page

FAILURES = "failures"
"""The word for why a run ended in which too many failed."""

FAILED = 1
"""Exit code when the run ended because too many evaluations or trials failed."""


class NothingFinished(RefusedCommand):
    """Nothing finished, as too many failed."""

    exit_code = FAILED


def carry_on(folder: Path, walltime: str | float, what: str, work: Callable[[Interrupts, Walltime], str]) -> NoReturn:
    """Carry a run on, and end the command.

    Parameters
    ----------
    walltime:
        As it was typed.
    what:
        What is kept of it, such as ``Every finished evaluation is kept``.
    work:
        Returns the word for why the run ended.

    Raises
    ------
    Refused
        If the cluster went away: with how to go on.
    Failed
        If nothing finished, as too many failed.
    """
    with heard(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as interrupts:
        try:
            word = work(interrupts, Walltime(walltime, interrupts))
        except KeyboardInterrupt:
            end_stopped(interrupts, folder, what)
        # Exit code 1 where trainings failed; other reasons for an end with nothing finished are refusals (2).
        except RunFailed as error:
            if error.facts.get("reason") != FAILURES:
                raise
            raise NothingFinished(error) from error
        except ClusterError as error:
            # Before there is a run, there is nothing to go on with: the error stands for itself.
            if not (folder / RUN).exists():
                raise
            how = "once the cluster is there (--scheduler takes its new address), the same command goes on"
            raise RefusedCommand(error, kept(folder, what, how)) from error
    sys.exit(FAILED if word == FAILURES else 0)


@contextlib.contextmanager
def open_run(
    folder: Path, root: Path, scope: str, objective: str, batch: Batch | None, options: Mapping[str, Any], page: Page
) -> Iterator[Repository]:
    """Lock a run's folder, start its cluster or connect to it, and yield the repository opened there.

    Parameters
    ----------
    root, scope, objective:
        As `daskevo.open` takes them.
    batch:
        The batch system that the cluster's nodes are jobs of; None: there is none.
    options:
        `scheduler`, `workers` and `quota` of the command.
    page:
        The run's page on the dashboard.
    """
    import daskevo

    # The folder first: a run that another process has is refused before a cluster is started.
    with run_folder(folder), a_cluster(options["scheduler"], options["workers"], batch=batch) as client:
        say_where(folder, client, page)
        say_first_is_slow(options["scheduler"], "evaluation" if page == "search" else "training")
        yield daskevo.open(root, scope, client=client, objective=objective, quota=options["quota"])
