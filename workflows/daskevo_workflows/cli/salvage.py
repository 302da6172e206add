"""`daskevo salvage`: what can still be read of a run's damaged record, as a run in another folder."""

from __future__ import annotations

from pathlib import Path

import click

from daskevo_workflows.cli.completion import FOLDER


@click.command(short_help="Save what can be read of a run whose record is cut or damaged.")
@click.argument("run", type=FOLDER)
@click.argument("to", type=FOLDER)
def salvage(run: Path, to: Path) -> None:
    """Save what can be read of the record of the run in folder RUN, as a run in the new folder TO.

    \b
    After a full disk, or a copy that was broken off:
        daskevo salvage runs/digits-seed0 runs/salvaged
        daskevo report runs/salvaged

    RUN is not changed. TO can be looked at and reported; it can't go on, and models stay in RUN's repository.
    """
    from daskevo.runs.salvage import salvage as save
    from daskevo_plugins.formatting import say_count

    saved = save(run, to)
    rows = ", ".join(say_count(saved[table], table[:-1]) for table in ("requests", "reports", "units", "events"))
    click.echo(f"Saved in {to}: {rows}. Look at them: daskevo status {to}")
