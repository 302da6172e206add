"""Write figures for a paper: one file per figure and format, and their captions."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from daskevo.errors import InvalidInput
from daskevo_plugins.formatting import plain
from daskevo_workflows.reports import svg as d
from daskevo_workflows.reports.arms import Arm
from daskevo_workflows.reports.figures import PAPER
from daskevo_workflows.reports.figures.chart import COLUMN, Drawing
from daskevo_workflows.reports.figures.targets import time_to_target
from daskevo_workflows.results.atomic_files import write_file

UNSAID: Mapping[str, Mapping[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Format -> metadata that is left out (dates, versions), so that the same runs give identical files."""

PNG_DPI = 300
CAPTIONS = "captions.md"


def write_all(
    arms: Sequence[Arm], folder: Path, formats: Sequence[str], targets: Sequence[float] | None = None
) -> list[Path]:
    """Write each figure for which these arms have data, and a file of captions; return the files.

    Parameters
    ----------
    folder:
        Created if it doesn't exist; files with these names are replaced.
    targets:
        Qualities for the time-to-target figure; None: round ones.

    Raises
    ------
    InvalidInput
        For an unknown format, or if there is nothing to draw.
    RunFolderUnusable
        If a file can't be written.
    """
    if strange := [word for word in formats if word not in UNSAID]:
        raise InvalidInput(f"figures can't be written as {strange[0]!r:.40}; there are {', '.join(UNSAID)}")
    # All figures are drawn before the first is written: what can't be drawn leaves no half of them behind.
    found: dict[str, bytes] = {}
    captions = ["# Figures of " + "; ".join(_say_arm(arm) for arm in arms)]
    with d.settings(COLUMN.font):
        for name, number, make in PAPER:
            draw = partial(time_to_target, targets=targets) if make is time_to_target else make
            drawing = draw(arms, COLUMN)
            if drawing is None:
                continue
            shown = f"{drawing.title}, as Figure {number} of the EvoStore paper. {drawing.caption} {drawing.words}"
            captions.append(f"## {name}\n\n{shown}")
            found |= {f"{name}.{word}": saved(drawing, word) for word in formats}
    if not found:
        raise InvalidInput("there is nothing to draw yet: no evaluation of these runs has finished")
    found[CAPTIONS] = ("\n\n".join(captions) + "\n").encode()
    return [write_file(folder / name, data, make_folder=True) for name, data in found.items()]


def saved(drawing: Drawing, form: str) -> bytes:
    """Return a drawing as a file's bytes, always identical, black on white."""
    settle(drawing.figure)
    buffer = io.BytesIO()
    # Text as outlines, so that a figure looks the same with any fonts.
    # The salt makes ids of clip paths and hatches the same each time: they are random otherwise. 42: TrueType in PDF,
    # as publishers ask for; matplotlib's own type 3 is refused by some.
    settings = {"svg.hashsalt": drawing.name, "svg.fonttype": "path", "pdf.fonttype": 42}
    with warnings.catch_warnings(), matplotlib.rc_context(settings):
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        metadata = {**UNSAID[form], "Title": drawing.title}
        drawing.figure.savefig(buffer, format=form, metadata=metadata, dpi=PNG_DPI, facecolor="white")
    return buffer.getvalue()


def settle(figure: Figure) -> None:
    """Fix layout and ticks once for all formats, because each would measure text differently."""
    if figure.get_layout_engine() is None:
        return
    # At the resolution of PNG, the only format with pixels: text that is measured at another one gets other sizes.
    figure.set_dpi(PNG_DPI)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.draw_without_rendering()
    # What was laid out stays; each `savefig` would lay it out again with its own measures.
    figure.set_layout_engine("none")
    for panel in figure.axes:
        for axis in (panel.xaxis, panel.yaxis):
            low, high = sorted(axis.get_view_interval())
            axis.set_major_locator(FixedLocator([float(at) for at in axis.get_majorticklocs() if low <= at <= high]))


def _say_arm(arm: Arm) -> str:
    names = ", ".join(plain(f"{run.label} ({run.run_id[:8]})", 80) for run in arm.runs)
    return f"{plain(arm.label, 80)}: {names}"
