"""The scopes of a repository and their objectives, stored in its root, or in memory if it has none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from daskevo.protocol.scopes import agreed_objective
from daskevo.store.root import Root


class Scopes:
    """The declared scopes, each with its objective.

    Parameters
    ----------
    root:
        Stores them; None = they are lost with the coordinator.
    check:
        Called before the root's file is written; raises if another job has taken the root.
    """

    def __init__(self, root: Root | None, check: Callable[[], Awaitable[None]]) -> None:
        self.known: dict[str, str | None] = {}
        """Objective by scope; None if none was declared yet."""
        self._root = root
        self._check = check
        self._lock = asyncio.Lock()

    async def read(self) -> None:
        """Read the scopes from the root."""
        if self._root is not None:
            self.known = await asyncio.to_thread(self._root.scopes)

    async def declare(self, scope: str, objective: str | None) -> str | None:
        """Declare a scope; return its objective.

        Raises
        ------
        ScopeMismatch
            If the scope has another objective.
        InvalidInput
            If the name or the objective is not valid.
        """
        # Shielded: a cancelled caller must not free the lock before the file is written.
        return await asyncio.shield(self._declare(scope, objective))

    async def _declare(self, scope: str, objective: str | None) -> str | None:
        async with self._lock:
            found = agreed_objective(self.known, scope, objective)
            # Most calls declare what is known already: they cost no file.
            if self._root is not None and (scope not in self.known or self.known[scope] != found):
                await self._check()
                found = await asyncio.to_thread(self._root.declare_scope, scope, objective)
            self.known[scope] = found
            return found
