"""Settings of an open repository, which are sent to the scheduler and the workers, and the check of versions."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dask.utils import parse_bytes
from distributed.system import MEMORY_LIMIT

from daskevo.errors import InvalidInput, VersionMismatch
from daskevo.extras import TENSORFLOW, keras_backend, other_backend, versions_of
from daskevo.store.files import Durability
from daskevo.store.root import DURABILITIES, MAX_SHARDS

COMPARED = ("daskevo", "python")
"""Packages whose versions must be equal on client, scheduler and all workers with a role."""
DECIDING_GRAPHS = ("keras", "tensorflow")
"""Packages whose versions must be equal wherever models are built: another version may give the same code another
graph."""
BACKEND = "keras_backend"
"""Among the versions, the name of Keras' backend; TensorFlow is not named."""
PROVIDER_MEMORY_SHARE = 0.3
"""Default of `memory`: share of a worker's memory limit for tensors."""
UNLIMITED_MEMORY_BYTES = 1 << 30
"""Default of `memory` for a worker without a limit, in bytes."""
PROCESS_BYTES = 256 << 20
"""Memory of a provider's process besides tensors, in bytes: interpreter, libraries, compiled index, journals."""
MOST_LEAVING_BYTES = 192 << 20
"""Most memory of messages in flight to readers, in bytes: four of the largest."""
UNPAUSED_SHARE = 0.9
"""Where a worker is full that Dask doesn't pause: it is ended at 0.95 of its limit."""


def versions() -> dict[str, str]:
    """Return the versions that must agree: those of `COMPARED`, and of `DECIDING_GRAPHS` what is installed here."""
    return {
        "daskevo": "unknown",
        "python": ".".join(platform.python_version_tuple()[:2]),
        **versions_of(("daskevo", *DECIDING_GRAPHS)),
        **other_backend(),
    }


def check_versions(theirs: dict[str, str], where: str, *, trains: bool = False) -> None:
    """Compare the versions of the process that opened the repository with those of this process.

    Parameters
    ----------
    trains:
        Whether models are built here: then the packages that decide their graphs count, too, if the other process has
        them, and the backend that trains them. A scheduler or a provider does without.

    Raises
    ------
    VersionMismatch
        With both, and where the second was found.
    """
    here = versions()
    if trains:
        _check_backend(theirs, where)
    # TensorFlow's version says nothing where Keras runs on another backend; that one's does.
    deciding = [name for name in DECIDING_GRAPHS if name == "keras" or BACKEND not in theirs]
    deciding += [theirs[BACKEND]] if BACKEND in theirs else []
    names = [*COMPARED, *(name for name in deciding if trains and name in theirs)]
    if any(theirs.get(name) != here.get(name) for name in names):
        client, found = ({name: those.get(name, "none") for name in names} for those in (theirs, here))
        raise VersionMismatch(
            f"the client runs {_words(client)}, but {where} runs {_words(found)}: install the same versions everywhere",
            client=client,
            found=found,
            where=where,
        )


def _check_backend(theirs: dict[str, str], where: str) -> None:
    asked, found = theirs.get(BACKEND, TENSORFLOW), keras_backend()
    if "keras" in theirs and asked != found:
        raise VersionMismatch(
            f"the client's Keras runs on {asked}, but that of {where} on {found}: set KERAS_BACKEND to the same for "
            "both, before they start",
            client=theirs,
            found=versions(),
            where=where,
        )


def _words(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(found.items()))


class MemoryBudget(NamedTuple):
    """Limits of a provider's memory besides that of the process itself, in bytes.

    Parameters
    ----------
    kept:
        Tensors that are kept in memory, at most.
    shared:
        Those and what writers are sending, together: what is kept makes place for what comes.
    leaving:
        Messages on their way to readers.
    """

    kept: int
    shared: int
    leaving: int


@dataclass(frozen=True)
class RepositorySettings:
    """Arguments of `daskevo.open`.

    Parameters
    ----------
    key:
        Tells the repositories of one cluster apart, see `daskevo.wire.transport.repository_key`.
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
        Most bytes that all tensors may take together, see `daskevo.provider.quota`; None: no limit but the disk.
    """

    key: str
    root: str | None
    shards: int
    durability: Durability | None
    memory: int | float | None
    scope: str
    versions: dict[str, str]
    quota: int | None = None

    def budget(self, limit: int | None, pause_share: float | Literal[False], process_bytes: int = 0) -> MemoryBudget:
        """Divide a provider's memory so that, with the process itself, it stays below Dask's pause threshold.

        Parameters
        ----------
        limit:
            The worker's memory limit in bytes, or None: then half of the host's memory is shared out.
        pause_share:
            Share of the limit at which Dask pauses the worker, or False.
        process_bytes:
            What the process takes by itself, if that is known to be more than `PROCESS_BYTES`.

        Raises
        ------
        InvalidInput
            If `memory` is more than there is: what a plugin holds counts for Dask, the worker would stand still.
        """
        process = max(process_bytes, PROCESS_BYTES)
        pauses_at = int(limit * (pause_share or UNPAUSED_SHARE)) if limit else MEMORY_LIMIT // 2
        rest = max(pauses_at - process, 0)
        # Messages to readers first: a provider that can't answer is of no use, however much it keeps in memory.
        leaving = min(rest // 5, MOST_LEAVING_BYTES)
        shared = rest - leaving
        asked = self.memory
        if asked is None:
            asked = min(int(limit * PROVIDER_MEMORY_SHARE) if limit else UNLIMITED_MEMORY_BYTES, shared)
        elif isinstance(asked, float) and asked <= 1:
            asked = int(asked * (limit or UNLIMITED_MEMORY_BYTES))
        if limit and asked > shared:
            raise InvalidInput(
                f"memory={int(asked)} bytes were asked for, but Dask pauses a worker of {limit} bytes at {pauses_at}, "
                f"of which its process takes {process} and messages to readers {leaving}: that leaves {shared}. Give "
                "the providers more memory, or ask for less",
                memory_bytes=int(asked),
                limit_bytes=limit,
            )
        return MemoryBudget(int(asked), shared, leaving)


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
    # `parse_bytes` takes True for a byte, and an empty text for one, too.
    if found is not None and (isinstance(quota, bool) or quota == "" or found < 1):
        raise InvalidInput(
            f"quota={quota!r:.80} was asked for: use bytes, or a text such as '500 GB'", quota=str(quota)
        )
    return found


def check_settings(root: str | None, shards: Any, durability: Any, memory: Any) -> None:
    """Check the arguments of `daskevo.open`.

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
