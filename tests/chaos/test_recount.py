"""What is lost, dangling or left over is counted; what is as it should be is not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daskevo
from daskevo.protocol.hashing import shard_of
from daskevo.store.root import Root
from daskevo.types import ModelId
from tests.chaos import ledger
from tests.chaos.ledger import Ledger
from tests.chaos.recount import read_all, recount
from tests.chaos.trial import longest_pause_s
from tests.cluster.helpers import chain, make, values
from tests.cluster.roots import GRAPH, WIDER, root_of_two


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with first (retired), second (inherits from it) and third, at rest."""

    async def third(repository: Any) -> None:
        await make(repository, chain(7), "third", seed=3)

    return root_of_two(tmp_path / "root", third)


def told(root: Path) -> Ledger:
    """What callers were told of the three."""
    found = daskevo.open(root, "test").read("second")
    first = list(values(GRAPH, 1).values())
    second = [*first[:4], *list(values(WIDER, 2).values())[4:]]
    assert all(np.array_equal(a, b) for a, b in zip(second, found.values(), strict=True))
    stored = {"first": first, "second": second, "third": list(values(chain(7), 3).values())}
    return Ledger({name: [ledger.digests(tensors)] for name, tensors in stored.items()})


def counts(found: Any) -> tuple[int, int, int]:
    return found.lost, found.dangling, found.leaked_tensors


def test_a_repository_as_it_should_be(root: Path) -> None:
    found = recount(root, "test", told(root), ["first", "second"], ["second", "third"])
    assert found.clean, found.words
    assert found.published == 3
    assert (*counts(found), found.leaked_bytes) == (0, 0, 0, 0)


def test_a_model_that_is_not_there_or_not_as_it_was_put(root: Path) -> None:
    book = told(root)
    book.stored["fourth"] = [["0"]]  # never heard of, and the search does not hold it
    book.stored["second"].append(["1", *book.stored["second"][0][1:]])  # two runs were told so
    found = recount(root, "test", book, [], ["first", "second", "third"])
    assert counts(found) == (3, 0, 0)
    assert [word.split(":")[1].split()[0] for word in found.words] == ["first", "fourth", "second"]
    assert "1 of 6 tensors differ" in found.words[2]


def test_a_retirement_by_order_is_no_loss(root: Path) -> None:
    book = told(root)
    book.asked.add("first")
    book.retired.add("first")
    assert recount(root, "test", book, [], ["first", "second", "third"]).clean
    book.retired.add("second")  # was answered, and it is there
    found = recount(root, "test", book, [], ["first", "second", "third"])
    assert counts(found) == (0, 0, 2)


def test_a_model_that_nobody_holds(root: Path) -> None:
    found = recount(root, "test", told(root), [], ["second"])
    assert counts(found) == (0, 0, 2)
    assert found.leaked_bytes == sum(array.nbytes for array in values(chain(7), 3).values())
    assert not found.clean


def test_files_that_nobody_needs_and_files_that_are_gone(root: Path) -> None:
    segment = next(Root.open(root).shard(shard_of(ModelId("third"), 8)).segments()).path
    stray = segment.with_name("third.1-999.seg")
    shutil.copy(segment, stray)
    found = recount(root, "test", told(root), [], ["second", "third"])
    assert (*counts(found), found.leaked_bytes) == (0, 0, 2, stray.stat().st_size)
    os.rename(stray, segment.with_name("third.1-999.seg.0000abcd.tmp"))
    assert recount(root, "test", told(root), [], ["second", "third"]).leaked_bytes == segment.stat().st_size
    next(segment.parent.glob("*.tmp")).unlink()
    segment.unlink()
    found = recount(root, "test", told(root), [], ["second", "third"])
    assert counts(found) == (1, 2, 0)


def test_what_a_client_reads(root: Path) -> None:
    book = told(root)
    assert read_all(daskevo.open(root, "test"), book) == []
    book.stored["third"].append(["1", *book.stored["third"][0][1:]])
    next(Root.open(root).shard(shard_of(ModelId("second"), 8)).segments()).path.unlink()
    words = read_all(daskevo.open(root, "test"), book)
    assert [word.split(":")[0] for word in words] == ["second can't be read", "third is not what was put"]


def test_the_ledger_says_what_was_told(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    assert ledger.read(path) == Ledger()
    ledger.note(path, what="stored", model="a", tensors=None)
    ledger.note(path, what="stored", model="b", tensors=["1"])
    ledger.note(path, what="stored", model="b", tensors=None)
    ledger.note(path, what="retire asked", model="b")
    ledger.note(path, what="retire asked", model="a")
    ledger.note(path, what="retired", model="a")
    assert ledger.read(path) == Ledger({"a": [], "b": [["1"]]}, {"a"}, {"a", "b"})


def test_digests_mind_type_and_shape() -> None:
    zeros = np.zeros((2, 2), np.float32)
    assert ledger.digest(zeros) == ledger.digest(zeros.T)
    assert len({ledger.digest(array) for array in (zeros, zeros.ravel(), zeros.view(np.int32), zeros + 1)}) == 4


def test_the_longest_pause() -> None:
    assert longest_pause_s([]) == longest_pause_s([1.0]) == 0
    assert longest_pause_s([7.0, 2.0, 1.0, 3.0]) == 3
