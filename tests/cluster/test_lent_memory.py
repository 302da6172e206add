"""What a task on a provider is lent is the store's own memory: nobody can write to it, by accident or on purpose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import daskevo
from daskevo.store.pack import frozen, lent, snapshot
from tests.cluster.helpers import chain, evo_cluster, make, open_here, plugin_of

GRAPH = chain(8, 6)


def test_a_view_of_memory_that_its_owner_may_write_to_is_copied() -> None:
    owner = np.arange(6.0)
    window = owner[1:4]
    window.flags.writeable = False
    stored = snapshot(window)
    owner += 1
    assert stored.tolist() == [1.0, 2.0, 3.0]
    sealed = frozen(np.arange(3.0)[1:])
    assert snapshot(sealed) is sealed
    for base in (stored, stored.base):
        assert not base.flags.writeable


@pytest.mark.parametrize("shape", [(), (0,), (3, 2)])
def test_what_is_lent_can_not_be_made_writeable(shape: tuple[int, ...]) -> None:
    stored = snapshot(np.ones(shape, "<f4"))
    view = lent(stored)
    assert (view.shape, view.dtype) == (stored.shape, stored.dtype)
    assert view.nbytes == 0 or np.shares_memory(view, stored)
    if view.nbytes:
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.setflags(write=True)


def spoil(model: str) -> str:
    """Try to write to what was read, on the provider; return what came of it."""
    repository = daskevo.get_repository()
    (first, *_) = repository.read(model).values()
    try:
        first.setflags(write=True)
    except ValueError:
        return "refused"
    first += 1
    return "written"


@evo_cluster(providers=0, trainers=0, combined=1)
async def test_a_task_on_the_provider_can_not_write_into_the_store(c: Any, s: Any, a: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first", keep=False)
    assert await c.submit(spoil, "first", pure=False) == "refused"
    assert (await repository.verify()).clean
    # If memory is damaged all the same, verify looks at it.
    tensors = plugin_of(a).host.tensors
    key = next(iter(tensors))
    tensors._buffer.fast.d[key] = np.zeros_like(tensors[key])
    (found,) = (await repository.verify()).differences
    assert (found.kind, found.model, found.numbers) == ("damaged tensor", "first", frozenset({key[2]}))
