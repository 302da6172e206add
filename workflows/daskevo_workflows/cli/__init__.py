"""The command `daskevo`, also reachable as `dask evo`: one file per command.

Dask, Keras and matplotlib are imported inside the commands that need them, so that ``--help`` answers at once.
"""

from __future__ import annotations

import click

from daskevo_workflows.cli.bench import bench
from daskevo_workflows.cli.chaos import chaos
from daskevo_workflows.cli.group import Commands
from daskevo_workflows.cli.models import models
from daskevo_workflows.cli.nas import nas
from daskevo_workflows.cli.node import node
from daskevo_workflows.cli.report import report
from daskevo_workflows.cli.retiring import retire
from daskevo_workflows.cli.tune import tune
from daskevo_workflows.cli.verify import verify

__all__ = ["main"]


@click.group(
    "evo",  # the name under `dask`, which takes it from here and not from the entry point
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="daskevo", prog_name="daskevo")
def main() -> None:
    """Neural architecture search with transfer learning on Dask: train no prefix twice.

    Exit codes of every command: 0 it is done; 2 it was refused, and says what to do; 70 an error that nobody foresaw,
    with its traceback; 130 it was interrupted. What 1 means, the command's own --help says.
    """


models.add_command(retire)
for _command in (nas, tune, models, verify, report, bench, chaos, node):
    main.add_command(_command)
