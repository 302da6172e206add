"""A model in memory is lost with its home: what it referred to elsewhere stays until a repair gives it up.

The schedule that this must survive: of two children whose home goes, one was stored and one is in training. The audit
drops nothing on their behalf; a repair drops what the first had, and never what the second may still read. Nor can the
second be stored under the attempt that the new home knows nothing of, before the repair or after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from daskevo.client.model_reader import read_model
from daskevo.errors import ModelLost, PutUnknown
from tests.cluster.helpers import at_rest, chain, evo_cluster, make, open_here, put_reserved, reserve, values
from tests.cluster.test_silence import id_at

GRAPH = chain(8, 6, 3)


@evo_cluster(providers=2)
async def test_a_repair_gives_up_what_lost_children_had(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    session = repository.connection.session
    table = await session.directory.table()
    ancestor, stored, training, other = (
        id_at(table, where.address, stem)
        for where, stem in ((b, "ancestor"), (a, "stored"), (a, "training"), (b, "other"))
    )
    await make(repository, GRAPH, ancestor, seed=1)
    await make(repository, chain(8, 6, 4), stored, seed=2)
    reservation = await reserve(repository, chain(8, 6, 5), training)
    await make(repository, chain(8, 6, 7), other, seed=3)
    assert reservation.arrays
    await a.close()
    await at_rest(s, b)

    async def left() -> tuple[int, int]:
        stats = await repository.stats()
        return stats["tensors"], stats["references"]

    # Of the ancestor, four tensors that all inherit, held by three attempts; and what `other` stored and holds itself.
    await repository.retire(ancestor)
    await at_rest(s, b)
    assert await left() == (6, 4)
    await session.directory.all("audit", timeout_s=20)
    assert await left() == (6, 4)
    found = (await repository.verify()).differences
    assert [(difference.kind, difference.model) for difference in found] == [("leftover reference", stored)]

    repaired = await repository.verify(repair=True)
    assert (repaired.clean, repaired.mended) == (True, found)
    assert await left() == (6, 3)
    record = await repository.record(other)
    arrays = await read_model(session, repository.connection.caller(), record)
    for number in range(4):
        np.testing.assert_array_equal(arrays[number], values(GRAPH, 1)[number])
    with pytest.raises(ModelLost):
        await repository.record(stored)

    with pytest.raises(PutUnknown, match="home refused it: over"):
        await put_reserved(repository, chain(8, 6, 5), reservation, seed=4)
    await at_rest(s, b)
    assert (await repository.verify(repair=True)).clean
    assert await left() == (6, 2)
    await repository.retire(other)
    await at_rest(s, b)
    assert await left() == (0, 0)
    assert (await repository.verify()).clean
