"""Inherit never copies a wrong weight: every inherited tensor is its source vertex', whatever the two graphs are.

Over generated pairs with twins, shared layers, several inputs and merges; through a real cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from distributed import Client, Scheduler, Worker
from distributed.deploy.spec import SpecCluster
from hypothesis import given, settings

import daskevo
from daskevo.client.reservations import give_back
from daskevo.graph import ArchitectureGraph
from daskevo.testing.graphs import related_graphs
from tests.cluster.helpers import make, reserve, values
from tests.graph.oracle import is_common_prefix


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    options = {"host": "127.0.0.1", "dashboard": False, "resources": {"provider": 1}, "nthreads": 2}
    workers = {f"provider-{number}": {"cls": Worker, "options": options} for number in range(2)}
    scheduler = {"cls": Scheduler, "options": {"host": "127.0.0.1", "dashboard_address": ":0", "port": 0}}
    with SpecCluster(workers=workers, scheduler=scheduler, name="daskevo-tests") as cluster, Client(cluster) as made:
        yield made


# The cluster's event loop draws from `random` beside the test, which hypothesis takes for the strategy's doing.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning")
@given(graphs=related_graphs(models=3))
@settings(max_examples=40)
def test_inherited_tensors_are_those_of_their_source_vertices(client: Any, graphs: list[ArchitectureGraph]) -> None:
    *ancestors, graph = graphs
    repository = daskevo.open(None, "pairs", client=client, objective="max score", shards=8)

    async def check() -> None:
        for number, ancestor in enumerate(ancestors):
            name = f"m-{(await repository.connection.session.tick()).counter}"
            await make(repository, ancestor, name, keep=False, seed=number, score=number)
        reservation = await reserve(repository, graph, f"c-{(await repository.connection.session.tick()).counter}")
        if reservation.ancestor is not None:
            assert reservation.ancestor_graph is not None
            source = values(reservation.ancestor_graph, int(reservation.ancestor.quality or 0))
            other = reservation.ancestor_graph
            assert is_common_prefix(graph, other, dict(reservation.prefix.vertices))
            partners = dict(reservation.prefix.vertices)
            for number, array in reservation.arrays.items():
                key = graph.tensors[number]
                vertex = graph.calls[key.layer][0]
                partner = other.vertices[partners[vertex]].layer
                (theirs,) = (n for n, k in enumerate(other.tensors) if (k.layer, k.index) == (partner, key.index))
                np.testing.assert_array_equal(array, source[theirs])
        session = repository.connection.session
        await give_back(session, reservation.model_id, reservation.attempt, reservation.owners)
        await session.release_label("user:kept")

    client.sync(check)
