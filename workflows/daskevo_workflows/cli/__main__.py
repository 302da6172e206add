"""``python -m daskevo_workflows.cli``: the command `daskevo` where it may not be in PATH, as in a job's script."""

from __future__ import annotations

from daskevo_workflows.cli import main

main(prog_name="daskevo")
