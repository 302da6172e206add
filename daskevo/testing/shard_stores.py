"""The contract of a shard's store, for ours and for yours: call :func:`check_shard_store` in a test."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from daskevo.errors import CorruptRecord, InvalidInput, ShardFenced
from daskevo.store.shard_folder import ShardFolder
from daskevo.testing.arrays import same_tensor
from daskevo.types import JSON, ModelId, Tick

MODEL, ATTEMPT = ModelId("Model"), Tick(1, 1)


def check_shard_store(make: Callable[[], Callable[[], ShardFolder]]) -> None:
    """Check what every store of a shard promises; raises AssertionError on the first promise that is broken.

    Parameters
    ----------
    make:
        Makes a new shard; what it returns makes one more owner of that shard each time.
    """
    for check in (_check_records, _check_fence, _check_refusals, _check_renewal, _check_segments):
        check(make())


def _serve(owner: ShardFolder, generation: int = 1) -> tuple[JSON, ...]:
    records = owner.open(generation).records
    owner.serve(records)
    return records


def _check_records(owners: Callable[[], ShardFolder]) -> None:
    first = owners()
    assert first.open(1) == (1, ()), "a new shard has no records, and its first owner number 1"
    first.serve([])
    first.append([{"a": 1}, {"b": [None, "two", 0.5]}])
    # Not flushed: it may be lost with the machine, but not by closing.
    first.append([{"c": 3}], flush=False)
    first.close()
    second = owners()
    opening = second.open(1)
    assert opening.records == ({"a": 1}, {"b": [None, "two", 0.5]}, {"c": 3}), "what was appended is there, in order"
    assert opening.epoch > 1, "each owner has a higher number"
    second.serve([{"state": 1}])
    second.append([{"d": 4}])
    # Not closed: as if it had died.
    found = _serve(owners())
    assert found == ({"state": 1}, {"d": 4}), "the head takes the place of all records before it"


def _check_fence(owners: Callable[[], ShardFolder]) -> None:
    first = owners()
    _serve(first)
    first.append([{"a": 1}])
    # The first owner has not noticed that it was replaced, as a process that stood still for a while.
    segment = first.write_segment(MODEL, ATTEMPT, {0: np.arange(3)})
    second = owners()
    _serve(second, 2)
    _raises(ShardFenced, "who was overtaken must not append", lambda: first.append([{"late": 1}]))
    _raises(ShardFenced, "who was overtaken must not delete", lambda: first.delete([(MODEL, ATTEMPT)]))
    assert segment.path.exists(), "who was overtaken must not delete"
    _raises(ShardFenced, "who was overtaken must not renew", lambda: first.renew([]))
    _raises(ShardFenced, "an earlier generation must not open", lambda: owners().open(1))
    second.append([{"b": 2}])
    assert _serve(owners(), 2) == ({"a": 1}, {"b": 2}), "nothing counts that an owner wrote after it was overtaken"


def _check_refusals(owners: Callable[[], ShardFolder]) -> None:
    owner = owners()
    _raises(ShardFenced, "who hasn't opened must not serve", lambda: owner.serve([]))
    _raises(ShardFenced, "who hasn't opened must not append", lambda: owner.append([{}]))
    _serve(owner)
    _raises(ShardFenced, "one object opens once", lambda: owner.open(1))
    # The good record stands first: a store must look at all of them before it writes one.
    for bad in ({"x": float("nan")}, {"x": {1, 2}}, {"x": b"1"}):
        _raises(InvalidInput, "what JSON can't carry is refused", partial(owner.append, [{"good": 1}, bad]))
    owner.append([{"a": 1}])
    assert _serve(owners()) == ({"a": 1},), "of records that were refused nothing is kept, and the shard goes on"


def _check_renewal(owners: Callable[[], ShardFolder]) -> None:
    owner = owners()
    _serve(owner)
    for number in range(20):
        owner.append([{"n": number}])
    before, epoch = owner.journal_bytes, owner.epoch
    owner.renew([{"sum": 190}])
    assert owner.journal_bytes < before, "a renewed journal is shorter"
    assert epoch is not None, "who serves has a number"
    assert owner.epoch == epoch + 1, "a renewal takes the next number or none"
    owner.append([{"n": 20}])
    assert _serve(owners()) == ({"sum": 190}, {"n": 20}), "a renewal changes no state, and what follows counts"


def _check_segments(owners: Callable[[], ShardFolder]) -> None:
    owner = owners()
    _serve(owner)
    # Whoever writes or reads tensors need not own the shard.
    tensors: dict[int, Any] = {0: np.arange(6).reshape(2, 3), 4: np.float32(0.5)}
    owners().write_segment(MODEL, ATTEMPT, tensors, {"any": "words"})
    found = owners().open_segment(MODEL, ATTEMPT).read()
    assert found.keys() == tensors.keys(), "a segment has the tensors that were written"
    assert all(same_tensor(found[number], np.asarray(array)) for number, array in tensors.items()), "bit by bit"
    # Some file systems fold case, so file names must tell such ids apart.
    other = ModelId(MODEL.lower())
    _raises(CorruptRecord, "ids that differ in case only are others", lambda: owner.open_segment(other, ATTEMPT))
    (file,) = owner.segments()
    assert (file.model_id, file.attempt, file.temporary) == (MODEL, ATTEMPT, False), "segments are listed"
    assert owner.delete([(other, ATTEMPT), (MODEL, Tick(1, 2))]) == 0, "nothing else is deleted"
    assert owner.delete([(MODEL, ATTEMPT)]) == file.nbytes, "deleting says what it gave back"
    # A deletion is repeated after a crash.
    assert owner.delete([(MODEL, ATTEMPT)]) == 0, "what is gone may be deleted again"
    _raises(CorruptRecord, "a segment that is gone is named", lambda: owner.open_segment(MODEL, ATTEMPT))
    owner.write_segment(MODEL, ATTEMPT, tensors)
    owner.withdraw_segment(MODEL, ATTEMPT)
    assert list(owner.segments()) == [], "what is withdrawn is gone"


def _raises(kind: type[Exception], what: str, call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    except Exception as error:
        raise AssertionError(f"{what}: {kind.__name__} was expected, not {type(error).__name__}: {error}") from error
    raise AssertionError(f"{what}: {kind.__name__} was expected")
