"""Options of `daskevo nas` that limit the size of its models: `--max-parameters 1M` and the like."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from daskevo_workflows.execution.size_limits import SizeLimits

LIMITED = {
    "parameters": "parameters",
    "flops": "operations per prediction",
    "depth": "layers with weights on the longest path",
}
"""Metrics of :data:`daskevo_workflows.evaluation.offered_metrics.OF_GRAPHS` and what they count.

Copied because importing them would slow `--help` down."""

FLAGS: Mapping[str, str] = {f"policy.limits.{name}": f"--min-{name}/--max-{name}" for name in LIMITED}
"""Part of a run's identity -> the options that set it."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def _count(value: str) -> int:
    """Parse a whole number from 0, also written as 250k, 1.5M or 2e9."""
    found = re.fullmatch(r"([0-9]+\.?[0-9]*(?:e[0-9]{1,2})?)([kmgt]?)", value.strip().lower().replace("_", ""))
    number = float(found[1]) * _UNITS[found[2]] if found else math.nan
    if not number.is_integer():
        raise click.BadParameter(f"{value!r:.40} is no whole number such as 250000, 250k, 1.5M or 2e9")
    return int(number)


def size_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for bound, word in (("min", "fewer"), ("max", "more")):
        # Reversed, as each decorator goes above those before it in --help.
        for name, what in reversed(LIMITED.items()):
            words = f"Train no model of {word} than N {what}" + (
                "." if name != "parameters" else ", such as 250k or 1.5M."
            )
            command = click.option(f"--{bound}-{name}", type=_count, metavar="N", help=words)(command)
    return command


def changed_limits(limits: SizeLimits, options: Mapping[str, Any]) -> SizeLimits:
    """Return limits changed by the options given on the command line, each bound separately.

    Raises
    ------
    InvalidInput
        If no model can be within the limits.
    """
    from daskevo_workflows.execution.size_limits import check_size_limits

    found = check_size_limits(limits)
    for name in LIMITED:
        (least, most), typed = found.get(name, (None, None)), (options[f"min_{name}"], options[f"max_{name}"])
        if typed != (None, None):
            found[name] = (least if typed[0] is None else typed[0], most if typed[1] is None else typed[1])
    return check_size_limits(found)
