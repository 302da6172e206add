"""A root of a few models that tests look at when nobody has it open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.cluster.helpers import at_rest, chain, evo_cluster, make, open_here

GRAPH, WIDER = chain(8, 6, 3), chain(8, 6, 5)


def root_of_two(root: Path, more: Callable[[Any], Awaitable[None]]) -> Path:
    """Make a root with first (retired), second (inherits from it), and what `more` does to the repository; closed."""

    @evo_cluster()
    async def fill(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, root)
        await make(repository, GRAPH, "first", seed=1)
        await make(repository, WIDER, "second", seed=2, score=0.9)
        await more(repository)
        await repository.retire("first")
        await at_rest(s, a)

    fill()
    return root
