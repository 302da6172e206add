"""What is written can be read: each limit is held to before anything is written, the same in both directions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskevo.errors import InvalidInput
from daskevo.protocol import messages as ask
from daskevo.protocol import records as write
from daskevo.protocol import replies as say
from daskevo.protocol.limits import MAX_DEPTH, MAX_HEAD_RECORD_BYTES, MAX_LABELS, MAX_RECORD_BYTES, MAX_TENSORS
from daskevo.protocol.owner_map import OwnerEntry
from daskevo.protocol.shard import Shard
from daskevo.store import journal, journal_reader
from daskevo.store.files import dump_json
from daskevo.store.root import Root
from daskevo.types import ModelId, Tick
from tests.protocol.checker.actors import make_record

A, B = ModelId("a"), ModelId("b")


def p(counter: int, generation: int = 1) -> Tick:
    return Tick(generation, counter)


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


counts = st.sampled_from([0, 1, 2**53, 2**63 - 1, 2**63, 2**64])
numbers = st.frozensets(st.sampled_from([0, 1, MAX_TENSORS - 2, MAX_TENSORS - 1, MAX_TENSORS]), min_size=1)
figures = st.sampled_from([0.0, -0.0, 1.7e308, 5e-324, float("inf"), float("nan")])
texts = st.sampled_from(["", "\x00", "\ud800", "\U0010ffff", "é" * 10])
free = st.one_of(
    st.integers(MAX_DEPTH - 2, MAX_DEPTH + 2).map(nested),
    st.sampled_from([-(2**63), -(2**63) - 1, 2**64 - 1, 2**64]),
    figures,
    texts,
    texts.map(lambda text: {text: 1}),
)
model_records = st.builds(
    lambda step, quality, graph, metrics, extra, steps: replace(
        make_record(A, p(1), {0: OwnerEntry(B, 0, "0" * 32, steps)}, None),
        step=step,
        quality=quality,
        graph=graph,
        metrics=metrics,
        extra=extra,
    ),
    counts,
    st.none() | figures,
    st.none() | texts,
    st.dictionaries(texts, free, max_size=1),
    free,
    counts,
)
values = st.one_of(
    st.builds(write.Staged, model_records, st.none() | counts),
    st.builds(write.Referred, st.just(A), st.just(B), st.just(p(2)), numbers),
    st.builds(write.Generation, counts),
    st.builds(ask.Put, model_records, st.just({"user:kept": p(1)}), st.none() | counts),
    st.builds(ask.Refer, st.just(A), st.just(B), st.just(p(2)), numbers),
    st.builds(say.Refused, st.just("gone"), st.none(), st.none() | model_records, numbers),
)


def packed(value: Any) -> Any:
    return msgpack.unpackb(msgpack.packb(value), strict_map_key=False)


@given(values)
def test_what_can_be_written_can_be_read_on_the_wire_and_on_disk(value: Any) -> None:
    try:
        plain = value.to_wire()
    except InvalidInput:
        return
    if isinstance(value, write.Record):
        assert write.record_from_json(json.loads(dump_json(plain))) == value
    elif isinstance(value, ask.Message):
        assert ask.message_from_wire(packed(plain)) == value
    else:
        assert say.reply_from_wire(packed(plain)) == value


@pytest.mark.parametrize(
    "change",
    [{"step": 2**63}, {"quality": float("nan")}, {"graph": "\ud800"}, {"extra": nested(MAX_DEPTH + 1)}],
    ids=lambda change: next(iter(change)),
)
def test_what_could_not_be_read_is_not_written(change: Any) -> None:
    record = replace(make_record(A, p(1), {}, None), **change)
    with pytest.raises(InvalidInput, match=next(iter(change))):
        write.Staged(record, None).to_json()


def do(shard: Shard, message: ask.Message) -> say.Reply:
    decision = shard.decide(message)
    for record in decision.records:
        shard.apply(record)
    return decision.reply


def reopened(shard: Shard, generation: int = 1) -> Shard:
    rows = json.loads(dump_json([record.to_json() for record in shard.head()]))
    return Shard(0, generation, write.records_from_json(rows))


def test_labels_of_a_model_up_to_the_limit_and_not_beyond() -> None:
    shard = Shard(0, 1)
    do(shard, ask.Put(make_record(A, p(1), {}, None), {"user:kept": p(1)}, 1))
    counter = 2
    for number in range(MAX_LABELS - 1):
        do(shard, ask.Hold(A, f"user:{number}", p(counter)))
        do(shard, ask.Release(A, f"user:{number}", p(counter + 1)))
        counter += 2
    again = reopened(shard)
    assert again.state == shard.state
    assert not again.lost
    with pytest.raises(InvalidInput, match="10000 is the limit"):
        shard.decide(ask.Hold(A, "user:more", p(counter)))
    # One that it has had may come back, and all may go.
    assert do(shard, ask.Hold(A, "user:0", p(counter))) == say.Labelled("published", ("user:0", "user:kept"))
    assert do(shard, ask.Retire(A, p(counter + 1))) == say.Labelled("retiring")
    too_many = ask.Put(make_record(B, p(2), {}, None), {f"user:{n}": p(1) for n in range(MAX_LABELS + 1)}, 1)
    with pytest.raises(InvalidInput, match="limit"):
        shard.decide(too_many)


def test_a_journal_with_more_labels_than_may_be_given_today_is_read() -> None:
    released = {f"user:{number}": p(1) for number in range(MAX_LABELS + 1)}
    kept = write.Kept(make_record(A, p(1), {}, None), "published", 1, frozenset({0, 1, 2}), {"user:x": p(1)}, released)
    own = write.Referred(A, A, p(1), frozenset({0, 1, 2}))
    shard = Shard(0, 1, write.records_from_json([kept.to_json(), own.to_json()]))
    assert not shard.lost
    assert len(shard.state.models[A].released) == MAX_LABELS + 1


def test_what_a_generation_has_released_is_forgotten_with_it_and_its_late_holds_are_refused() -> None:
    shard = Shard(0, 1)
    do(shard, ask.Put(make_record(A, p(1), {}, None), {"user:kept": p(1)}, 1))
    do(shard, ask.Hold(A, "best:r", p(2)))
    do(shard, ask.ReleaseLabel("best:r", p(4)))
    do(shard, ask.Hold(A, "user:x", p(5)))
    do(shard, ask.Release(A, "user:x", p(6)))
    later = reopened(shard, generation=2)
    assert later.state.models[A].released == later.state.ended_labels == {}
    assert reopened(later, generation=2).state == later.state
    for label, tick in (("best:r", p(3)), ("user:x", p(5)), ("user:new", p(9))):
        assert do(later, ask.Hold(A, label, tick)) == say.Refused("over")
    assert do(later, ask.Release(A, "user:x", p(7))) == say.Labelled("published", ("user:kept",))
    assert do(later, ask.ReleaseLabel("user:x", p(8))) == say.LabelGone()
    assert reopened(later, generation=2).state == later.state
    assert do(later, ask.Hold(A, "best:r", p(1, 2))) == say.Labelled("published", ("best:r", "user:kept"))


def test_a_record_of_the_longest_kind_is_served_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_RECORD_BYTES", 4096)
    for module in (journal, journal_reader):
        monkeypatch.setattr(module, "MAX_HEAD_RECORD_BYTES", 8192)
    root = Root.create(tmp_path / "root", shards=1, durability="written")
    folder = root.shard(0)
    folder.open(1)
    folder.serve([write.Generation(1).to_json()])
    record = make_record(A, p(1), {}, None)
    room = 4096 - len(dump_json(write.Staged(replace(record, extra=""), 1).to_json()))
    published = write.Published(A, p(1), {"user:kept": p(1)}).to_json()
    with pytest.raises(InvalidInput, match="limit of 4096"):
        folder.append([write.Staged(replace(record, extra="x" * (room + 1)), 1).to_json(), published])
    folder.append([write.Staged(replace(record, extra="x" * room), 1).to_json(), published])
    for _ in range(2):
        folder.close()
        folder = root.shard(0)
        shard = Shard(0, 1, write.records_from_json(folder.open(1).records))
        assert shard.state.models.keys() == {A}
        folder.serve(record.to_json() for record in shard.head())
    folder.close()


def test_the_head_has_room_for_all_that_a_model_may_have() -> None:
    label, tick = "a" * 20 + ":" + "\U0001d7d8" * 150, Tick(2**63 - 1, 2**63 - 1)
    labels = MAX_LABELS * (len(dump_json([label, list(tick)])) + 1)
    numbers = MAX_TENSORS // 2 * 2 * (len(str(MAX_TENSORS)) + 1)
    assert MAX_RECORD_BYTES + labels + numbers + 1000 < MAX_HEAD_RECORD_BYTES
