"""What compiled code reads, imports and assigns, and the functions behind those that were compiled or cached."""

from __future__ import annotations

import contextlib
import dis
import functools
import types
from collections.abc import Iterator
from typing import Any

from daskevo.code_identity.installed import is_installed

_WRAPPED = ("__wrapped__", "python_function", "py_func")
"""Where a compiled or cached function (functools, JAX, TensorFlow, numba) keeps the one that it was made of."""


@functools.lru_cache(maxsize=4096)
def reads_of(code: types.CodeType) -> tuple[tuple[str, ...], ...]:
    """Return the globals that code reads, each once, with the attributes that it takes of them, and what it imports."""
    found: dict[tuple[str, ...], None] = {}
    chain: list[str] = []
    level = 0
    imported: list[str] | None = None

    def end() -> None:
        if chain:
            found[tuple(chain)] = None
            chain.clear()

    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            end()
            chain.append(str(instruction.argval))
        elif name in ("LOAD_ATTR", "LOAD_METHOD") and chain:
            chain.append(str(instruction.argval))
        # These may stand between a global and its attributes, in some version of Python or other.
        elif name not in ("CACHE", "PRECALL", "PUSH_NULL", "EXTENDED_ARG", "NOP"):
            end()
        if name == "IMPORT_NAME":
            imported = [f"import {'.' * level}{instruction.argval}"]
            found[tuple(imported)] = None
        elif name == "IMPORT_FROM" and imported is not None:
            found.pop(tuple(imported), None)
            imported.append(str(instruction.argval))
            found[tuple(imported)] = None
        # An import loads its level first (the dots of a relative one), so the last whole number before it is the level.
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT") and type(instruction.argval) is int:
            level = instruction.argval
    end()
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def stores_of(code: types.CodeType) -> frozenset[str]:
    """Return the globals that code assigns."""
    inside = [stores_of(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    own = (str(one.argval) for one in dis.get_instructions(code) if one.opname == "STORE_GLOBAL")
    return frozenset(own).union(*inside)


def codes_of(value: Any) -> Iterator[types.CodeType]:
    """Yield the code of a function, or of the methods of a class."""
    if isinstance(value, types.ModuleType):
        return
    value = wrapped_by(value) or value
    if isinstance(value, types.FunctionType):
        yield value.__code__
    elif isinstance(value, type) and not is_installed(value.__module__):
        for inside in vars(value).values():
            function = getattr(inside, "__func__", getattr(inside, "fget", inside))
            if isinstance(function, types.FunctionType):
                yield function.__code__


def wrapped_by(value: Any) -> types.FunctionType | None:
    if isinstance(value, types.FunctionType | type):
        return None
    for attribute in _WRAPPED:
        with contextlib.suppress(Exception):  # somebody else's `__getattr__`
            found = getattr(value, attribute, None)
            if isinstance(found, types.FunctionType):
                return found
    return None
