"""``python -m benchmarks.prefix``."""

from __future__ import annotations

from typing import Literal

import click

from benchmarks.shared.command import Say, measured
from benchmarks.shared.outcome import Outcome
from daskevo.index import PrefixIndex


@click.command()
@click.option(
    "--models", type=click.IntRange(min=1000), help="Only catalogues of this size.  [default: 60000, and 600000]"
)
@click.option("--catalogue", type=click.Choice(["random", "lineage"]), help="Only this kind.  [default: both]")
@measured
def main(quick: bool, say: Say, models: int | None, catalogue: Literal["random", "lineage"] | None) -> Outcome:
    """Best-match queries: the index against Algorithm 1, SQLite and Redis.

    The JSON describes the first catalogue of the table.
    """
    PrefixIndex().warm()  # says what to install where there is no numba, which the benchmark's own modules import too
    from benchmarks.prefix.measure import CATALOGUES, SIZES, measure

    return measure(
        quick,
        say,
        CATALOGUES if catalogue is None else [catalogue],
        SIZES if models is None else [models],
    )


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.prefix")
