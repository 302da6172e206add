"""`daskevo models`: look into a repository without a cluster, take trained models out of it, and put others in."""

from __future__ import annotations

import click

from daskevo_workflows.cli.models_add import add
from daskevo_workflows.cli.models_export import export
from daskevo_workflows.cli.models_lineage import blame, diff, lineage
from daskevo_workflows.cli.models_list import ls, show
from daskevo_workflows.cli.models_retire import retire


@click.group()
def models() -> None:
    """List, show, compare, export, add and retire the models of a repository.

    ROOT is the repository, or the folder of a run that has it inside. It may be in use: nothing is changed, but by
    `add` and `retire`.

    \b
    The best models of a search, and the best three as files that others load without daskevo, each with a card that
    says what it is (.keras, .weights.h5 or .safetensors):
        daskevo models ls runs/digits-seed0 --limit 5
        daskevo models export runs/digits-seed0 best.keras
        daskevo models export runs/digits-seed0 --best 3 --format .safetensors winners
    Where a model comes from, who trained which layer, and what makes it another than its ancestor:
        daskevo models lineage runs/digits-seed0 MODEL_ID
        daskevo models blame runs/digits-seed0 MODEL_ID
        daskevo models diff runs/digits-seed0 MODEL_A MODEL_B
        daskevo models lineage runs/digits-seed0 --all --dot | dot -Tsvg > family.svg
    A Keras model that you have trained, as an ancestor of what a search will find:
        daskevo models add runs/digits-seed0 mine.keras --metric val_accuracy=0.93
    """


for _command in (ls, show, lineage, diff, blame, export, add, retire):
    models.add_command(_command)
