"""Kind 29: what is large, or many, goes through every message, record and header there is; limits are said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.errors import InvalidInput
from daskevo.graph import ArchitectureGraph, Edge, LayerRecord, Vertex
from daskevo.types import TensorSpec
from daskevo.wire import tensor_framing
from tests.cases import with_long
from tests.cluster.helpers import evo_cluster, open_here, put_reserved, reserve, start_threads


@pytest.fixture(autouse=True, scope="module")
def _threads() -> None:
    start_threads()


def graph_of(layers: list[tuple[str, Any, tuple[TensorSpec, ...]]]) -> ArchitectureGraph:
    """Return a graph whose layers all follow one input."""
    records = (LayerRecord("in", {}, ()), *(LayerRecord(*layer) for layer in layers))
    edge = (Edge(0, 0, "inputs"),)
    vertices = [Vertex(0, "in", (), False)]
    vertices += [Vertex(n, f"{records[n].name} {records[n].config}"[:200], edge, False) for n in range(1, len(records))]
    outputs = tuple((vertex, 0) for vertex in range(1, len(records)))
    return ArchitectureGraph(records, tuple(vertices), (0,), outputs)


async def comes_back(repository: Any, graph: ArchitectureGraph, tensors: dict[int, Any], name: str) -> None:
    """Put, read, match, inherit, and find each bit again."""
    made = await reserve(repository, graph, f"{name}-1", ancestor=False)
    await put_reserved(repository, graph, made, tensors=tensors)
    found = await repository.read(f"{name}-1")
    assert all(one.tobytes() == tensors[number].tobytes() for number, one in enumerate(found.values()))
    child = await reserve(repository, graph, f"{name}-2")
    assert child.ancestor is not None
    assert child.ancestor.model_id == f"{name}-1"
    assert all(child.arrays[number].tobytes() == tensors[number].tobytes() for number in tensors)
    assert (await put_reserved(repository, graph, child)).record.own == {}
    assert (await repository.record(f"{name}-2")).architecture.ids == graph.ids


@pytest.mark.parametrize("way", with_long(["file", "message", "memory"], "file", "memory"))
def test_a_tensor_and_a_model_larger_than_messages(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the proportions of 2.2 GiB in one tensor, and of 600 tensors of 5 MiB, to a message of 48 MiB."""
    monkeypatch.setattr(tensor_framing, "MESSAGE_BYTES", 200_000)
    monkeypatch.setattr(tensor_framing, "SMALL_BYTES", 500)
    rng = np.random.default_rng(0)
    one = {0: rng.integers(0, 255, (47, 200_000), np.uint8)}
    many = {number: rng.integers(0, 255, 20_000, np.uint8) for number in range(600)}

    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, None if way == "memory" else tmp_path / "root")
        repository.connection.session.directory.local_peers.through_messages = way != "file"
        for name, tensors in (("one", one), ("many", many)):
            specs = tuple(TensorSpec.of(array) for array in tensors.values())
            await comes_back(repository, graph_of([("all", {}, specs)]), tensors, name)
        verification = await repository.verify()
        assert verification.clean, verification.differences

    run()


@pytest.mark.long
def test_twenty_thousand_tensors_of_long_names(tmp_path: Path) -> None:
    spec = TensorSpec((2,), "float32")
    graph = graph_of([(f"{number:05d}{'n' * 195}", {}, (spec, spec)) for number in range(10_000)])
    values = np.random.default_rng(0).normal(size=(20_000, 2)).astype(np.float32)

    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        await comes_back(repository, graph, dict(enumerate(values)), "many")
        assert [match.score for match in await repository.best_match([graph])] == [10_001]

    run()


@pytest.mark.long
def test_an_architecture_of_five_megabytes_and_one_beyond_the_limit(tmp_path: Path) -> None:
    spec = TensorSpec((2,), "float32")
    text = "vocabulary " * 500_000
    tensors = {0: np.ones(2, np.float32)}

    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, tmp_path / "root")
        graph = graph_of([("words", {"vocabulary": text}, (spec,))])
        assert graph.nbytes == 8
        await comes_back(repository, graph, tensors, "words")
        beyond = graph_of([("words", {"vocabulary": text * 14}, (spec,))])
        made = await reserve(repository, beyond, "beyond", ancestor=False)
        with pytest.raises(InvalidInput, match=r"bytes as JSON, and 67108864 is the limit"):
            await put_reserved(repository, beyond, made, tensors=tensors)
        assert (await repository.status("beyond")).state == "unknown"
        verification = await repository.verify()
        assert verification.clean, verification.differences
        assert verification.models == 2

    run()
