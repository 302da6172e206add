"""Messages about a run: folder, dashboard page and notices at its start, unanswered questions, how to continue it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from daskevo_workflows.cli.invocation import is_whole, same_command
from daskevo_workflows.cli.paths import RUN

if TYPE_CHECKING:
    from distributed import Client

    from daskevo.search import Report
    from daskevo_workflows.dashboard.dashboard_client import Page


def say_where(folder: Path, client: Client, page: Page) -> None:
    """Say it in one line: the run's folder, and the address of its page, or why there is none and what to do."""
    from daskevo_workflows.dashboard.dashboard_client import where_shown

    link, why = where_shown(client, page)
    click.echo(f"run: {folder}   dashboard: {link or f'none, {why}'}", err=True)


def say_all_at_random(strategy: object, evaluations: int) -> None:
    """Warn if an evolution would end before its population is full: then nothing descends from the best.

    Silent where the command that was typed takes no population, such as a forecast.
    """
    from daskevo.search.parent_population import Evolving

    if isinstance(strategy, Evolving) and strategy.size >= evaluations and not is_whole():
        # A quarter at random leaves three quarters that descend from the best.
        fewer = max(2, evaluations // 4)
        click.echo(
            f"A population of {strategy.size} is filled at random first: all of {evaluations} evaluations. With "
            f"--population {fewer} --sample {max(1, fewer // 3)}, in a new run, later ones descend from the best",
            err=True,
        )


def say_first_is_slow(scheduler: str | None, what: str) -> None:
    """Say why nothing seems to happen at first. Trainers of a scheduler that was named may be warm: silent then.

    Parameters
    ----------
    what:
        What comes first: ``evaluation`` or ``training``.
    """
    if scheduler is None:
        click.echo(
            f"each trainer imports Keras and prepares the data before its first {what}: some seconds, or more on a "
            "busy machine; later ones are faster",
            err=True,
        )


def say_unanswered(reports: Iterable[Report], *, was_empty: bool = False) -> str | None:
    """Say how many evaluations inherited less because repositories did not answer in time, and what to do.

    No I/O; None if there are none.

    Parameters
    ----------
    was_empty:
        Whether the repository had no model when the run was begun: evaluations that started before its first one ended
        have missed nothing.
    """
    finished = [report for report in reports if report.status == "finished" and report.transfer is not None]
    less = [r for r in finished if r.transfer and (r.transfer.silent or r.transfer.reason == "no answer")]
    if was_empty:
        first = min((report.ended for report in finished if report.ended is not None), default=0.0)
        less = [report for report in less if report.started is None or report.started >= first]
    if not less:
        return None
    return (
        f"{len(less)} of {len(finished)} evaluations asked for an ancestor and had no answer, or only some, in time: "
        "they inherited nothing, or less than there was. Providers, or the machine, were too busy: have fewer trainers "
        "on it, or more providers, or jobs of providers with cores of their own"
    )


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
