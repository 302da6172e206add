"""Scopes: rules for their names and objectives, and the scopes of snapshots.

Snapshots are in a scope of their own beside that of their models, so that queries for models never match one.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from daskevo.errors import InvalidName, ScopeMismatch
from daskevo.types import Objective, check_name

ENDING = ".snapshots"
_LONGEST = 100
_DIGEST_BYTES = 8


def snapshot_scope(scope: str) -> str:
    """Return the scope of the snapshots that belong to a scope of models.

    Examples
    --------
    >>> snapshot_scope("digits")
    'digits.snapshots'
    >>> snapshot_scope("x" * 100)[-30:]
    'xxx.9ab81e889c7b4221.snapshots'
    """
    if len(scope) + len(ENDING) <= _LONGEST:
        return scope + ENDING
    digest = blake2b(scope.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{scope[: _LONGEST - len(digest) - len(ENDING) - 1]}.{digest}{ENDING}"


def holds_snapshots(scope: str) -> bool:
    """Whether a scope is one of snapshots, which are never matched."""
    return scope.endswith(ENDING)


def check_scope(scope: object) -> str:
    """Return `scope` if it is valid as a scope of models.

    Raises
    ------
    InvalidName
    """
    found = check_name(scope, "scope")
    if holds_snapshots(found):
        raise InvalidName(
            f"{found!r} can't be a scope: those that end in {ENDING!r} hold the snapshots of the scope without it, and "
            "are never matched",
            what="scope",
        )
    return found


def agreed_objective(known: Mapping[str, str | None], scope: str, objective: str | None) -> str | None:
    """Return the objective of a scope after declaring it with `objective`; None declares none, and returns a known one.

    Raises
    ------
    ScopeMismatch
        If the scope has another objective in `known`.
    InvalidInput
        If scope or objective are malformed.
    """
    check_name(scope, "scope")
    wanted = None if objective is None else str(Objective.parse(objective))
    found = known.get(scope)
    if wanted is not None and found is not None and wanted != found:
        raise ScopeMismatch(
            f"scope {scope!r} has the objective {found!r}, {wanted!r} was asked for: qualities in a scope must "
            "compare, so use another scope",
            scope=scope,
            objective=found,
            asked=wanted,
        )
    return found or wanted
