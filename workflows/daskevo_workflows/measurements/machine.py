"""The machine that a benchmark ran on, as one line: figures mean little without it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from daskevo_plugins.formatting import say_bytes, say_count


def machine_line(packages: Iterable[str] = ()) -> str:
    """Return one line: cores that this process may use, processor, memory, kernel, versions.

    Parameters
    ----------
    packages:
        Installed packages to name besides Python and daskevo; those that are absent are said to be.
    """
    # Not cpu_count(): a job or a container may have fewer cores than the machine.
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    hardware = f"{say_count(cores, 'core')} of {_processor()}, {say_bytes(memory)}, {platform.system()} "
    names = ("daskevo", *packages)
    return f"{hardware}{platform.release()}; Python {platform.python_version()}, " + ", ".join(map(_version, names))


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    # Without /proc the name of the architecture has to do.
    except OSError:
        pass
    return platform.machine()


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"
