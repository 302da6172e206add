"""A model's home reads its architecture while it trains, so that its put finds it read; nothing depends on that."""

from __future__ import annotations

from typing import Any

import pytest

from daskevo.graph import ArchitectureGraph, architecture
from daskevo.types import ModelId
from tests.cluster.helpers import chain, evo_cluster, make, open_here, plugin_of

GRAPH = chain(8, 6, 3)


@evo_cluster()
async def test_what_was_foretold_is_read_before_the_put(
    c: Any, s: Any, a: Any, t: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = await open_here(c, None)
    session = repository.connection.session
    architecture._last.clear()
    text = GRAPH.text
    architecture._last.clear()  # of the writer, which is this very process
    session.outbox.foretell(ModelId("first"), GRAPH)
    await session.outbox.sent()
    known = architecture._last[text]
    assert known is not GRAPH
    assert {"ids", "nbytes"} <= vars(known).keys()
    monkeypatch.setattr(architecture, "from_text", None)  # the put reads nothing
    await make(repository, GRAPH, "first")
    assert (await repository.verify()).clean


@evo_cluster()
async def test_what_is_no_architecture_changes_nothing(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    host = plugin_of(a).host
    assert await host.foretold(0, "{}") is True
    assert "{}" not in architecture._last
    await make(repository, GRAPH, "first")
    assert (await repository.verify()).clean


def test_the_last_graphs_are_kept_and_no_more() -> None:
    architecture._last.clear()
    graphs = [chain(number + 1) for number in range(architecture._KEPT + 1)]
    texts = [graph.text for graph in graphs]
    assert len(architecture._last) == architecture._KEPT
    assert ArchitectureGraph.of_text(texts[-1]) is graphs[-1]
    again = ArchitectureGraph.of_text(texts[0])
    assert again is not graphs[0]
    assert again == graphs[0]
