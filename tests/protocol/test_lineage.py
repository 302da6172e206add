"""Lineage: contributors, chains and common ancestors, also over tombstones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from daskevo.errors import InvalidInput
from daskevo.protocol.lineage import Contribution, chain, common_ancestor, contributors
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerEntry
from daskevo.types import ModelId, TensorSpec, Tick
from tests.protocol.checker.actors import make_record

A, B, C, D = (ModelId(name) for name in "abcd")


def record(model: ModelId, ancestor: ModelId | None) -> ModelRecord:
    return make_record(model, Tick(1, 1), {}, ancestor)


RECORDS = {A: record(A, None).tombstone(), B: record(B, A), C: record(C, B), D: record(D, A)}


def test_the_chain_ends_where_records_end() -> None:
    assert list(chain(C, RECORDS)) == [C, B, A]
    assert list(chain(C, {C: RECORDS[C]})) == [C, B]


def test_a_damaged_circle_ends_too() -> None:
    assert list(chain(A, {A: record(A, B), B: record(B, A)})) == [A, B]


@pytest.mark.parametrize(("first", "second", "nearest"), [(C, D, A), (C, B, B), (B, C, B), (C, C, C)])
def test_the_common_ancestor_is_the_nearest(first: ModelId, second: ModelId, nearest: ModelId) -> None:
    assert common_ancestor(first, second, RECORDS) == nearest
    assert common_ancestor(second, first, RECORDS) == nearest


def test_strangers_have_no_common_ancestor() -> None:
    assert common_ancestor(A, B, {A: RECORDS[A], B: record(B, None)}) is None


def test_contributors_are_counted_in_the_models_own_tensors_and_bytes() -> None:
    entries = {0: OwnerEntry(A, 5, "0" * 32, 1), 1: OwnerEntry(A, 6, "0" * 32, 1)}
    model = replace(make_record(B, Tick(1, 1), entries, A), step=1)
    specs = [TensorSpec((4,), "float32"), TensorSpec((), "float64"), TensorSpec((2,), "int8")]
    assert contributors(model, specs) == [
        Contribution(A, frozenset({0, 1}), 24),
        Contribution(B, frozenset({2}), 2),
    ]
    with pytest.raises(InvalidInput, match="3 tensors, 2 spec"):
        contributors(model, specs[:2])
