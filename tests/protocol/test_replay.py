"""A journal with records that don't fit, or can't be read, opens all the same, and loses those models at most."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from daskevo.errors import CorruptRecord, LaterVersion
from daskevo.protocol import messages as ask
from daskevo.protocol import records as write
from daskevo.protocol import replies as say
from daskevo.protocol.owner_map import OwnerEntry
from daskevo.protocol.shard import Shard
from daskevo.types import ModelId, Tick
from tests.protocol.checker.actors import make_record

A, B, CHILD = ModelId("a"), ModelId("b"), ModelId("child")
ALL = frozenset({0, 1, 2})
ZERO = "0" * 32


def p(counter: int, generation: int = 1) -> Tick:
    return Tick(generation, counter)


class Owner:
    """A shard and its journal; `cut off` writes records that the owner never gets to know."""

    def __init__(self) -> None:
        self.shard = Shard(0, 1)
        self.journal: list[write.Record] = list(self.shard.head())

    def tell(self, message: ask.Message, *, cut_off: bool = False) -> say.Reply:
        decision = self.shard.decide(message)
        self.journal += decision.records
        for record in decision.records if not cut_off else ():
            self.shard.apply(record)
        return decision.reply

    def reopened(self, generation: int = 1) -> Shard:
        rows = json.loads(json.dumps([record.to_json() for record in self.journal]))
        return Shard(0, generation, write.records_from_json(rows))


def put(model: ModelId, attempt: Tick, inherited: dict[int, ModelId] | None = None) -> ask.Put:
    entries = {number: OwnerEntry(owner, number, ZERO, 1) for number, owner in (inherited or {}).items()}
    return ask.Put(make_record(model, attempt, entries, None), {"user:kept": attempt}, 1)


@pytest.fixture
def owner() -> Owner:
    owner = Owner()
    owner.tell(put(A, p(1)))
    owner.tell(ask.Refer(A, CHILD, p(2), frozenset({0})))
    return owner


def test_a_put_that_was_cut_off_and_sent_again(owner: Owner) -> None:
    owner.tell(put(B, p(3)), cut_off=True)
    owner.tell(put(B, p(3)))
    assert owner.reopened().state == owner.shard.state
    assert not owner.reopened().lost


def test_a_put_that_was_cut_off_and_aborted(owner: Owner) -> None:
    owner.tell(put(B, p(3)), cut_off=True)
    assert owner.tell(ask.Abort(B, p(3))) == say.Verdict("aborted", p(3))
    again = owner.reopened()
    assert again.state == owner.shard.state
    assert again.opening.segments == ((B, p(3)),)
    owner.tell(put(B, p(4)))
    owner.tell(ask.Refer(B, CHILD, p(2), frozenset({0})))
    assert owner.reopened().state == owner.shard.state


def test_a_put_that_was_cut_off_and_won_by_another(owner: Owner) -> None:
    owner.tell(put(B, p(3)), cut_off=True)
    owner.tell(put(B, p(4)))
    again = owner.reopened()
    assert again.state == owner.shard.state
    assert again.opening.segments == ((B, p(3)),)


def test_a_retirement_that_was_cut_off_and_was_none_to_those_who_came_after(owner: Owner) -> None:
    owner.tell(ask.Retire(A, p(3)), cut_off=True)
    owner.tell(ask.Refer(A, CHILD, p(2), ALL))
    owner.tell(ask.Hold(A, "user:more", p(4)))
    again = owner.reopened()
    assert again.state.models[A].state == "published"
    assert again.state.models[A].held.keys() >= {"user:more"}
    assert again.state.references == owner.shard.state.references
    assert not again.opening.segments


def test_a_journal_in_which_a_model_is_published_without_being_staged(owner: Owner) -> None:
    owner.journal += [write.Published(B, p(3), {"user:kept": p(3)}), write.LabelHeld(B, "user:x", p(4))]
    again = owner.reopened()
    assert again.lost.keys() == {B}
    assert again.state.models == owner.shard.state.models
    # Its id is never used again.
    assert again.decide(put(B, p(5))).reply.reason == "retired"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "record",
    [
        write.Referred(B, CHILD, p(2), ALL),
        write.Published(A, p(9), {"user:x": p(2)}),
        write.LabelHeld(B, "user:x", p(2)),
        write.Retiring(B, {}),
        write.Retired(B),
        write.Kept(make_record(A, p(9), {}, None), "published", 1, ALL, {"user:x": p(9)}, {}),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_that_does_not_fit_is_left_out(owner: Owner, record: write.Record) -> None:
    owner.journal.append(record)
    again = owner.reopened()
    assert again.state == owner.shard.state
    assert len(again.lost) == 1


def _spoiled(row: Any) -> Any:
    part = row.get("record", row)
    part["metrics"] = {"deep": _deep(200)}
    return row


def _deep(depth: int) -> Any:
    return [_deep(depth - 1)] if depth else 0


@pytest.mark.parametrize("renewed", [False, True])
def test_an_unreadable_record_costs_its_model_and_no_child_of_it(owner: Owner, renewed: bool) -> None:
    owner.tell(put(CHILD, p(2), {0: A}))
    owner.tell(put(B, p(5)))
    records = owner.shard.head() if renewed else owner.journal
    rows: list[Any] = [record.to_json() for record in records]
    spoiled = [_spoiled(row) if row.get("record", {}).get("model_id") == A else row for row in rows]
    assert spoiled != [record.to_json() for record in records]
    again = Shard(0, 1, write.records_from_json(spoiled))
    assert again.lost.keys() == {A}
    assert {B, CHILD} <= {record.model_id for record in again.records()}
    assert again.state.references.there(A) == 1
    assert again.state.references.published[A] == p(1)
    # What it was is written down, and the tensors go with the last who uses them.
    later = Shard(0, 1, write.records_from_json([record.to_json() for record in again.head()]))
    assert later.state == again.state
    decision = later.decide(ask.Drop(A, CHILD, p(2)))
    (effects,) = [later.apply(record) for record in decision.records]
    assert effects.segments == ((A, p(1)),)
    assert later.decide(put(A, p(9))).reply.reason == "retired"  # type: ignore[union-attr]


def test_an_unreadable_tombstone_keeps_the_id(owner: Owner) -> None:
    owner.tell(put(B, p(3)))
    owner.tell(ask.Retire(B, p(4)))
    owner.tell(ask.FinishRetirement(B, p(3)))
    rows = [
        _spoiled(row) if row["kind"] == "Tombstone" else row for row in map(write.Record.to_json, owner.shard.head())
    ]  # type: ignore[call-overload, index]
    again = Shard(0, 1, write.records_from_json(rows))
    assert again.lost.keys() == {B}
    assert again.decide(put(B, p(9))).reply.reason == "retired"  # type: ignore[union-attr]


def test_what_concerns_the_whole_shard_or_a_later_version_is_said(owner: Owner) -> None:
    rows = [record.to_json() for record in owner.journal]
    with pytest.raises(CorruptRecord):
        write.records_from_json([*rows, {"kind": "Generation", "generation": "two"}])
    with pytest.raises(LaterVersion):
        write.records_from_json([*rows, {"kind": "Invented", "model": A}])


def test_a_lost_model_under_its_next_owner(owner: Owner) -> None:
    owner.journal.append(replace(write.Published(B, p(3), {"user:kept": p(3)})))
    assert owner.reopened(2).state.find(B) is not None
