"""Published spaces: as large as published, one candidate of each trained, the same one with the same vertex ids."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from daskevo.errors import CandidateRejected, InvalidInput, InvalidProblem
from daskevo.models import shape_only
from daskevo_workflows.problems import Data, check_problem, load_problem
from daskevo_workflows.problems.attn_space import AttnShape
from daskevo_workflows.problems.building import build_candidate, graph_of
from daskevo_workflows.spaces import covertype
from daskevo_workflows.spaces.covertype import Covertype, made_sample, prepare
from daskevo_workflows.spaces.nas_bench_201 import CUT, EDGES, NasBench201
from daskevo_workflows.spaces.nasnet import OPERATIONS, NasNet

SMALL = NasBench201(stages=1, channels=4)


def cell(*operations: str) -> dict[str, Any]:
    """Choices of a cell, in the order in which NAS-Bench-201 writes it: 0->1, 0->2, 1->2, 0->3, 1->3, 2->3."""
    return {f"{source}->{target}": name for (source, target), name in zip(EDGES, operations, strict=True)}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("nas-bench-201", {"channels": 4, "stages": 2}),
        ("covertype", {"samples": 1_000, "layers": 5}),
    ],
)
def test_a_candidate_is_trained(name: str, settings: dict[str, Any]) -> None:
    """Builds it twice with the same vertex ids, freezes a layer, trains a few batches, scores."""
    assert check_problem(name, candidates=1, batches=2, **settings).name == name


@pytest.mark.long
def test_a_candidate_of_nasnet_is_trained() -> None:
    class Eager(NasNet):
        """Tracing a graph would take longer than training."""

        def compile(self, model: Any) -> None:
            super().compile(model)
            model.run_eagerly = True

    check_problem(Eager(channels=2, blocks=1), candidates=1, batches=1)


def test_nas_bench_201_has_15625_cells() -> None:
    space = NasBench201().space()
    assert len(space.choices) == len(EDGES) == 6
    assert np.prod([len(choice.options) for choice in space.choices]) == 15_625
    # Counted in another way: of the 64 sets of edges with an operation, those that hold one of the four paths.
    paths = [{(0, 3)}, {(0, 1), (1, 3)}, {(0, 2), (2, 3)}, {(0, 1), (1, 2), (2, 3)}]
    sets = [set(edges) for size in range(7) for edges in itertools.combinations(EDGES, size)]
    through = sum(4 ** len(edges) for edges in sets if any(path <= edges for path in paths))
    assert space.size.count == through == 15_625 - 341


def test_a_cell_that_lets_nothing_through_is_rejected() -> None:
    space = SMALL.space()
    for dead in (cell(*["none"] * 6), cell("conv3x3", "conv1x1", "skip", "none", "none", "none")):
        with pytest.raises(CandidateRejected) as caught:
            space.candidate(dead)
        assert caught.value.reason == CUT


def test_an_edge_without_operation_is_no_part_of_the_graph() -> None:
    space = SMALL.space()
    plain = space.candidate(cell("none", "none", "none", "conv3x3", "none", "none"))
    # Node 1 is made, and leads nowhere.
    dead_end = space.candidate(cell("conv3x3", "none", "none", "conv3x3", "none", "none"))
    detour = space.candidate(cell("skip", "none", "none", "none", "conv3x3", "none"))
    other = space.candidate(cell("none", "none", "none", "conv1x1", "none", "none"))
    ids = [graph_of(SMALL, candidate).ids for candidate in (plain, dead_end, detour, other)]
    assert ids[0] == ids[1] == ids[2] != ids[3]


def test_the_skeleton_is_that_of_the_paper() -> None:
    """Two residual blocks that halve the side and double the channels, N cells in each of three stages."""
    problem = NasBench201(cells=2, channels=4)
    space = problem.space()
    model = build_candidate(problem, space.candidate(cell("none", "none", "none", "avgpool3x3", "none", "none")))
    kinds = [type(layer).__name__ for layer in model.layers]
    assert kinds.count("Add") == 2
    # Six cells of one pooling each, and one in each residual block.
    assert kinds.count("AveragePooling2D") == 6 + 2
    assert [layer.output.shape[1:] for layer in model.layers if type(layer).__name__ == "Add"] == [
        (4, 4, 8),
        (2, 2, 16),
    ]


def test_nasnet_has_as_many_cells_as_published() -> None:
    """Liu et al. count 5.6e14 cells of these operations; with both cells it is their number squared."""
    space = NasNet().space()
    assert len(space.choices) == 2 * 5 * 4
    assert space.size.count == (2**2 * 3**2 * 4**2 * 5**2 * 6**2 * 8**10) ** 2
    assert f"{space.size.count**0.5:.1e}" == "5.6e+14"


def test_the_cells_of_nasnet_are_what_was_chosen() -> None:
    """Reductions halve the side and double the channels; what no block takes is the output, side by side."""
    problem = NasNet(channels=2, blocks=2)
    space = problem.space()
    taken: dict[str, Any] = {}
    for cell in ("normal", "reduction"):
        chosen = {"0.left": (0, "identity"), "0.right": (1, "sep3x3"), "1.left": (0, "avgpool3x3")}
        chosen["1.right"] = (1, "dilated3x3") if cell == "normal" else (2, "conv1x7-7x1")
        for block, (source, operation) in chosen.items():
            taken |= {f"{cell}.{block}.input": source, f"{cell}.{block}.operation": operation}
    with shape_only():
        model = build_candidate(problem, space.candidate(taken))
    adds = [layer.output.shape[1:] for layer in model.layers if type(layer).__name__ == "Add"]
    # Three normal cells, and a reduction before the second and third, each of two blocks.
    assert adds == [(8, 8, 2)] * 2 + [(4, 4, 4)] * 4 + [(2, 2, 8)] * 4
    # In a reduction the second block takes the first, which is halved already: it is the output alone.
    ends = [layer.output.shape[1:] for layer in model.layers if type(layer).__name__ == "Concatenate"]
    assert ends == [(8, 8, 4), (4, 4, 8), (2, 2, 16)]


def test_every_operation_of_nasnet_in_either_cell() -> None:
    problem = NasNet(channels=2, blocks=len(OPERATIONS) // 2, pictures="fashion-mnist")
    space = problem.space()
    sides = [f"{block}.{side}" for block in range(len(OPERATIONS) // 2) for side in ("left", "right")]
    taken: dict[str, Any] = {}
    for cell in ("normal", "reduction"):
        for side, operation in zip(sides, OPERATIONS, strict=True):
            taken |= {f"{cell}.{side}.input": 0, f"{cell}.{side}.operation": operation}
    with shape_only():
        model = build_candidate(problem, space.candidate(taken))
    # Sides of 14, 7 and 4.
    ends = [layer.output.shape[1:] for layer in model.layers if type(layer).__name__ == "Concatenate"]
    assert ends == [(14, 14, 8), (7, 7, 16), (7, 7, 16), (4, 4, 32), (4, 4, 32)]


def test_covertype_is_dense_skip() -> None:
    space = Covertype().space()
    assert space.size.count == 31**10 * 2**27
    assert len(space.choices) == 37
    assert [choice.name for choice in space.choices[:3]] == ["x.0.0", "x.0.0.skip0", "x.0.1"]
    # Where a problem says nothing of layers, spaces are what they were.
    assert AttnShape({"x": 3}).layers == 3


def test_covertype_sample() -> None:
    arrays = made_sample(2_000)
    x, y = arrays["x"], arrays["y"]
    assert (x.shape, x.dtype, y.dtype) == ((2_000, 54), np.float32, np.int32)
    assert (x[:, 10:14].sum(axis=1) == 1).all()
    assert (x[:, 14:].sum(axis=1) == 1).all()
    counts = np.bincount(y, minlength=7)
    assert len(counts) == 7
    assert counts.min() > 0
    assert np.sort(counts)[-2:].sum() > counts.sum() / 2
    assert np.array_equal(made_sample(2_000)["x"], x)


def test_covertype_as_scikit_learn_gives_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3_000, size=(500, 54)).astype(np.float64)
    y = rng.integers(1, 8, size=500)
    arrays = prepare(x, y, 200)
    assert arrays["x"].shape == (200, 54)
    np.testing.assert_allclose(arrays["x"][:, :10].mean(axis=0), 0, atol=1e-5)
    assert (arrays["y"].min(), arrays["y"].max()) == (0, 6)
    with pytest.raises(InvalidProblem, match="54 features"):
        prepare(x[:, :50], y, 200)
    with pytest.raises(InvalidProblem, match="classes 1 to 7"):
        prepare(x, y - 1, 200)

    def no_network(**options: Any) -> Any:
        raise OSError("no network")

    monkeypatch.setenv("DASKEVO_CACHE", str(tmp_path))
    monkeypatch.setattr("sklearn.datasets.fetch_covtype", no_network)
    with pytest.raises(InvalidProblem, match="source='made'"):
        Covertype(source="sklearn", samples=150).data()
    monkeypatch.setattr("sklearn.datasets.fetch_covtype", lambda **options: (x, y))
    data = Covertype(source="sklearn", samples=150).data()
    assert isinstance(data, Data)
    assert (len(data.train[0]), len(data.validation[0])) == (120, 30)
    covertype._data.cache_clear()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("nas-bench-201", {"pictures": "cifar"}),
        ("nas-bench-201", {"stages": 4}),
        ("nas-bench-201", {"cells": 0}),
        ("nas-bench-201", {"operations": ("none",)}),
        ("nas-bench-201", {"operations": ("none", "conv5x5")}),
        ("nasnet", {"pictures": "cifar"}),
        ("nasnet", {"blocks": 0}),
        ("nasnet", {"operations": ()}),
        ("nasnet", {"operations": ("conv9x9",)}),
        ("covertype", {"source": "elsewhere"}),
        ("covertype", {"samples": 10}),
        ("covertype", {"layers": 0}),
    ],
)
def test_settings_that_make_no_space(name: str, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        load_problem(name, **settings)
