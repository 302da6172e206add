"""The walltime of a job, and how long before it workers leave."""

from __future__ import annotations

from daskevo.batch_formats import seconds_of
from daskevo.errors import InvalidInput


def walltime_s(text: object, *, kind: str = "pbs") -> float:
    """Return the seconds of a walltime, as :func:`daskevo.batch_formats.seconds_of` reads it.

    Raises
    ------
    InvalidInput
        If it is no walltime.
    """
    words = str(text).strip()
    total = seconds_of(words, kind)
    if total is None:
        raise InvalidInput(f"walltime {words!r:.40}: write hours:minutes:seconds, as in '02:00:00'", walltime=words)
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
