"""How the core is compiled, and where compiled code is kept for the next process."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba

logger = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS = {"nogil": True, "error_model": "numpy"}


def helper(function: Function) -> Function:
    """Compile a function that only other compiled functions call."""
    return numba.njit(**_OPTIONS)(function)  # type: ignore[no-any-return]


def entry(signature: Any, *, keep: Path | None) -> Callable[[Function], Function]:
    """Compile a function that Python calls, at once, for this signature and no other.

    With the signature given, nothing is ever compiled in the middle of a query.

    Parameters
    ----------
    keep:
        What `cache_folder` gives. What can't be kept there (a full disk, a quota) or is damaged (a host that crashed)
        is compiled by this process for itself: the index answers all the same.
    """

    def decorate(function: Function) -> Function:
        if keep is not None:
            try:
                return numba.njit([signature], cache=True, **_OPTIONS)(function)  # type: ignore[no-any-return]
            except OSError as error:
                _warn_unkept(keep, error)
            except Exception as error:  # noqa: BLE001 - nobody can tell what a damaged pickle raises
                logger.warning("daskevo: compiled code in %s can't be used (%r): it is made anew", keep, error)
                for index in keep.rglob("*.nbi"):
                    index.unlink(missing_ok=True)
        return numba.njit([signature], **_OPTIONS)(function)  # type: ignore[no-any-return]

    return decorate


@contextmanager
def cache_folder(modules: Sequence[Path]) -> Iterator[Path | None]:
    """Let numba keep what is compiled inside in a folder of its own; gives the folder, or None if there is none.

    The folder is named after the sources of *all* modules of the core: numba looks at the file of a compiled function
    only, and would go on using code that was compiled from older versions of the modules that this one calls. It lies
    in ``NUMBA_CACHE_DIR``, else in the user's cache folder, never beside the sources, which may be read-only, and never
    in a folder that others can write to: cached code is run. Where none can be made, each process compiles by itself.
    Processes that compile at the same time each write the same files and move them into place at once.
    """
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(modules):
        digest.update(path.read_bytes())
    folder = _base() / f"core-{digest.hexdigest()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_own(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        _warn_unkept(folder, error)
        yield None
        return
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        yield folder
    finally:
        numba.config.CACHE_DIR = before


def _check_own(folder: Path) -> None:
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise PermissionError(f"others can write to {folder}, and what is kept there is run")


def _warn_unkept(folder: Path, error: OSError) -> None:
    logger.warning(
        "daskevo: can't keep compiled code in %s (%s): each process compiles it again, which takes seconds; set "
        "NUMBA_CACHE_DIR to a folder of yours",
        folder,
        error,
    )


def _base() -> Path:
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR) / "daskevo"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # As the rule of the XDG folders has it: relative paths are ignored.
    return (Path(cache) if Path(cache).is_absolute() else Path(os.path.expanduser("~/.cache"))) / "daskevo"
