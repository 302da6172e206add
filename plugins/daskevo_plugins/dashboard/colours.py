"""The colours of all pages, for light and dark themes."""

from __future__ import annotations

from collections.abc import Mapping

# After Okabe and Ito, whose colours are distinguishable with every common colour blindness; their orange and sky blue
# are too pale for lines on white. A test checks contrast and distances.
PALETTE: Mapping[str, tuple[str, str]] = {
    "ink": ("#1b1f24", "#e6e8eb"),
    "faint": ("#8a9099", "#8b929c"),
    "line": ("#d9dce1", "#3a4049"),
    "paper": ("#fefefe", "#16191d"),
    "blue": ("#0062a3", "#3d90d6"),
    "orange": ("#c98400", "#ffcf66"),
    "green": ("#00875f", "#1fbf90"),
    "vermilion": ("#b54400", "#f06a1f"),
    "purple": ("#b0508a", "#d375b2"),
    "sky": ("#3f9ad0", "#a5defc"),
}
"""Name -> (light, dark)."""


def style_variables() -> dict[str, str]:
    """Return ``light`` and ``dark`` -> CSS declarations of all colours."""
    return {
        theme: " ".join(f"--{name}: {colours[place]};" for name, colours in PALETTE.items())
        for place, theme in enumerate(("light", "dark"))
    }
