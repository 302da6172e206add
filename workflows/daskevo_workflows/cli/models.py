"""The commands `daskevo models ...`: inspect a repository without a cluster, export models, add others."""

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

    ROOT is the repository, or the folder of a run that contains it. It may be in use: only `add` and `retire` change
    anything.

    \b
    List the best models of a search; export the best one, or the best three, as files that can be loaded without
    daskevo, each with a model card (.keras, .weights.h5 or .safetensors):
        daskevo models ls runs/digits-seed0 --limit 5
        daskevo models export runs/digits-seed0 best.keras
        daskevo models export runs/digits-seed0 --best 3 --format .safetensors winners
    Show the lineage of a model, which model trained which layer, and what two models differ in:
        daskevo models lineage runs/digits-seed0 MODEL_ID
        daskevo models blame runs/digits-seed0 MODEL_ID
        daskevo models diff runs/digits-seed0 MODEL_A MODEL_B
        daskevo models lineage runs/digits-seed0 --all --dot | dot -Tsvg > family.svg
    Add a Keras model that you have trained, for searches to inherit from:
        daskevo models add runs/digits-seed0 mine.keras --metric val_accuracy=0.93
    """


for _command in (ls, show, lineage, diff, blame, export, add, retire):
    models.add_command(_command)
