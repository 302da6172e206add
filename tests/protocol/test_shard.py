"""The shard's state machine: one test per rule of the protocol that homes and owners keep."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from daskevo.errors import CorruptRecord, InvalidInput, RepositoryTaken
from daskevo.protocol import messages as ask
from daskevo.protocol import records as write
from daskevo.protocol import replies as say
from daskevo.protocol.owner_map import OwnerEntry, OwnerMap
from daskevo.protocol.shard import Decision, Shard
from daskevo.protocol.state import Effects, Retirement
from daskevo.types import Attempt, ModelId, Tick
from tests.protocol.checker.actors import make_record

A, B, C = ModelId("a"), ModelId("b"), ModelId("c")
ALL = frozenset({0, 1, 2})


def p(counter: int, generation: int = 1) -> Attempt:
    return Attempt(generation, counter)


def do(shard: Shard, message: ask.Message) -> tuple[Decision, list[Effects]]:
    decision = shard.decide(message)
    return decision, [shard.apply(record) for record in decision.records]


def answer(shard: Shard, message: ask.Message) -> say.Reply:
    return do(shard, message)[0].reply


def put(
    shard: Shard, model: ModelId, attempt: Attempt, *labels: str, inherited: dict[int, ModelId] | None = None
) -> None:
    entries = {number: OwnerEntry(owner, number, "0" * 32, 1) for number, owner in (inherited or {}).items()}
    record = make_record(model, attempt, entries, None)
    ticks = dict.fromkeys(labels or ("user:kept",), attempt)
    assert answer(shard, ask.Put(record, ticks, 1)) == say.Verdict("published", attempt, record.inherited)


@pytest.fixture
def shard() -> Shard:
    """A shard under generation 1 with the published model `a`."""
    shard = Shard(0, 1)
    put(shard, A, p(1))
    return shard


def reopened(shard: Shard, generation: int = 1) -> Shard:
    return Shard(shard.number, generation, [write.record_from_json(record.to_json()) for record in shard.head()])


# Reservations


def test_refer_reserves_and_says_where_to_read(shard: Shard) -> None:
    decision, _ = do(shard, ask.Refer(A, B, p(2), ALL))
    assert decision.reply == say.Reserved(A, p(1))
    assert decision.flush
    assert decision.check


def test_refer_is_refused_as_gone_if_one_tensor_is_missing(shard: Shard) -> None:
    do(shard, ask.Refer(A, B, p(2), frozenset({0})))
    do(shard, ask.Retire(A, p(3)))
    decision, _ = do(shard, ask.Refer(A, C, p(4), frozenset({0, 1})))
    assert decision.reply == say.Refused("gone", missing=frozenset({1}))
    assert not decision.records
    assert answer(shard, ask.Refer(A, C, p(4), frozenset({0}))) == say.Reserved(A, p(1))


def test_refer_to_a_model_that_is_only_staged_is_refused(shard: Shard) -> None:
    do(shard, ask.Stage(make_record(B, p(2), {}, None)))
    assert answer(shard, ask.Refer(B, C, p(3), ALL)) == say.Refused("gone", missing=ALL)


def test_refer_from_a_past_generation_is_refused(shard: Shard) -> None:
    later = reopened(shard, generation=2)
    assert answer(later, ask.Refer(A, B, p(2), ALL)) == say.Refused("over")


def test_a_model_cannot_reserve_its_own_tensors(shard: Shard) -> None:
    assert answer(shard, ask.Refer(A, A, p(2), ALL)) == say.Refused("itself")


def test_a_repeated_refer_waits_for_the_first_ones_flush(shard: Shard) -> None:
    do(shard, ask.Refer(A, B, p(2), ALL))
    decision = shard.decide(ask.Refer(A, B, p(2), frozenset({1})))
    assert decision == Decision(say.Reserved(A, p(1)), (), flush=True, check=True)


def test_two_attempts_of_one_model_never_share_bits(shard: Shard) -> None:
    for attempt in (p(2), p(3)):
        do(shard, ask.Refer(A, B, attempt, ALL))
    do(shard, ask.Retire(A, p(4)))
    assert do(shard, ask.DropAttempt(B, p(2)))[1][0] == Effects()
    (effects,) = do(shard, ask.DropAttempt(B, p(3)))[1]
    assert effects == Effects({(A, p(1)): ALL}, ((A, p(1)),))


def test_a_reader_reserves_without_a_model(shard: Shard) -> None:
    assert answer(shard, ask.Refer(A, None, p(2), ALL)) == say.Reserved(A, p(1))
    do(shard, ask.Retire(A, p(3)))
    (effects,) = do(shard, ask.DropAttempt(None, p(2)))[1]
    assert effects.segments == ((A, p(1)),)


def test_drop_takes_what_it_names_and_repeats_without_harm(shard: Shard) -> None:
    do(shard, ask.Refer(A, B, p(2), ALL))
    decision, _ = do(shard, ask.Drop(A, B, p(2), frozenset({1, 7})))
    assert decision.records == (write.Dropped(A, B, p(2), frozenset({1})),)
    assert not decision.flush
    assert shard.decide(ask.Drop(A, B, p(2), frozenset({1}))) == Decision(say.Ok())


def test_no_drop_takes_a_models_bits_on_its_own_tensors(shard: Shard) -> None:
    for message in (ask.Drop(A, A, p(1)), ask.DropAttempt(A, p(1))):
        assert shard.decide(message) == Decision(say.Ok())


# Stage and publish


def test_stage_is_invisible_and_needs_no_flush(shard: Shard) -> None:
    decision, _ = do(shard, ask.Stage(make_record(B, p(2), {}, None)))
    assert decision.reply == say.Ok()
    assert not decision.flush
    assert answer(shard, ask.Open(B)) == say.Refused("unknown")
    assert answer(shard, ask.Status(B)) == say.Standing("staged", staged=(p(2),))


def test_publish_needs_stage(shard: Shard) -> None:
    assert answer(shard, ask.Publish(B, p(2), {"user:x": p(2)})) == say.Refused("not staged")


def test_publish_is_flushed_and_makes_visible(shard: Shard) -> None:
    record = make_record(B, p(2), {}, None)
    do(shard, ask.Stage(record))
    decision, (effects,) = do(shard, ask.Publish(B, p(2), {"user:x": p(3)}))
    assert decision.flush
    assert effects.published == B
    assert answer(shard, ask.Open(B)) == say.Opened(record, ("user:x",))


def test_nothing_is_published_without_a_label() -> None:
    with pytest.raises(InvalidInput, match="at least one label"):
        ask.Publish(B, p(2), {})
    with pytest.raises(InvalidInput, match="at least one label"):
        ask.Put(make_record(B, p(2), {}, None), {})


@pytest.mark.parametrize("state", ["published", "retiring", "retired"])
def test_stage_publish_and_put_are_refused_once_another_attempt_has_won(state: str) -> None:
    shard = Shard(0, 1)
    do(shard, ask.Stage(make_record(A, p(4), {}, None)))
    put(shard, A, p(1))
    if state != "published":
        do(shard, ask.Retire(A, p(9)))
    if state == "retired":
        do(shard, ask.FinishRetirement(A, p(1)))
    late, labels = make_record(A, p(3), {}, None), {"user:x": p(5)}
    for message in (ask.Stage(late), ask.Put(late, labels), ask.Publish(A, p(4), labels)):
        reply = answer(shard, message)
        assert isinstance(reply, say.Refused)
        assert (reply.reason, reply.attempt) == (state, p(1))
        assert reply.record is not None


def test_a_repeated_publish_answers_the_same_and_changes_no_labels(shard: Shard) -> None:
    do(shard, ask.Hold(A, "best:r", p(5)))
    do(shard, ask.Release(A, "user:kept", p(6)))
    decision = shard.decide(ask.Publish(A, p(1), {"user:kept": p(1)}))
    assert decision == Decision(say.Verdict("published", p(1)), (), flush=True)
    again = shard.decide(ask.Put(make_record(A, p(1), {}, None), {"user:kept": p(1)}))
    assert again == decision


def test_stage_of_something_else_under_the_same_attempt_is_refused(shard: Shard) -> None:
    record = make_record(B, p(2), {}, None)
    do(shard, ask.Stage(record))
    assert shard.decide(ask.Stage(record)).records == ()
    assert answer(shard, ask.Stage(replace(record, step=7))) == say.Refused("differs")


# Abort


def test_abort_takes_staged_parts_and_fences(shard: Shard) -> None:
    record = make_record(B, p(2), {}, None)
    do(shard, ask.Stage(record, 1))
    decision, (effects,) = do(shard, ask.Abort(B, p(2)))
    assert decision.reply == say.Verdict("aborted", p(2))
    assert decision.flush
    assert effects.segments == ((B, p(2)),)
    assert answer(shard, ask.Stage(record)) == say.Refused("aborted")
    assert answer(shard, ask.Publish(B, p(2), {"user:x": p(2)})) == say.Refused("aborted")


def test_abort_fences_what_home_never_heard_of(shard: Shard) -> None:
    do(shard, ask.Abort(B, p(2)))
    assert answer(reopened(shard), ask.Stage(make_record(B, p(2), {}, None))) == say.Refused("aborted")


def test_abort_of_a_published_attempt_changes_nothing_and_says_what_the_map_uses(shard: Shard) -> None:
    put(shard, B, p(2), inherited={0: A})
    decision = shard.decide(ask.Abort(B, p(2)))
    assert decision == Decision(say.Verdict("published", p(2), {A: frozenset({0})}), (), flush=True)


def test_abort_of_a_loser_leaves_the_winner(shard: Shard) -> None:
    do(shard, ask.Stage(make_record(B, p(3), {}, None), 1))
    put(shard, B, p(2))
    _, (effects,) = do(shard, ask.Abort(B, p(3)))
    assert effects.segments == ((B, p(3)),)
    assert shard.state.references.published[B] == p(2)


def test_fences_go_with_their_generation_which_refuses_instead(shard: Shard) -> None:
    do(shard, ask.Abort(B, p(2)))
    do(shard, ask.Stage(make_record(B, p(3), {}, None), 1))
    later = reopened(shard, generation=2)
    assert later.opening.segments == ((B, p(3)),)
    assert not any(isinstance(record, (write.Aborted, write.Staged)) for record in later.head())
    for attempt in (p(2), p(3)):
        assert answer(later, ask.Stage(make_record(B, attempt, {}, None))) == say.Refused("over")
        assert later.decide(ask.Abort(B, attempt)) == Decision(say.Verdict("aborted", attempt), (), flush=True)


def test_files_that_were_to_go_as_their_owner_died_go_at_the_next_opening(shard: Shard) -> None:
    put(shard, B, p(2))
    do(shard, ask.Refer(B, C, p(3), frozenset({0})))
    journal = shard.head()
    for message in (ask.Retire(A, p(4)), ask.Retire(B, p(5))):
        journal += do(shard, message)[0].records
    # What others use of B keeps its file.
    assert Shard(0, 1, journal).opening.segments == ((A, p(1)),)
    assert reopened(shard).opening.segments == ()


def test_a_lost_shard_gives_no_verdict_about_attempts_from_before() -> None:
    shard = Shard(0, 1, floor=p(5))
    assert answer(shard, ask.Abort(B, p(4))) == say.Verdict("lost", p(4))
    assert answer(shard, ask.Stage(make_record(B, p(4), {}, None))) == say.Refused("over")
    assert answer(shard, ask.Refer(A, B, p(4), ALL)) == say.Refused("over")
    assert answer(shard, ask.Abort(B, p(6))) == say.Verdict("aborted", p(6))
    assert reopened(shard).state == shard.state


# Labels and retirement


def test_per_label_the_highest_tick_wins(shard: Shard) -> None:
    do(shard, ask.Release(A, "best:r", p(6)))
    assert answer(shard, ask.Hold(A, "best:r", p(5))) == say.Labelled("published", ("user:kept",))
    assert answer(shard, ask.Hold(A, "best:r", p(7))) == say.Labelled("published", ("best:r", "user:kept"))
    assert answer(shard, ask.Release(A, "best:r", p(6))) == say.Labelled("published", ("best:r", "user:kept"))
    assert answer(reopened(shard), ask.Release(A, "best:r", p(6))) == say.Labelled("published", ("best:r", "user:kept"))


def test_hold_and_release_are_flushed_even_if_repeated(shard: Shard) -> None:
    for message in (ask.Hold(A, "best:r", p(5)), ask.Release(A, "best:r", p(6))):
        assert do(shard, message)[0].flush
        repeated = shard.decide(message)
        assert repeated.flush
        assert not repeated.records


def test_the_last_release_retires_in_one_record(shard: Shard) -> None:
    put(shard, B, p(2), inherited={0: A})
    do(shard, ask.Refer(A, C, p(3), frozenset({1})))
    decision, (effects,) = do(shard, ask.Release(A, "user:kept", p(4)))
    assert decision.reply == say.Labelled("retiring")
    assert decision.records == (write.Retiring(A, {"user:kept": p(4)}),)
    assert decision.flush
    assert effects.freed == {(A, p(1)): frozenset({0, 2})}
    assert effects.segments == ()
    assert effects.unpublished == (A,)
    assert effects.retire == (Retirement(A, p(1), {}),)


def test_retirement_names_the_other_owners_and_is_taken_up_after_opening() -> None:
    shard = Shard(0, 1)
    put(shard, B, p(2), inherited={0: A})
    do(shard, ask.Retire(B, p(3)))
    retirement = Retirement(B, p(2), {A: frozenset({0})})
    assert reopened(shard).retiring() == [retirement]
    assert answer(shard, ask.FinishRetirement(B, p(2))) == say.Ok()
    assert shard.retiring() == []


def test_hold_is_refused_on_what_is_retiring_or_retired(shard: Shard) -> None:
    do(shard, ask.Retire(A, p(2)))
    for state in ("retiring", "retired"):
        reply = answer(shard, ask.Hold(A, "best:r", p(9)))
        assert isinstance(reply, say.Refused)
        assert reply.reason == state
        do(shard, ask.FinishRetirement(A, p(1)))


def test_a_tombstone_keeps_metrics_and_lineage(shard: Shard) -> None:
    record = replace(make_record(B, p(2), {}, A), graph="{}", extra={"note": 1}, metrics={"auc": 0.5})
    do(shard, ask.Put(record, {"user:x": p(2)}, 1))
    do(shard, ask.Retire(B, p(3)))
    do(shard, ask.FinishRetirement(B, p(2)))
    left = replace(record, graph=None, extra=None, owner_map=OwnerMap(()), own={})
    for found in (shard, reopened(shard)):
        assert answer(found, ask.Status(B)) == say.Standing("retired", left)
        assert not found.state.references.published.keys() - {A}
    assert left.ancestor == A
    assert left.metrics == {"auc": 0.5}


def test_what_heirs_use_of_a_retired_model_is_known_until_the_last_goes(shard: Shard) -> None:
    do(shard, ask.Refer(A, C, p(4), frozenset({0})))
    do(shard, ask.Retire(A, p(5)))
    do(shard, ask.FinishRetirement(A, p(1)))
    kept = shard.state.models[A].record
    assert set(kept.own) == kept.owner_map.own(A) >= {0}
    assert reopened(shard).state.models[A].record == kept
    _, (effects,) = do(shard, ask.DropAttempt(C, p(4)))
    assert effects.segments == ((A, p(1)),)
    assert list(shard.state.tombstones) == [A]
    assert reopened(shard).state == shard.state
    # Whatever comes late is answered as before.
    assert answer(shard, ask.Abort(A, p(1))) == say.Verdict("retired", p(1))
    for message in (ask.Open(A), ask.Stage(kept, None), ask.Hold(A, "best:r", p(9))):
        refused = answer(shard, message)
        assert isinstance(refused, say.Refused)
        assert (refused.reason, refused.attempt) == ("retired", p(1))
    assert answer(shard, ask.Refer(A, C, p(6), frozenset({0}))) == say.Refused("gone", missing=frozenset({0}))
    assert answer(shard, ask.FinishRetirement(A, p(1))) == say.Ok()


def test_a_head_of_before_keeps_no_more_than_the_tombstones() -> None:
    """Heads used to keep the whole record of what was retired."""
    before = make_record(A, p(1), {}, None)
    kept = write.Kept(before.tombstone(), "retired", 10, frozenset(), {}, {})
    shard = Shard(0, 1, [write.record_from_json(kept.to_json())])
    assert not shard.state.models
    assert write.Tombstone.of(before) in shard.head()


def test_a_tombstone_is_small(shard: Shard) -> None:
    put(shard, B, p(2))
    do(shard, ask.Retire(B, p(3)))
    do(shard, ask.FinishRetirement(B, p(2)))
    (stone,) = (record for record in shard.head() if isinstance(record, write.Tombstone))
    assert len(json.dumps(stone.to_json())) < 250


def test_finishing_a_retirement_that_never_was_is_refused(shard: Shard) -> None:
    assert answer(shard, ask.FinishRetirement(A, p(1))) == say.Refused("published")
    assert answer(shard, ask.FinishRetirement(B, p(1))) == say.Refused("unknown")


def test_a_late_retire_leaves_labels_held_since(shard: Shard) -> None:
    do(shard, ask.Hold(A, "best:r", p(8)))
    assert answer(shard, ask.Retire(A, p(7))) == say.Labelled("published", ("best:r",))


def test_a_label_is_released_everywhere_with_one_record(shard: Shard) -> None:
    put(shard, B, p(2), "best:r")
    put(shard, C, p(3), "best:r", "user:x")
    decision, (effects,) = do(shard, ask.ReleaseLabel("best:r", p(9)))
    assert decision.reply == say.LabelGone((B, C), (B,))
    assert len(decision.records) == 1
    assert decision.flush
    assert effects.unpublished == (B,)
    assert effects.segments == ((B, p(2)),)
    # What was held before, but arrives late, is known to be late - on models that never had the label, too.
    assert answer(reopened(shard), ask.Hold(A, "best:r", p(8))) == say.Labelled("published", ("user:kept",))
    assert answer(shard, ask.Hold(A, "best:r", p(10))) == say.Labelled("published", ("best:r", "user:kept"))
    assert shard.decide(ask.ReleaseLabel("best:r", p(9))) == Decision(say.LabelGone(), (), flush=True)


@pytest.mark.parametrize("message", [ask.Hold(B, "best:r", p(5)), ask.Release(B, "best:r", p(5)), ask.Retire(B, p(5))])
def test_labels_of_an_unknown_model_are_refused(shard: Shard, message: ask.Message) -> None:
    assert answer(shard, message) == say.Refused("unknown")


# Opening


def test_only_open_is_answered_without_a_check(shard: Shard) -> None:
    record = make_record(B, p(2), {}, None)
    messages = [
        ask.Status(A),
        ask.Refer(A, B, p(2), ALL),
        ask.Refer(B, C, p(2), ALL),
        ask.Drop(A, B, p(2)),
        ask.DropAttempt(B, p(2)),
        ask.Stage(record),
        ask.Publish(B, p(2), {"user:x": p(2)}),
        ask.Put(record, {"user:x": p(2)}),
        ask.Abort(B, p(2)),
        ask.Hold(A, "user:y", p(3)),
        ask.Release(A, "user:y", p(3)),
        ask.ReleaseLabel("user:y", p(3)),
        ask.Retire(A, p(3)),
        ask.FinishRetirement(A, p(1)),
    ]
    assert all(shard.decide(message).check for message in messages)
    assert not shard.decide(ask.Open(A)).check
    assert not shard.decide(ask.Open(B)).check


def test_an_older_generation_cannot_open(shard: Shard) -> None:
    with pytest.raises(RepositoryTaken, match="generation 2"):
        reopened(reopened(shard, generation=2), generation=1)


def test_what_is_no_message_is_refused(shard: Shard) -> None:
    with pytest.raises(InvalidInput, match="can't be asked"):
        shard.decide(ask.Message())


def test_a_record_of_no_known_kind_is_corrupt(shard: Shard) -> None:
    with pytest.raises(CorruptRecord):
        Shard(0, 1, [*shard.head(), write.Record()])


@pytest.mark.parametrize("separate", [False, True])
def test_a_put_that_comes_after_its_label_has_ended_is_retired_as_it_comes(shard: Shard, separate: bool) -> None:
    record = make_record(B, p(2), {}, None)
    labels = {"best:r": p(3)}
    do(shard, ask.ReleaseLabel("best:r", p(4)))
    if separate:
        do(shard, ask.Stage(record, 1))
    message = ask.Publish(B, p(2), labels) if separate else ask.Put(record, labels, 1)
    decision, effects = do(shard, message)
    assert decision.reply == say.Verdict("retiring", p(2))
    assert effects[-1].published is None
    assert effects[-1].segments == ((B, p(2)),)
    assert [retirement.model for retirement in effects[-1].retire] == [B]
    assert reopened(shard).state == shard.state
    # Said again, the answer is the same.
    assert answer(shard, message) == decision.reply


def test_a_put_keeps_the_labels_that_have_not_ended(shard: Shard) -> None:
    do(shard, ask.ReleaseLabel("best:r", p(4)))
    labels = {"best:r": p(3), "user:x": p(3)}
    assert answer(shard, ask.Put(make_record(B, p(2), {}, None), labels, 1)) == say.Verdict("published", p(2))
    assert shard.state.models[B].held == {"user:x": p(3)}
    # A put that took its tick after the end holds the label anew.
    assert answer(shard, ask.Put(make_record(C, p(5), {}, None), {"best:r": p(6)}, 1)) == say.Verdict("published", p(5))


def test_ticks_of_other_generations_order_labels(shard: Shard) -> None:
    later = reopened(shard, generation=2)
    do(later, ask.Hold(A, "best:r", Tick(2, 1)))
    assert answer(later, ask.Release(A, "best:r", Tick(1, 99))) == say.Labelled("published", ("best:r", "user:kept"))
