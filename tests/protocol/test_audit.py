"""The audit: who is asked, what goes, what verify reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from daskevo.protocol import messages as ask
from daskevo.protocol import replies as say
from daskevo.protocol.audit import claims_of, differences, drops_all, question_to_home, remedies
from daskevo.protocol.owner_map import OwnerEntry
from daskevo.protocol.shard import Shard
from daskevo.protocol.snapshot import FileView, ShardSnapshot
from daskevo.types import Attempt, ModelId, Tick
from tests.protocol.checker.actors import make_record

A, B = ModelId("a"), ModelId("b")
P1, P2, P3 = (Attempt(1, counter) for counter in (1, 2, 3))
BOTH = frozenset({0, 1})


def do(shard: Shard, message: ask.Message) -> say.Reply:
    decision = shard.decide(message)
    for record in decision.records:
        shard.apply(record)
    return decision.reply


@pytest.fixture
def shard() -> Shard:
    """Model `a`, and bits of the attempt (b, P2) on two of its tensors."""
    shard = Shard(0, 1)
    do(shard, ask.Put(make_record(A, P1, {}, None), {"user:x": P1}, 1))
    do(shard, ask.Refer(A, B, P2, BOTH))
    return shard


def publish_b(shard: Shard) -> None:
    record = make_record(B, P2, {0: OwnerEntry(A, 0, "0" * 32, 1)}, A)
    do(shard, ask.Put(record, {"user:x": P2}, 1))


def test_bits_staged_parts_and_unnamed_files_are_asked_about_but_not_own_bits(shard: Shard) -> None:
    do(shard, ask.Stage(make_record(B, P3, {}, None), 1))
    files = (FileView(A, P1), FileView(B, P3), FileView(B, Tick(1, 9)))
    assert claims_of(shard.snapshot(files)) == [(B, P2), (B, P3), (B, Tick(1, 9))]


def test_a_reader_needs_no_home() -> None:
    assert question_to_home((None, P1)) is None
    assert question_to_home((B, P1)) == ask.Abort(B, P1)
    assert drops_all((None, P1), None)


@pytest.mark.parametrize(
    ("answer", "drops"),
    [
        (None, []),
        (say.Verdict("aborted", P2), [ask.Drop(A, B, P2, BOTH)]),
        (say.Verdict("aborted", P3), []),
        (say.Verdict("retired", P2), [ask.Drop(A, B, P2, BOTH)]),
        (say.Verdict("retiring", P2, {A: frozenset({0})}), []),
        (say.Verdict("lost", P2), []),
        (say.Verdict("published", P2, {A: frozenset({0})}), [ask.Drop(A, B, P2, frozenset({1}))]),
        (say.Verdict("published", P2, {A: BOTH}), []),
        (say.Verdict("published", P2), [ask.Drop(A, B, P2, BOTH)]),
        (say.Refused("unknown"), []),
    ],
)
def test_what_homes_answer_decides_what_goes(shard: Shard, answer: say.Reply | None, drops: list[ask.Drop]) -> None:
    snapshot = shard.snapshot()
    assert list(remedies(snapshot, {P2}, {(B, P2): answer}).drops) == drops
    assert not remedies(snapshot, set(), {(B, P2): say.Verdict("aborted", P2)}).drops


def test_a_repair_gives_up_what_homes_have_lost_and_only_that(shard: Shard) -> None:
    snapshot = shard.snapshot()

    def drops(answer: say.Reply | None, over: set[Tick]) -> list[ask.Drop]:
        return list(remedies(snapshot, over, {(B, P2): answer}, give_up_lost=True).drops)

    assert drops(say.Verdict("lost", P2), {P2}) == [ask.Drop(A, B, P2, BOTH)]
    assert drops(say.Verdict("lost", P2), set()) == []  # it is live: who trains may still read
    for answer in (None, say.Verdict("lost", P3), say.Verdict("published", P2, {A: BOTH}), say.Refused("unknown")):
        assert drops(answer, {P2}) == []


def test_a_stray_file_goes_only_when_its_attempt_is_over_and_aborted(shard: Shard) -> None:
    files = (FileView(A, P1), FileView(B, P3))
    snapshot = shard.snapshot(files)
    aborted, published = say.Verdict("aborted", P3), say.Verdict("published", P3)
    assert remedies(snapshot, {P3}, {(B, P3): aborted}).files == ((B, P3),)
    assert remedies(snapshot, set(), {(B, P3): aborted}).files == ()
    assert remedies(snapshot, {P3}, {(B, P3): published}).files == ()
    assert remedies(snapshot, {P3}, {}).files == ()


def kinds(*snapshots: ShardSnapshot, over: frozenset[Tick] = frozenset({P1, P2, P3})) -> list[str]:
    return sorted(difference.kind for difference in differences(snapshots, over))


def test_nothing_is_different_at_rest(shard: Shard) -> None:
    publish_b(shard)
    do(shard, ask.Drop(A, B, P2, frozenset({1})))
    files = (FileView(A, P1), FileView(B, P2))
    assert kinds(shard.snapshot(files)) == []


def test_leftovers_are_reported_once_their_attempt_is_over(shard: Shard) -> None:
    do(shard, ask.Stage(make_record(B, P3, {}, None), 1))
    snapshot = shard.snapshot((FileView(A, P1), FileView(B, P3), FileView(B, P2)))
    assert kinds(snapshot) == ["leftover file", "leftover reference", "leftover staged"]
    assert kinds(snapshot, over=frozenset()) == []


def test_bits_that_a_published_map_does_not_use_are_leftovers(shard: Shard) -> None:
    publish_b(shard)
    assert kinds(shard.snapshot()) == ["leftover reference"]


def test_missing_bits_tensors_and_files_are_reported(shard: Shard) -> None:
    publish_b(shard)
    do(shard, ask.Drop(A, B, P2))
    assert kinds(shard.snapshot()) == ["missing reference"]
    do(shard, ask.Retire(A, P3))
    do(shard, ask.FinishRetirement(A, P1))
    assert kinds(shard.snapshot()) == ["missing reference", "missing tensor"]
    assert kinds(replace(shard.snapshot(()), bits=shard.snapshot().bits)) == [
        "missing file",
        "missing reference",
        "missing tensor",
    ]


def test_an_unfinished_retirement_is_reported(shard: Shard) -> None:
    do(shard, ask.Drop(A, B, P2))
    do(shard, ask.Retire(A, P3))
    assert kinds(shard.snapshot()) == ["unfinished retirement"]


def test_snapshots_survive_the_wire(shard: Shard) -> None:
    publish_b(shard)
    do(shard, ask.Stage(make_record(B, P3, {}, None), 1))
    snapshot = shard.snapshot((FileView(A, P1),))
    assert ShardSnapshot.from_wire(snapshot.to_wire()) == snapshot
