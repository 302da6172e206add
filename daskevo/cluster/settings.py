"""What a repository is opened with, as it travels to the scheduler and the workers; and the version check."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from dask.utils import parse_bytes
from distributed.system import MEMORY_LIMIT

from daskevo.errors import InvalidInput, VersionMismatch
from daskevo.store.files import Durability
from daskevo.store.root import DURABILITIES, MAX_SHARDS

PROVIDER_MEMORY_SHARE = 0.3
"""Share of a worker's memory limit that tensors may take unless `memory` says otherwise."""
UNLIMITED_MEMORY_BYTES = 1 << 30
"""The same for a worker without a limit."""


def versions() -> dict[str, str]:
    """Return the versions that must agree between client, scheduler and workers."""
    try:
        ours = version("daskevo")
    except PackageNotFoundError:  # a source tree on the path
        ours = "unknown"
    return {"daskevo": ours, "python": ".".join(platform.python_version_tuple()[:2])}


def check_versions(theirs: dict[str, str], where: str) -> None:
    """Compare the versions of the process that opened the repository with those here.

    Raises
    ------
    VersionMismatch
        With both, and where the second was found.
    """
    here = versions()
    if theirs != here:
        raise VersionMismatch(
            f"the client runs {_words(theirs)}, but {where} runs {_words(here)}: install the same versions everywhere",
            client=theirs,
            found=here,
            where=where,
        )


def _words(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(found.items()))


@dataclass(frozen=True)
class Settings:
    """What `daskevo.open` was told.

    Parameters
    ----------
    key:
        Tells the repositories of one cluster apart, see `daskevo.cluster.transport.repository_key`.
    root:
        Absolute path, or None for a repository in memory.
    shards:
        Number of shards of a new repository; one that exists keeps its own.
    durability:
        ``volatile``, ``written`` or ``synced`` of a new root, which one that exists must have; None: any.
    memory:
        Budget for tensors per provider: bytes, or a share of the worker's memory limit between 0 and 1.
    scope:
        Scope of `daskevo.get_repository` inside tasks when none is named.
    versions:
        Of the process that opened it.
    quota:
        Most bytes that all tensors may take together, see `daskevo.cluster.quota`; None: no limit but the disk.
    """

    key: str
    root: str | None
    shards: int
    durability: Durability | None
    memory: int | float | None
    scope: str
    versions: dict[str, str]
    quota: int | None = None

    def memory_bytes(self, limit: int | None, pause_share: float | Literal[False]) -> int:
        """Return the budget of a provider in bytes.

        Parameters
        ----------
        limit:
            The worker's memory limit in bytes, or None.
        pause_share:
            Share of the limit at which Dask pauses the worker, or False.

        Raises
        ------
        InvalidInput
            If the budget would reach that: what a plugin holds counts for Dask, the worker would stand still.
        """
        budget = self.memory
        if budget is None:
            return int(limit * PROVIDER_MEMORY_SHARE) if limit else UNLIMITED_MEMORY_BYTES
        if isinstance(budget, float) and budget <= 1:
            budget = int(budget * (limit or UNLIMITED_MEMORY_BYTES))
        if limit and pause_share and budget >= limit * pause_share:
            raise InvalidInput(
                f"memory={budget} bytes were asked for, but Dask pauses a worker of {limit} bytes at "
                f"{int(limit * pause_share)}: give the providers more memory, or ask for less",
                memory_bytes=int(budget),
                limit_bytes=limit,
            )
        return int(budget)

    def landing_bytes(self, limit: int | None, pause_share: float | Literal[False]) -> int:
        """Return how much a provider takes in at once, in bytes, beside what its budget keeps in memory.

        What lies between the budget and where Dask pauses the worker (of a worker without a limit, half of the host's
        memory), and no less than the budget: a model may be larger than what is kept in memory, the rest is spilled.
        """
        budget = self.memory_bytes(limit, pause_share)
        most = int(limit * (pause_share or 1.0)) if limit else MEMORY_LIMIT // 2
        return max(budget, most - budget)


def quota_bytes(quota: Any) -> int | None:
    """Read a quota: bytes, or a text such as ``500 GB`` or ``1.5TiB``.

    Raises
    ------
    InvalidInput
        If it is anything else, or less than a byte.
    """
    try:
        found = None if quota is None else parse_bytes(quota)
    except (ValueError, TypeError, AttributeError, OverflowError):
        found = 0
    if found is not None and (isinstance(quota, bool) or quota == "" or found < 1):
        raise InvalidInput(
            f"quota={quota!r:.80} was asked for: use bytes, or a text such as '500 GB'", quota=str(quota)
        )
    return found


def check_settings(root: str | None, shards: Any, durability: Any, memory: Any) -> None:
    """Check what a user passed to `daskevo.open`.

    Raises
    ------
    InvalidInput
        If one of them can't be.
    """
    if type(shards) is not int or not 1 <= shards <= MAX_SHARDS:
        raise InvalidInput(
            f"shards={shards!r} was asked for: use a whole number from 1 to {MAX_SHARDS}", shards=str(shards)
        )
    if durability not in (None, *DURABILITIES):
        raise InvalidInput(
            f"durability={durability!r} was asked for: use 'written' (survives any process), 'synced' "
            "(survives the host) or 'volatile'",
            durability=str(durability),
        )
    if root is None and durability not in (None, "volatile"):
        raise InvalidInput(
            f"durability={durability!r} was asked for, but with root=None models are in the memory of providers and go "
            "with them: pass a root, or leave the argument out",
            durability=durability,
        )
    if memory is not None and (isinstance(memory, bool) or not isinstance(memory, (int, float)) or not memory > 0):
        raise InvalidInput(
            f"memory={memory!r} was asked for: use bytes, or a share of the worker's limit such as 0.3",
            memory=str(memory),
        )
