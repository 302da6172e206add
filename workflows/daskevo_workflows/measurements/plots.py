"""Plots of benchmarks, as SVG or PNG by the file's suffix."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from daskevo.errors import InvalidInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png")


def check_plot(path: Path) -> None:
    """Find out before an hour of measuring whether a plot can be written.

    Raises
    ------
    InvalidInput
        If the suffix says no known format, the folder isn't there, or matplotlib is not installed.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"can't plot into {path}: its name must end with {' or '.join(SUFFIXES)}", path=str(path))
    if not path.parent.is_dir():
        raise InvalidInput(f"can't plot into {path}: make the folder {path.parent} first", path=str(path))
    if find_spec("matplotlib") is None:
        raise InvalidInput("a plot needs matplotlib, which is not installed: pip install 'daskevo[dashboard]'")


def save_plot(draw: Callable[[Figure], None], path: Path, *, width: float = 8.0, height: float = 4.0) -> None:
    """Draw a figure and write it.

    Parameters
    ----------
    draw:
        Fills the empty figure.
    width, height:
        In inches.

    Raises
    ------
    InvalidInput
        As :func:`check_plot`.
    """
    check_plot(path)
    from daskevo_workflows.reports.svg import PAPER, settings

    with settings():
        import matplotlib
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), layout="constrained", facecolor=PAPER)
        draw(figure)
        # The same figures give the same file: no date, no random ids.
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        with matplotlib.rc_context({"svg.hashsalt": path.name}):
            figure.savefig(path, dpi=150, facecolor=PAPER, metadata=metadata)
