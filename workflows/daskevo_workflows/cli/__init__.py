"""The command `daskevo`, also reachable as `dask evo`: one file per command.

Dask, Keras and matplotlib are imported inside the commands that need them, so that ``--help`` answers at once.
"""

from __future__ import annotations

import click

from daskevo_workflows.cli.check import check
from daskevo_workflows.cli.completion import completion
from daskevo_workflows.cli.exit_codes import epilog
from daskevo_workflows.cli.figures import figures, frame
from daskevo_workflows.cli.forecast import forecast
from daskevo_workflows.cli.group import Commands
from daskevo_workflows.cli.models import models
from daskevo_workflows.cli.moved import bench, chaos
from daskevo_workflows.cli.nas import nas
from daskevo_workflows.cli.node import node
from daskevo_workflows.cli.report import report
from daskevo_workflows.cli.salvage import salvage
from daskevo_workflows.cli.status import status
from daskevo_workflows.cli.tune import tune
from daskevo_workflows.cli.verify import verify

__all__ = ["main"]


@click.group(
    "evo",  # the name under `dask`, which takes it from here and not from the entry point
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=epilog(),
)
@click.version_option(package_name="daskevo", prog_name="daskevo")
def main() -> None:
    """Neural architecture search with transfer learning on Dask: no prefix is trained twice.

    \b
    A first search, about a minute, and its models:
        daskevo nas digits --evaluations 20
        daskevo models ls runs/digits-seed0
    Tune hyper-parameters, about half a minute:
        daskevo tune digits-lr
    Check a problem of your own:
        daskevo check my_problem.py

    Each search or study has a folder (--run). Give the same command again to continue a stopped one. The commands
    status, models, report, figures, frame and verify read the folder at any time. COMMAND --help has examples.
    """


for _command in (
    *(check, nas, tune, status, models, report, figures, frame, verify, salvage),
    *(forecast, bench, chaos, node, completion),
):
    main.add_command(_command)
