"""``python -m benchmarks.store``."""

from __future__ import annotations

import click

from benchmarks.shared.command import Say, measured
from benchmarks.shared.outcome import Outcome
from benchmarks.store import measure


@click.command()
@measured
def main(quick: bool, say: Say) -> Outcome:
    """Puts and reads of models through a repository, against HDF5, Keras' files, safetensors, raw files and memcpy.

    Takes some minutes, and about 4 GB in the folder for temporary files and in memory.
    """
    return measure(quick, say)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.store")
