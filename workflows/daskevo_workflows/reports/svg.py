"""From a matplotlib figure to an SVG element that fits into a page: its colours follow the page's light or dark."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import Any

import matplotlib
from matplotlib.axis import Axis, XAxis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from daskevo_plugins.dashboard.colours import PALETTE

INK, FAINT, LINE, PAPER, BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = (light for light, _ in PALETTE.values())
"""Figures are drawn in the light colours; each becomes a variable of the page's style sheet."""

_NAMES = {light: name for name, (light, _) in PALETTE.items()}

_SETTINGS: Mapping[str, Any] = {
    "svg.fonttype": "none",  # text stays text: searched, read aloud, in the page's own font
    "text.parse_math": False,  # a worker or metric may have a dollar sign in its name
    "axes.unicode_minus": True,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "hatch.linewidth": 0.8,
    "savefig.facecolor": "none",
}

RASTER_FROM = 4000
"""Marks in one figure from which they are drawn as pixels: a page of 100,000 circles does not scroll."""


@contextmanager
def settings(font: float = 10.0) -> Iterator[None]:
    """Context, or decorator, in which figures are made and saved, so that a user's own matplotlibrc changes nothing.

    Parameters
    ----------
    font:
        Size of text, in points.
    """
    sizes = {"font.size": font, "axes.titlesize": 1.05 * font, "legend.fontsize": 0.9 * font}
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_SETTINGS, **sizes, "backend": "svg"}):
        yield


def logarithmic(axis: Axis, words: Callable[[float], str] = "{:g}".format) -> None:
    """Make an axis logarithmic, with plain numbers: matplotlib's own are mathematics, which nobody sets here."""
    change = axis.axes.set_xscale if isinstance(axis, XAxis) else axis.axes.set_yscale
    change("log")
    axis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    axis.set_minor_formatter(NullFormatter())


def to_svg(figure: Figure, *, name: str, title: str, description: str) -> str:
    """Return the figure as an inline ``<svg>`` element with a title and a description for those who can't see it.

    Parameters
    ----------
    name:
        Prefix of every id in the element (letters, digits, ``-``), so that several figures can share a page.
    """
    # Its own canvas and no pyplot: pyplot keeps every figure that is made, and may look for a display.
    FigureCanvasSVG(figure)
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # Names may hold letters that matplotlib's own font lacks; the browser has them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        with matplotlib.rc_context({"svg.hashsalt": name}):
            figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, dpi=150)
    text = buffer.getvalue()
    # What comes before is a declaration of XML, which HTML doesn't have.
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Ids of all figures of a page share one space: without a prefix a clip path would be found in another figure.
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    # The ground of a hatch has its colour as an attribute, where a variable would not be understood.
    text = re.sub(r' fill="(#[0-9a-f]{6})"', r' style="fill: \1"', text)
    text = re.sub(r"((?:fill|stroke): ?)(#[0-9a-f]{6})", _variable, text)
    # Without a size of its own, a drawing takes the width of the page and keeps its shape.
    text = re.sub(r'(<svg [^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", text, count=1)
    opening, rest = text.split(">", 1)
    return (
        f'{opening} role="img" aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>{rest}'
    )


def _variable(match: re.Match[str]) -> str:
    name = _NAMES.get(match[2])
    # The colour itself stays as the second choice, for a drawing that is copied out of the page.
    return f"{match[1]}var(--{name}, {match[2]})" if name else match[0]
