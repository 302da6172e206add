"""A small space trained once, kept as a table: strategies are compared over a hundred seeds in seconds.

::

    from daskevo.search import AgedEvolution
    from daskevo_workflows.tabular import load_table, run_on_table

    table = load_table()
    run = run_on_table(AgedEvolution(population=16, sample=4), table, evaluations=60, seed=7)
    print(run.leaders[-1].quality, run.regrets[-1], run.true_regrets[-1])

``python -m daskevo_workflows.tabular.compare`` sets all strategies beside random search;
``python -m daskevo_workflows.tabular.make`` trains the table anew.
"""

from __future__ import annotations

from daskevo_workflows.tabular.running import TableRun, run_on_table
from daskevo_workflows.tabular.table import Architecture, Table, load_table

__all__ = ["Architecture", "Table", "TableRun", "load_table", "run_on_table"]
