"""What a command says of where its run lies, and where it can be watched."""

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
