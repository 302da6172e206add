"""Messages, replies and records: they survive the wire and the journal, and hostile ones raise CorruptRecord only."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.errors import CorruptRecord
from daskevo.protocol.codec import MAX_DEPTH, MAX_TENSORS, json_value, numbers_of, runs
from daskevo.protocol.holders import ClientHolder, TaskHolder, holder_from_wire
from daskevo.protocol.messages import Message, Refer, message_from_wire
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerEntry, OwnerMap
from daskevo.protocol.records import Record, record_from_json
from daskevo.protocol.replies import Reply, reply_from_wire
from daskevo.types import ModelId, Tick, shorten
from tests.protocol import strategies as some
from tests.protocol.checker.actors import make_record

READERS = (message_from_wire, reply_from_wire, record_from_json)


def over_the_wire(value: Any) -> Any:
    """As distributed does it: lists come back as tuples."""
    return msgpack.loads(msgpack.dumps(value), use_list=False, strict_map_key=False)


@given(some.messages)
def test_messages_survive_the_wire(message: Message) -> None:
    assert message_from_wire(over_the_wire(message.to_wire())) == message


@given(some.replies)
def test_replies_survive_the_wire(reply: Reply) -> None:
    assert reply_from_wire(over_the_wire(reply.to_wire())) == reply


@given(some.records)
def test_records_survive_the_journal(record: Record) -> None:
    assert record_from_json(json.loads(json.dumps(record.to_json()))) == record


@pytest.mark.parametrize("holder", [TaskHolder("('train', 3)", 7, "tcp://10.0.0.1:1234"), ClientHolder("Client-1", 2)])
def test_holders_survive_the_wire(holder: TaskHolder | ClientHolder) -> None:
    assert holder_from_wire(over_the_wire(holder.to_wire())) == holder


@settings(max_examples=300)
@given(st.one_of(some.messages, some.replies, some.records), st.data())
def test_damaged_values_raise_corrupt_record_or_still_read(value: Any, data: st.DataObject) -> None:
    plain = value.to_wire()
    junk = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers())
    target: Any = plain
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if not isinstance(target[key], (dict, list)) or not target[key] or data.draw(st.booleans()):
            break
        target = target[key]
    target[key] = data.draw(junk | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2))
    for read in READERS:
        try:
            read(plain)
        except CorruptRecord:
            continue


def put_wire() -> dict[str, Any]:
    record = make_record(ModelId("a"), Tick(1, 1), {0: OwnerEntry(ModelId("b"), 4, "f" * 32, 1)}, None)
    return {"kind": "Put", "record": record.to_json(), "labels": [["user:x", [1, 2]]], "file_bytes": 3}


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def at(*path: str | int, value: Any) -> Any:
    wire = put_wire()
    target: Any = wire
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return wire


@pytest.mark.parametrize(
    "hostile",
    [
        None,
        7,
        "Put",
        [],
        {},
        {"kind": "Message"},
        {"kind": ["Put"]},
        {"kind": "Put"},
        at("surplus", value=1),
        at("labels", value=[]),
        at("labels", value=[["user:x", [1, 2]], ["user:x", [1, 3]]]),
        at("labels", value=[["user:x"]]),
        at("labels", value=[["nolabel", [1, 2]]]),
        at("labels", value=[["user:x", [1, -2]]]),
        at("labels", value=[["user:x", [True, 2]]]),
        at("file_bytes", value=-1),
        at("file_bytes", value=True),
        at("file_bytes", value=2**63),
        at("record", value={}),
        at("record", "model_id", value="../x"),
        at("record", "model_id", value=""),
        at("record", "model_id", value="x" * 10_000),
        at("record", "model_id", value="a\n"),
        at("record", "own", value=[]),
        at("record", "own", value=[[0, [[2], "float32"]], [1, [[2], "float32"]], [2, [[2], "float32"]]]),
        at("record", "own", value=[[1, [[2], "object"]], [2, [[2], "float32"]]]),
        at("record", "quality", value=float("nan")),
        at("record", "metrics", value={"x": float("inf")}),
        at("record", "metrics", value={1: 2}),
        at("record", "metrics", value=[]),
        at("record", "extra", value=b"bytes"),
        at("record", "extra", value=2**64),
        at("record", "extra", value="\ud800"),
        at("record", "extra", value=deep(MAX_DEPTH + 1)),
        at("record", "extra", value=deep(100_000)),
        deep(100_000),
        at("record", "model_id", value=deep(100_000)),
        at("record", "attempt", value=deep(100_000)),
        at("record", "own", 0, 1, value=deep(100_000)),
        at("record", "owner_map", value={"owners": ["a", "b"]}),
        at("record", "owner_map", "owners", value=["a", "../b"]),
        at("record", "owner_map", "entries", 0, value=[2, 4, "f" * 32, 1]),
        at("record", "owner_map", "entries", 0, value=[-1, 4, "f" * 32, 1]),
        at("record", "owner_map", "entries", 0, value=[True, 4, "f" * 32, 1]),
        at("record", "owner_map", "entries", 0, value=[0, MAX_TENSORS, "f" * 32, 1]),
        at("record", "owner_map", "entries", 0, value=[0, 4, "F" * 32, 1]),
        at("record", "owner_map", "entries", 0, value=[0, 4, "f" * 31, 1]),
        at("record", "owner_map", "entries", 0, value=[0, 4, "f" * 32, -1]),
    ],
    ids=shorten,
)
def test_hostile_messages_raise_corrupt_record(hostile: Any) -> None:
    assert message_from_wire(put_wire())
    with pytest.raises(CorruptRecord):
        message_from_wire(hostile)


@pytest.mark.parametrize("hostile", [[0], [1, 1], [2, 1], [0, 2, 2, 3], [-1, 2], [0, 2**40], [0.0, 1], "01", None])
def test_hostile_runs_of_numbers_raise_corrupt_record(hostile: Any) -> None:
    with pytest.raises(CorruptRecord):
        numbers_of(hostile)


@given(some.numbers)
def test_runs_are_exact_and_maximal(numbers: frozenset[int]) -> None:
    bounds = runs(numbers)
    assert numbers_of(bounds) == numbers
    assert bounds == sorted(set(bounds))


def test_json_values_are_copied() -> None:
    value = {"a": (1, [2.5, None, "ü"])}
    copy = json_value(value)
    assert copy == {"a": [1, [2.5, None, "ü"]]}
    assert copy is not value


def test_errors_of_long_hostile_values_stay_short() -> None:
    with pytest.raises(CorruptRecord) as caught:
        Refer.from_wire({"kind": "Refer", "owner": "x" * 10**6, "model": None, "attempt": [1, 1], "numbers": []})
    assert len(str(caught.value)) < 400


def test_a_record_has_exactly_the_tensors_its_map_says() -> None:
    record = make_record(ModelId("a"), Tick(1, 1), {}, None)
    assert record.own_bytes == 24
    with pytest.raises(ValueError, match="must be the same"):
        ModelRecord(record.model_id, record.attempt, "s", None, OwnerMap(()), record.own, record.created)
