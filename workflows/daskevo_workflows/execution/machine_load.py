"""Record a machine's load while something is measured on it: measurements can't be compared without it."""

from __future__ import annotations

import os
import socket
import statistics
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daskevo.types import JSON
from daskevo_workflows.execution.event_log import Noted

LOAD = "load"
"""Kind of the events with the machine's load."""

LOOK_S = 20.0
"""Seconds between two looks."""

HERE = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Load:
    """Statistics of one-minute load averages of one machine.

    Parameters
    ----------
    mean, highest:
        Number of processes that ran or were ready to run, including those being measured.
    cores:
        Cores of the whole machine.
    looks:
        Number of samples.
    """

    mean: float
    highest: float
    cores: int
    looks: int

    @property
    def per_core(self) -> float:
        return self.mean / self.cores

    @property
    def is_too_much(self) -> bool:
        """Whether more processes were ready to run than there were cores."""
        return self.mean > self.cores


def load_now() -> dict[str, JSON] | None:
    """Return this machine's one-minute load average and its cores; None if the system doesn't provide it."""
    try:
        return {"host": socket.gethostname(), "load": round(os.getloadavg()[0], 2), "cores": os.cpu_count() or 1}
    except OSError:
        return None


def is_one_here(addresses: Iterable[str], own: Iterable[str]) -> bool:
    """Tell whether any of the workers runs on this host.

    Parameters
    ----------
    addresses:
        Of workers, as Dask has them.
    own:
        IP addresses of this host.

    Examples
    --------
    >>> is_one_here(["tcp://10.0.0.7:4100"], ["10.0.0.7"]), is_one_here(["tcp://10.0.0.8:4100"], ["10.0.0.7"])
    (True, False)
    """
    hosts = {address.partition("://")[2].rpartition(":")[0].strip("[]") for address in addresses}
    inside = any(address.startswith("inproc://") for address in addresses)
    return inside or not hosts.isdisjoint({*HERE, *own})


def load_of(facts: Sequence[Mapping[str, Any]]) -> Load | None:
    """Return the load from a run's events; None if there is none, or they are of several machines.

    Parameters
    ----------
    facts:
        As returned by :func:`load_now`; others are ignored.

    Examples
    --------
    >>> load_of([{"host": "a", "load": 1.0, "cores": 2}, {"host": "a", "load": 4.0, "cores": 2}])
    Load(mean=2.5, highest=4.0, cores=2, looks=2)
    """
    known = [
        (str(one.get("host")), float(one["load"]), int(one["cores"]))
        for one in facts
        if isinstance(one.get("load"), (int, float)) and type(one.get("cores")) is int and one["cores"] > 0
    ]
    if not known or len({(host, cores) for host, _, cores in known}) > 1:
        return None
    loads = [load for _, load, _ in known]
    return Load(statistics.fmean(loads), max(loads), known[0][2], len(loads))


class LoadNotes:
    """Records this machine's load in a run's record at intervals, while a trainer runs on it.

    Parameters
    ----------
    record:
        Of the run.
    """

    def __init__(self, record: Noted) -> None:
        self._record = record
        self._looked: float | None = None

    def look(self, addresses: Collection[str], *, at_once: bool = False) -> None:
        """Record the load, if the last sample is old enough or `at_once` is set.

        Parameters
        ----------
        addresses:
            Of the trainers.
        """
        from daskevo.deploy.batch.interfaces import ipv4_interfaces

        now = time.monotonic()
        if not addresses or (self._looked is not None and now - self._looked < LOOK_S and not at_once):
            return
        self._looked = now
        if is_one_here(addresses, ipv4_interfaces().values()) and (facts := load_now()) is not None:
            self._record.event(LOAD, "", **facts)
