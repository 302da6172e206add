"""The command `daskevo salvage`: save the readable part of a damaged record as a new run."""

from __future__ import annotations

from pathlib import Path

import click

from daskevo_workflows.cli.completion import FOLDER


@click.command(short_help="Save the readable part of a run whose record is damaged.")
@click.argument("run", type=FOLDER)
@click.argument("to", type=FOLDER)
def salvage(run: Path, to: Path) -> None:
    """Save the readable part of the damaged record of the run in folder RUN as a run in the new folder TO.

    \b
    After a full disk, or an incomplete copy:
        daskevo salvage runs/digits-seed0 runs/salvaged
        daskevo report runs/salvaged

    RUN is not changed. TO can be viewed and reported, but not continued; the models stay in RUN's repository.
    """
    from daskevo.runs.salvage import salvage as save
    from daskevo_plugins.formatting import say_count

    saved = save(run, to)
    rows = ", ".join(say_count(saved[table], table[:-1]) for table in ("requests", "reports", "units", "events"))
    click.echo(f"Saved in {to}: {rows}. Look at them: daskevo status {to}")
