"""Walltimes as batch systems write them, and how long before them workers leave."""

from __future__ import annotations

import math
import re

from daskevo.errors import InvalidInput

DAY_S = 86_400


def walltime_s(text: object, *, kind: str = "pbs") -> float:
    """Return the seconds of a walltime: `[days-]hours:minutes:seconds` and its shorter forms.

    Parameters
    ----------
    text:
        As batch systems take it. ``UNLIMITED`` and ``INFINITE`` have no end.
    kind:
        Of the batch system. One number is minutes for Slurm and LSF, else seconds; two are hours and minutes for LSF,
        else minutes and seconds.

    Raises
    ------
    InvalidInput
        If it is no walltime.

    Examples
    --------
    >>> walltime_s("02:00:00"), walltime_s("1-12", kind="slurm"), walltime_s("90", kind="slurm")
    (7200.0, 129600.0, 5400.0)
    >>> walltime_s("90", kind="pbs"), walltime_s("1:30", kind="lsf"), walltime_s("1:30", kind="slurm")
    (90.0, 5400.0, 90.0)
    """
    words = str(text).strip()
    if words.upper() in ("UNLIMITED", "INFINITE"):
        return math.inf
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", words)
    if not found:
        raise InvalidInput(f"walltime {words!r:.40}: write hours:minutes:seconds, as in '02:00:00'", walltime=words)
    days, *parts = found.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is not None:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    elif len(numbers) == 2:
        hours, minutes, seconds = (*numbers, 0) if kind == "lsf" else (0, *numbers)
    else:
        hours, minutes, seconds = (0, *numbers, 0) if kind in ("slurm", "lsf") else (0, 0, *numbers)
    total = float(int(days or 0) * DAY_S + hours * 3600 + minutes * 60 + seconds)
    if not total:
        raise InvalidInput(f"walltime {words!r}: it leaves no time at all", walltime=words)
    return total


def margin_s(walltime: float) -> float:
    """Return how many seconds before its walltime a job's workers have left at the latest, unless somebody says it.

    Examples
    --------
    >>> margin_s(7200), margin_s(600), margin_s(60)
    (300.0, 60.0, 15.0)
    """
    return min(300.0, max(walltime / 10, 15.0))
