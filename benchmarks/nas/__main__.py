"""``python -m benchmarks.nas``."""

from __future__ import annotations

import click

from benchmarks.nas import measure
from benchmarks.shared.command import Say, measured
from benchmarks.shared.outcome import Outcome


@click.command()
@measured
def main(quick: bool, say: Say) -> Outcome:
    """Time to the first step, the repository's part of an evaluation, overhead beyond training."""
    return measure(quick, say)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.nas")
