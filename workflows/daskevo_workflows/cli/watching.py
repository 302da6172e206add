"""What a command says when its run begins: where it lies, where it can be watched, and what it will not do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from distributed import Client

    from daskevo_workflows.showing import Page


def say_where(folder: Path, client: Client, page: Page) -> None:
    """Say it in one line: the run's folder, and the address of its page, or why there is none and what to do."""
    from daskevo_workflows.showing import where_shown

    link, why = where_shown(client, page)
    click.echo(f"run: {folder}   dashboard: {link or f'none, {why}'}", err=True)


def say_all_at_random(strategy: object, evaluations: int) -> None:
    """Say so where an evolution ends before its population is full: then nothing descends from the best."""
    from daskevo.search.evolving import Evolving

    if isinstance(strategy, Evolving) and strategy.size >= evaluations:
        fewer = max(2, evaluations // 4)
        click.echo(
            f"A population of {strategy.size} is filled at random first: all of {evaluations} evaluations. With "
            f"--population {fewer} --sample {max(1, fewer // 3)}, in a new run, later ones descend from the best",
            err=True,
        )
