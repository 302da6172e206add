"""Syntax trees of users' sources, and which modules they import."""

from __future__ import annotations

import ast
import importlib.util
import threading
from collections.abc import Iterator

LOCK = threading.Lock()
"""Held where syntax trees are made: CPython 3.11 counts the depths of all threads together, and raises
SystemError when they mix."""


def syntax_tree(source: str, path: str) -> ast.Module:
    """Parse a source, in any thread."""
    with LOCK:
        return ast.parse(source, path)


def normal(source: str, path: str) -> str:
    """Return the source without comments and layout: changing those makes no other problem."""
    with LOCK:
        return ast.unparse(ast.parse(source, path))


def imported(source: str, package: str = "") -> Iterator[str]:
    """Yield what may be modules that a source imports as it is run, outside of functions.

    Parameters
    ----------
    package:
        What its relative imports start from.
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
