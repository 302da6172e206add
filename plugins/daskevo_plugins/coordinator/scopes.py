"""The scopes of a repository and their objectives: in its root, or in memory where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from daskevo.protocol.scopes import agreed_objective
from daskevo.store.root import Root


class Scopes:
    """Scopes that were declared, each with its objective.

    Parameters
    ----------
    root:
        Keeps them; None = they end with the coordinator.
    check:
        Called before the root's file is written: raises if this job may not any more.
    """

    def __init__(self, root: Root | None, check: Callable[[], Awaitable[None]]) -> None:
        self.known: dict[str, str | None] = {}
        """Objective by scope; None where none was named yet."""
        self._root = root
        self._check = check
        self._lock = asyncio.Lock()

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
        # To the end whoever waits: the next must not read the file before this one has written it.
        return await asyncio.shield(self._declare(scope, objective))

    async def _declare(self, scope: str, objective: str | None) -> str | None:
        async with self._lock:
            found = agreed_objective(self.known, scope, objective)
            if self._root is not None and (scope not in self.known or self.known[scope] != found):
                await self._check()
                found = await asyncio.to_thread(self._root.declare_scope, scope, objective)
            self.known[scope] = found
            return found
