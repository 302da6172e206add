"""Parse what batch systems print: times, and the output of ``qstat -f``. Pure: loads nothing but `re`."""

from __future__ import annotations

import math
import re

DAY_S = 86_400

JOBS = {
    "SLURM_JOB_ID": "Slurm",
    "PBS_JOBID": "PBS",
    "LSB_JOBID": "LSF",
    "JOB_ID": "SGE",
    "OAR_JOB_ID": "OAR",
    "COBALT_JOBID": "Cobalt",
}
"""Environment variable of a job's processes -> its batch system."""


def seconds_of(text: str, kind: str = "pbs") -> float | None:
    """Return the seconds of a time: `[days-]hours:minutes:seconds` and its shorter forms; None: it is none.

    Parameters
    ----------
    text:
        As batch systems write it. ``UNLIMITED`` and ``INFINITE`` have no end.
    kind:
        Of the batch system. One number is minutes for Slurm and LSF, else seconds; two are hours and minutes for LSF,
        else minutes and seconds.

    Examples
    --------
    >>> seconds_of("02:00:00"), seconds_of("1-12", "slurm"), seconds_of("90", "slurm"), seconds_of("90")
    (7200.0, 129600.0, 5400.0, 90.0)
    >>> seconds_of("1:30", "lsf"), seconds_of("1:30", "slurm"), seconds_of("unlimited"), seconds_of("soon")
    (5400.0, 90.0, inf, None)
    """
    words = text.strip()
    if words.upper() in ("UNLIMITED", "INFINITE"):
        return math.inf
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", words)
    if not found:
        return None
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
    return float(int(days or 0) * DAY_S + hours * 3600 + minutes * 60 + seconds)


def qstat_facts(said: str) -> dict[str, str]:
    """Return the attributes of one job in the output of ``qstat -f``.

    Long values continue on lines without a name. Comments are broken between words, other values anywhere.

    Examples
    --------
    >>> qstat_facts("Job Id: 7.x\\n    comment = no free\\n\\tnodes\\n    Output_Path = a/\\n\\tb\\n")
    {'comment': 'no free nodes', 'Output_Path': 'a/b'}
    >>> qstat_facts("Job Id:\\t7\\n\\tJob_Name = a = b\\n\\tResource_List.walltime = 00:10:00\\n")
    {'Job_Name': 'a = b', 'Resource_List.walltime': '00:10:00'}
    """
    facts: dict[str, str] = {}
    last = None
    for line in said.splitlines():
        if found := re.fullmatch(r"\s+([\w.-]+) = (.*)", line):
            last = found[1]
            facts[last] = found[2].strip()
        elif last is not None and line.strip():
            facts[last] += (" " if last == "comment" else "") + line.strip()
    return facts
