"""`daskevo verify`: check that a repository holds what its records say, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from daskevo_workflows.cli.lines import VERIFY_KEYS, print_json_line
from daskevo_workflows.cli.places import repository_root


@click.command()
@click.argument("root", type=click.Path(path_type=Path))
@click.option("--repair", is_flag=True, help="Mend what can be mended; the repository must not be open elsewhere.")
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON for programs.")
def verify(root: Path, repair: bool, as_json: bool) -> None:
    """Check the repository at ROOT (or in a run's folder) without a cluster.

    Exit code 0: clean; 1: differences were found; 2: it can't be read.
    """
    import daskevo

    found = daskevo.open(repository_root(root)).verify(repair=repair)
    for difference in found.differences:
        click.echo(str(difference), err=as_json)
    if as_json:
        differences = [str(difference) for difference in found.differences]
        print_json_line(
            VERIFY_KEYS,
            {
                "clean": found.clean,
                "differences": differences,
                "models": found.models,
                "tensors": found.tensors,
                "payload_bytes": found.payload_bytes,
            },
        )
    else:
        from daskevo_workflows.words import say_bytes

        word = "clean" if found.clean else f"{len(found.differences)} differences"
        click.echo(f"{word}: {found.models} models, {found.tensors} tensors, {say_bytes(found.payload_bytes)}")
    sys.exit(0 if found.clean else 1)
