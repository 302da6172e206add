"""Syntax trees of users' sources, and which modules they import."""

from __future__ import annotations

import ast
import importlib.util
import threading
from collections.abc import Iterator

LOCK = threading.Lock()
"""Lock for making syntax trees: CPython 3.11 counts recursion depth for all threads together, and raises SystemError if
two of them parse at the same time."""


def syntax_tree(source: str, path: str) -> ast.Module:
    """Parse a source, in any thread."""
    with LOCK:
        return ast.parse(source, path)


def normal(source: str, path: str) -> str:
    """Return the source without comments and layout, which don't change a problem."""
    with LOCK:
        return ast.unparse(ast.parse(source, path))


def imported(source: str, package: str = "") -> Iterator[str]:
    """Yield names that may be modules which a source imports at its top level, outside of functions.

    Parameters
    ----------
    package:
        Package that its relative imports refer to.
    """
    try:
        pending: list[ast.AST] = [*syntax_tree(source, "<source>").body]
    except SyntaxError:
        return  # another one by now than the one that was imported; who imports it is told
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Import):
            yield from (alias.name for alias in part.names)
        elif isinstance(part, ast.ImportFrom):
            base = part.module or ""
            if part.level:
                try:
                    base = importlib.util.resolve_name("." * part.level + base, package)
                except ImportError:
                    continue
            yield base
            yield from (f"{base}.{alias.name}" for alias in part.names)
        elif not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            pending += ast.iter_child_nodes(part)
