"""Published spaces said by mutators: size, contract, and a candidate of each trained for a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from daskevo.models import Mutated, flatten, shape_only
from daskevo.space import UNBOUNDED, Size
from daskevo.testing import check_space
from daskevo_workflows.spaces.evolving import evolving
from daskevo_workflows.spaces.mnasnet import mnasnet


@pytest.fixture(scope="module")
def mobile() -> Mutated:
    return mnasnet((32, 32, 3), 10, alpha=0.35, stages=2)


def trained(model: Any, shape: tuple[int, ...]) -> float:
    model.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=True)
    return float(model.train_on_batch(np.random.default_rng(0).random((4, *shape)), np.arange(4)))


@pytest.mark.long
def test_the_size_of_mnasnet_is_the_published_one() -> None:
    space = mnasnet((32, 32, 3), 10, alpha=0.35)
    assert (space.size, str(space.size)) == (Size("exact", 432**5), "1.5e13")
    assert len(space.choices_of(space.sample(np.random.default_rng(0)))) == 5 * 6


def test_each_block_has_432_options(mobile: Mutated) -> None:
    choices = mobile.choices_of(mobile.sample(np.random.default_rng(0)))
    assert np.prod([len(choice.options) for choice in choices]) == mobile.size.count == 432**2
    assert choices[0].name == "block1/block_1_expand/filters"


def candidate(mobile: Mutated, operator: str, skip: str, layers: int, squeeze: float) -> Any:
    taken = {"operator": operator, "kernel": 5, "squeeze": squeeze, "skip": skip, "filters": 1.25, "layers": layers}
    return mobile.candidate(
        {
            f"{block}/{node}/{name}": option
            for block, node in (("block1", "block_1_expand"), ("block2", "block_3_expand"))
            for name, option in taken.items()
        }
    )


def test_a_block_is_what_was_chosen(mobile: Mutated) -> None:
    plain = mobile.graph(candidate(mobile, "conv", "none", -1, 0.0))
    block = [node for node in plain.nodes if ".block1." in node.name]
    assert [node.kind for node in block] == ["Conv2D", "BatchNormalization", "ReLU"]
    assert block[0].config["kernel_size"] == 5
    deep = mobile.graph(candidate(mobile, "mbconv6", "pool", 1, 0.25))
    kinds = [node.kind for node in deep.nodes if ".block2." in node.name]
    assert kinds.count("DepthwiseConv2D") == 4
    assert kinds.count("Multiply") == 4
    # Pooled skips are projected where filters change, and nothing else had to be fitted.
    put_in = {node.name for node in deep.nodes if "project1" in node.name}
    assert "block_3_expand.block2.layer0_add.project1" in put_in


@pytest.mark.long
def test_a_mnasnet_trains(mobile: Mutated) -> None:
    assert trained(mobile.build(candidate(mobile, "mbconv3", "pool", -1, 0.25)), (32, 32, 3)) > 0


def test_mnasnet_keeps_the_contract(mobile: Mutated) -> None:
    check_space(lambda: mobile, draws=1)


def test_evolving_keeps_the_contract() -> None:
    assert evolving().size == UNBOUNDED
    check_space(evolving, draws=6)
    check_space(lambda: evolving((4,), 2, widths=(4,), steps=2), draws=3)


def test_a_network_that_grew_trains() -> None:
    space = evolving((8, 8), 10)
    rng = np.random.default_rng(3)
    candidate = space.candidate({"step 1": "stop"})
    seen: set[str | None] = set()
    for _ in range(60):
        candidate = space.mutate(candidate, rng)
        graph = space.graph(candidate)
        seen |= {done.mutator for done in graph.history}
    assert seen == {"insert node", "add connection", "change activation", "replicate", "split", "fitting"}
    assert trained(space.build(candidate), (8, 8)) > 0
    with shape_only():
        assert flatten(space.build(candidate)).graph.ids == flatten(space.build(candidate)).graph.ids
