"""The scopes of a repository and their objectives: in its root, or in memory where there is none."""

from __future__ import annotations

import asyncio

from daskevo.errors import ScopeMismatch
from daskevo.store.root import Root
from daskevo.types import Objective, check_name


class Scopes:
    """Scopes that were declared, each with its objective.

    Parameters
    ----------
    root:
        Keeps them; None = they end with the coordinator.
    """

    def __init__(self, root: Root | None) -> None:
        self.known: dict[str, str | None] = {}
        """Objective by scope; None where none was named yet."""
        self._root = root

    async def read(self) -> None:
        """Learn what the root has."""
        if self._root is not None:
            self.known = await asyncio.to_thread(self._root.scopes)

    async def declare(self, scope: str, objective: str | None) -> str | None:
        """Make a scope known; return its objective.

        Raises
        ------
        ScopeMismatch
            If it has another.
        InvalidInput
            If the name or the objective can't be one.
        """
        if self._root is not None:
            found = await asyncio.to_thread(self._root.declare_scope, scope, objective)
        else:
            found = self._declare(scope, objective)
        self.known[scope] = found
        return found

    def _declare(self, scope: str, objective: str | None) -> str | None:
        check_name(scope, "scope")
        wanted = None if objective is None else str(Objective.parse(objective))
        found = self.known.get(scope)
        if wanted is not None and found is not None and wanted != found:
            raise ScopeMismatch(
                f"scope {scope!r} has the objective {found!r}, {wanted!r} was asked for: use another scope",
                scope=scope,
                objective=found,
                asked=wanted,
            )
        return found or wanted
