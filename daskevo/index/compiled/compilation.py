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
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

logger = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])

# nogil: queries run side by side. NumPy's error model: numba leaves out a check for 0 at each division.
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
                # These name the files of compiled code: without them, numba compiles and writes all anew.
                for index in keep.rglob("*.nbi"):
                    index.unlink(missing_ok=True)
        return numba.njit([signature], **_OPTIONS)(function)  # type: ignore[no-any-return]

    return decorate


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask the memory for the cache line of ``array[index]``, which need not exist, beside what goes on.

    Most of a query's time is waiting for cache lines that are known early.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        place = context.cast(builder, arguments[1], signature.args[1], types.intp)
        data = make_array(kind)(context, builder, arguments[0])
        pointer = cgutils.get_item_pointer(context, builder, kind, data, [place], wraparound=False)
        number = ir.IntType(32)
        kinds = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kinds, "llvm.prefetch.p0i8")
        # Not to write; into all levels of the cache; no instructions.
        builder.call(function, [builder.bitcast(pointer, cgutils.voidptr_t), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.none(array, index), generate


@contextmanager
def cache_folder(modules: Sequence[Path]) -> Iterator[Path | None]:
    """Let numba keep what is compiled inside in a folder of its own; gives the folder, or None if there is none.

    The folder is named after the sources of *all* modules of the core: numba looks at the file of a compiled function
    only, and would go on using code that was compiled from older versions of the modules that this one calls. It lies
    in ``NUMBA_CACHE_DIR``, else in the user's cache folder, never beside the sources, which may be read-only, and never
    in a folder that others can write to: cached code is run. Where none can be made, each process compiles by itself.
    Processes that compile at the same time each write the same files and move them into place at once.
    """
    base, cache = numba.config.CACHE_DIR, os.environ.get("XDG_CACHE_HOME", "")
    if not base:
        # As the rule of the XDG folders has it: relative paths are ignored.
        base = cache if Path(cache).is_absolute() else os.path.expanduser("~/.cache")
    digest = hashlib.blake2b(b"".join(path.read_bytes() for path in sorted(modules)), digest_size=8)
    folder = Path(base) / "daskevo" / f"core-{digest.hexdigest()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError(f"others can write to {folder}, and what is kept there is run")
        # The folder may be there, and its disk full or read-only.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        _warn_unkept(folder, error)
        yield None
        return
    # numba reads this setting when a function is decorated. It is put back, so that functions of users keep their
    # folder.
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        yield folder
    finally:
        numba.config.CACHE_DIR = before


def _warn_unkept(folder: Path, error: OSError) -> None:
    logger.warning(
        "daskevo: can't keep compiled code in %s (%s): each process compiles it again, which takes seconds; set "
        "NUMBA_CACHE_DIR to a folder of yours",
        folder,
        error,
    )
