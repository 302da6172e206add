"""Digests of the parts of a problem's source, by name, to tell which of them have changed since a run began."""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Iterator

from daskevo_workflows.problems.reference import ProblemReference, source_of
from daskevo_workflows.problems.syntax import syntax_tree

REST = "other statements"
"""Name for everything without one: imports, statements, calls of decorators."""

MOST = 200
"""Maximum number of parts; further ones belong to the rest."""


def source_parts(reference: ProblemReference) -> dict[str, str]:
    """Return a short digest of each function, method and named value of a problem's source, by name.

    Comments and layout don't count. Empty if there is no source.

    Examples
    --------
    >>> from daskevo_workflows.problems import refer
    >>> "Digits.build" in source_parts(refer("digits"))
    True
    """
    source = reference.source if reference.source is not None else source_of(type(reference.load()))
    if not source:
        return {}
    found: dict[str, list[str]] = {}
    for name, words in _named("", syntax_tree(source, "<source>")):
        found.setdefault(name if name in found or len(found) < MOST else REST, []).append(words)
    return {name: hashlib.sha256("\0".join(words).encode()).hexdigest()[:8] for name, words in found.items()}


def _named(within: str, tree: ast.Module | ast.ClassDef) -> Iterator[tuple[str, str]]:
    for part in tree.body:
        match part:
            case ast.ClassDef(name=name):
                yield from _named(f"{within}{name}.", part)
                # The class without its body, whose parts have names of their own: bases and decorators.
                head = copy.copy(part)
                head.body = [ast.Pass()]
                yield f"{within}{name}", ast.unparse(head)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield f"{within}{name}", ast.unparse(part)
            case ast.Assign(targets=[ast.Tuple(elts=elements)]) if all(isinstance(one, ast.Name) for one in elements):
                for one in elements:
                    yield f"{within}{ast.unparse(one)}", ast.unparse(part)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield f"{within}{name}", ast.unparse(part)
            case _:
                yield REST, ast.unparse(part)
