"""`python -m benchmarks.prefix` at toy size, and that its rivals and its short cuts compute what they claim."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.prefix import algorithm1, redis_rival, sqlite_rival
from benchmarks.prefix.__main__ import main
from benchmarks.prefix.catalogues import Kind, make
from benchmarks.prefix.space import GENES, Model, express, mutate, sample
from daskevo.graph import ArchitectureGraph, Edge, LayerRecord, Vertex
from daskevo.index import PrefixIndex
from daskevo.types import ModelId, TensorSpec, Tick


def graph_of(model: Model) -> ArchitectureGraph:
    """The architecture graph in full."""
    layers, vertices = [], []
    for number, leaf in enumerate(model.leaves):
        shapes = [] if leaf.shape is None else [leaf.shape, leaf.shape[1:]]
        layers.append(LayerRecord(f"layer_{number}", None, tuple(TensorSpec(shape, "float32") for shape in shapes)))
        merges = len(leaf.sources) > 1
        edges = [Edge(source, 0, f"inputs/{n}" if merges else "inputs") for n, source in enumerate(leaf.sources)]
        vertices.append(Vertex(number, leaf.signature, tuple(edges), leaf.signature == "Add"))
    return ArchitectureGraph(tuple(layers), tuple(vertices), (0,), ((len(vertices) - 1, 0),))


def test_fast_ids_are_the_ids_of_the_graphs() -> None:
    draw = random.Random(1)
    models = [express(sample(draw)) for _ in range(30)]
    assert all(sqlite_rival.split(model.ids) == list(graph_of(model).ids) for model in models)
    assert 20 < np.mean([len(model.leaves) for model in models]) < 30


def test_a_mutation_changes_one_gene() -> None:
    draw = random.Random(2)
    for _ in range(200):
        genome = sample(draw)
        other = mutate(draw, genome)
        assert len(other) == GENES
        assert sum(mine != theirs for mine, theirs in zip(genome, other, strict=True)) == 1


@pytest.mark.parametrize("kind", ["random", "lineage"])
def test_catalogues_are_the_same_each_time_and_of_different_models(kind: Kind) -> None:
    first, second = make(kind, 200, 10), make(kind, 200, 10)
    assert first == second
    assert len({model.genome for model in (*first.models, *first.queries)}) == 210
    assert len(set(first.ranks)) > 190


def test_a_lineage_is_related() -> None:
    shared = {}
    for kind in ("random", "lineage"):
        catalogue = make(kind, 400, 0)
        shared[kind] = np.mean(
            [
                len({*sqlite_rival.split(one.ids)} & {*sqlite_rival.split(other.ids)})
                for one, other in pairwise(catalogue.models[-100:])
            ]
        )
    assert shared["lineage"] > 2 * shared["random"]


def test_the_three_ways_to_scan_agree() -> None:
    catalogue = make("lineage", 150, 5)
    ancestors = [algorithm1.graph_of(model.leaves) for model in catalogue.models]
    kinds: dict[str, int] = {}
    flat = algorithm1.compact(catalogue.models, kinds)
    for query in catalogue.queries:
        graph = algorithm1.graph_of(query.leaves)
        most = algorithm1.scan(graph, ancestors)
        best, size = algorithm1.compiled_scan(algorithm1.compact([query], kinds), flat)
        assert size == most == algorithm1.longest_common_prefix(graph, ancestors[best])
    itself = algorithm1.graph_of(catalogue.models[0].leaves)
    assert algorithm1.scan(itself, ancestors) == len(catalogue.models[0].leaves)


def test_sqlite_answers_as_the_index() -> None:
    catalogue = make("lineage", 150, 10)
    index = PrefixIndex()
    for number, model in enumerate(catalogue.models):
        index.insert("s", ModelId(f"m{number:04}"), model.ids, catalogue.ranks[number], Tick(1, number))
    base = sqlite_rival.fill(catalogue.models, catalogue.ranks)
    for query in catalogue.queries:
        match = index.best("s", query.ids, edges=query.edges)
        assert match is not None
        assert sqlite_rival.ask(base, query) == (match.created.counter, match.score)
    base.close()


@pytest.mark.skipif(redis_rival.missing() is not None, reason=f"not installed here: {redis_rival.missing()}")
def test_redis_answers_as_a_scan_and_gives_its_lock_back() -> None:
    catalogue = make("lineage", 30, 3)
    ancestors = [algorithm1.graph_of(model.leaves) for model in catalogue.models]
    with redis_rival.server() as client:
        redis_rival.fill(client, catalogue.models)
        for query in catalogue.queries:
            graph = algorithm1.graph_of(query.leaves)
            assert redis_rival.ask(client, graph) == algorithm1.scan(graph, ancestors)
        assert client.get("readers") == b"0"
        assert sum(map(int, client.hvals("references"))) == 3


@pytest.mark.long
def test_the_command_prints_a_table(tmp_path: Path) -> None:
    plot = tmp_path / "prefix.svg"
    result = CliRunner().invoke(main, ["--quick", "--plot", str(plot)])
    assert result.exit_code == 0, result.output
    assert "| daskevo's index: mean" in result.stdout
    assert "random 300 | lineage 300" in result.stdout
    drawn = plot.read_text()
    assert "Redis, values iterated" in drawn
    assert ">1 ms<" in drawn
    assert "mathdefault" not in drawn


def test_the_command_without_numba_says_what_to_install() -> None:
    code = "import sys; sys.modules['numba'] = None; from benchmarks.prefix.__main__ import main; main([])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    (said,) = done.stderr.splitlines()
    assert "the prefix index needs numba" in said
    assert said.endswith("pip install numba")


@pytest.mark.long
def test_the_command_prints_json_without_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    result = CliRunner().invoke(main, ["--quick", "--json", "--catalogue", "lineage"])
    assert result.exit_code == 0, result.output
    value = json.loads(result.stdout.splitlines()[-1])
    assert list(value) == ["models", "index", "scan", "redis", "cluster"]
    assert list(value["index"]) == ["mean_us", "p50_us", "p99_us", "insert_us", "retire_us", "bytes_per_model"]
    assert (value["models"], value["redis"]) == (300, None)
    assert value["index"]["mean_us"] > 0
    assert value["scan"]["mean_us"] > 0
