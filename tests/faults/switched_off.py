"""The protocol with one of its rules left out at a time, to see that the exploration finds what is lost then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from daskevo.protocol import messages as ask
from daskevo.protocol import records as write
from daskevo.protocol import replies as say
from daskevo.protocol.coordinator import Coordinator
from daskevo.protocol.holders import Holder
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.references import Segment, numbers_in
from daskevo.protocol.shard import Decision, Shard
from daskevo.protocol.state import Effects, ShardState
from daskevo.types import Attempt, ModelId, Tick
from tests.protocol.checker import Behaviour, World
from tests.protocol.checker.exhaustive.system import System
from tests.protocol.checker.servers import ServerRules


def _unflushed(kind: type[write.Record]) -> ServerRules:
    def decide(shard: Shard, message: ask.Message) -> Decision:
        decision = shard.decide(message)
        return replace(decision, flush=False) if any(isinstance(r, kind) for r in decision.records) else decision

    return ServerRules(decide=decide)


def _refer_without_looking(shard: Shard, message: ask.Message) -> Decision:
    decision = shard.decide(message)
    owner = shard.state.find(message.owner) if isinstance(message, ask.Refer) else None
    if not isinstance(message, ask.Refer) or owner is None:
        return decision
    if not isinstance(decision.reply, say.Refused) or decision.reply.reason != "gone":
        return decision
    there = message.numbers - decision.reply.missing
    records = (write.Referred(message.owner, message.model, message.attempt, there),) if there else ()
    return Decision(say.Reserved(message.owner, owner.record.attempt), records, flush=True)


def _no_fence_for_unheard(shard: Shard, message: ask.Message) -> Decision:
    decision = shard.decide(message)
    if isinstance(message, ask.Abort) and message.attempt not in shard.state.staged.get(message.model, {}):
        return replace(decision, records=())
    return decision


def _last_message_decides_label(shard: Shard, message: ask.Message) -> Decision:
    decision = shard.decide(message)
    if isinstance(message, (ask.Hold, ask.Release)):
        model = shard.state.models.get(message.model)
        if model is not None and model.state == "published":
            if isinstance(message, ask.Hold):
                record = write.LabelHeld(message.model, message.label, message.tick)
                return Decision(decision.reply, (record,), flush=True)
            return shard._release(message.model, model, {message.label: message.tick})
    return decision


def _late_publish_changes_labels(shard: Shard, message: ask.Message) -> Decision:
    decision = shard.decide(message)
    again = isinstance(decision.reply, say.Verdict) and decision.reply.state == "published" and not decision.records
    if isinstance(message, ask.Publish) and again:
        held = (write.LabelHeld(message.model, label, tick) for label, tick in message.labels.items())
        return replace(decision, records=tuple(held))
    return decision


def _older_generations_may_hold(shard: Shard, message: ask.Message) -> Decision:
    decision = shard.decide(message)
    if isinstance(message, ask.Hold) and decision.reply == say.Refused("over"):
        labels = tuple(sorted({*shard.state.models[message.model].held, message.label}))
        record = write.LabelHeld(message.model, message.label, message.tick)
        return Decision(say.Labelled("published", labels), (record,), flush=True)
    return decision


def _put_holds_ended_labels(shard: Shard, message: ask.Message) -> Decision:
    decision = shard.decide(message)
    if isinstance(message, (ask.Publish, ask.Put)) and decision.records:
        *before, published = decision.records
        assert isinstance(published, write.Published)
        records = (*before, replace(published, labels=message.labels))
        return replace(decision, records=records, reply=replace(decision.reply, state="published"))  # type: ignore[type-var]
    return decision


def _drop_own_bits_later(shard: Shard, message: ask.Message) -> Decision:
    decision = shard.decide(message)
    records = list(decision.records)
    for record in decision.records:
        retiring: list[ModelId] = []
        if isinstance(record, write.Retiring):
            retiring = [record.model]
        elif isinstance(record, write.LabelEnded):
            retiring = [model for model, last in shard.state.holders(record.label, record.tick).items() if last]
        for model in retiring:
            claim = (model, shard.state.models[model].record.attempt)
            own = shard.state.references.of(model, claim)
            records += [write.Dropped(model, *claim, numbers_in(own))] if own else []
    return replace(decision, records=tuple(records))


class _Without(Shard):
    """A shard that never refuses for one reason."""

    reasons: tuple[str, ...] = ()

    def _refuse_attempt(self, model_id: ModelId, attempt: Attempt) -> say.Refused | None:
        refusal = super()._refuse_attempt(model_id, attempt)
        return None if refusal is not None and refusal.reason in self.reasons else refusal


class _WithoutFences(_Without):
    reasons = ("aborted",)


class _WithoutGenerations(_Without):
    reasons = ("over",)


class _SecondPublishWins(_Without):
    reasons = ("published",)


class _StageAfterPublish(Shard):
    def _refuse_to_stage(self, record: ModelRecord) -> say.Refused | None:
        refusal = super()._refuse_to_stage(record)
        taken = refusal is not None and refusal.reason in ("published", "retiring", "retired")
        return None if taken else refusal


class _HeedsEverybody(Shard):
    def heeds(self, generation: float) -> bool:
        return True


class _FencesNotInHead(Shard):
    def head(self) -> list[write.Record]:
        return [record for record in super().head() if not isinstance(record, write.Aborted)]


class _RetiringKeepsOwnBits(ShardState):
    def _retire(self, model_id: ModelId, labels: dict[str, Tick]) -> Effects:  # type: ignore[override]
        claim = (model_id, self.models[model_id].record.attempt)
        own = self.references.of(model_id, claim)
        effects = super()._retire(model_id, labels)
        if own:
            self.references.alive.setdefault(claim, 0)
            self.references.alive[claim] |= own
            self.references.add(model_id, claim, own)
        return replace(effects, freed={}, segments=())


class _RetiringInTwoRecords(Shard):
    state_class = _RetiringKeepsOwnBits


class _NoTombstone(Shard):
    def apply(self, record: write.Record) -> Effects:
        effects = super().apply(record)
        self.state.tombstones.clear()
        return effects


class _ReleasedTicksForgotten(Shard):
    def apply(self, record: write.Record) -> Effects:
        effects = super().apply(record)
        for model in self.state.models.values():
            model.released.clear()
        return effects


class _SharedAttempts(Coordinator):
    def begin(self, holder: Holder, model: ModelId | None, *, live: bool) -> Attempt | None:
        for attempt, (_, other) in self.live().items():
            if live and model is not None and other == model:
                return attempt
        return super().begin(holder, model, live=live)


class _EndedMayBegin(Coordinator):
    def begin(self, holder: Holder, model: ModelId | None, *, live: bool) -> Attempt | None:
        self._ended.clear()
        return super().begin(holder, model, live=True)


class _OldGenerationsNotOver(Coordinator):
    def over(self, attempts: Iterable[Attempt]) -> list[bool]:
        asked = list(attempts)
        answers = super().over(asked)
        return [o and p.generation == self.generation for p, o in zip(asked, answers, strict=True)]


def _renewed_without(kind: type[write.Record]) -> ServerRules:
    def head(shard: Shard) -> list[write.Record]:
        return [record for record in shard.head() if not isinstance(record, kind)]

    return ServerRules(renewed_head=head)


def _what_published_maps_use(shard: Shard, segment: Segment) -> int:
    owner, mask = segment[0], 0
    for model, attempt in shard.state.references.bits.get(owner, {}):
        home = None if model is None else shard.state.find(model)
        if home is not None and home.state == "published" and home.record.attempt == attempt:
            mask |= shard.state.references.of(owner, (model, attempt))
    return mask


@dataclass(frozen=True)
class Rules:
    """What shards, actors and coordinator keep to: all rules but one."""

    servers: ServerRules | None = None
    behaviour: Behaviour | None = None
    coordinator: type[Coordinator] = Coordinator

    def world(self) -> World:
        """Return a world under these rules, with two shards."""
        return World(2, self.servers, self.behaviour, self.coordinator)

    def system(self) -> System:
        """Return a system under these rules, with two shards."""
        return System(2, self.servers, self.behaviour, self.coordinator)


SWITCHED_OFF: dict[str, Rules] = {
    "refer refuses what is not there": Rules(ServerRules(decide=_refer_without_looking)),
    "refer is flushed": Rules(_unflushed(write.Referred)),
    "gone: next match under a new attempt": Rules(behaviour=Behaviour(new_attempt_after_gone=False)),
    "stage is refused if aborted": Rules(ServerRules(shard=_WithoutFences)),
    "stage is refused if over by generation": Rules(ServerRules(shard=_WithoutGenerations)),
    "stage is refused if published": Rules(ServerRules(shard=_StageAfterPublish)),
    "first publish wins": Rules(ServerRules(shard=_SecondPublishWins)),
    "published is flushed": Rules(_unflushed(write.Published)),
    "the segment is there before stage": Rules(behaviour=Behaviour(segment_before_stage=False)),
    "a late publish changes no labels": Rules(ServerRules(decide=_late_publish_changes_labels)),
    "narrow after publish": Rules(behaviour=Behaviour(narrow_after_publish=False)),
    "abort before drops": Rules(behaviour=Behaviour(abort_before_drops=False, retries=1)),
    "who leaves ends its put before anything is dropped": Rules(behaviour=Behaviour(leaving_ends_put=False)),
    "abort fences what home never heard of": Rules(ServerRules(decide=_no_fence_for_unheard)),
    "aborted is flushed": Rules(_unflushed(write.Aborted)),
    "fences are kept": Rules(ServerRules(shard=_FencesNotInHead)),
    "attempts are never shared": Rules(coordinator=_SharedAttempts),
    "ended is final": Rules(coordinator=_EndedMayBegin),
    "older generations are over": Rules(coordinator=_OldGenerationsNotOver),
    "the highest tick decides about a label": Rules(ServerRules(decide=_last_message_decides_label)),
    "removed labels leave their tick": Rules(ServerRules(shard=_ReleasedTicksForgotten)),
    "a label that has ended is not held by a late put": Rules(ServerRules(decide=_put_holds_ended_labels)),
    "hold is refused to older generations": Rules(ServerRules(decide=_older_generations_may_hold)),
    "hold is flushed": Rules(_unflushed(write.LabelHeld)),
    "release is flushed": Rules(_unflushed(write.LabelsReleased)),
    "retiring is flushed": Rules(_unflushed(write.Retiring)),
    "a label's end is flushed": Rules(_unflushed(write.LabelEnded)),
    "retiring and the drop of own bits are one record": Rules(
        ServerRules(decide=_drop_own_bits_later, shard=_RetiringInTwoRecords)
    ),
    "an owner that did not answer a retirement is asked again": Rules(
        behaviour=Behaviour(retirement_tries_again=False)
    ),
    "the id is never used again": Rules(ServerRules(shard=_NoTombstone)),
    "settling aborts first": Rules(behaviour=Behaviour(settle_aborts_first=False)),
    "audit: live, no verdict": Rules(behaviour=Behaviour(live_gets_no_verdict=False)),
    "audit: no answer, no verdict": Rules(behaviour=Behaviour(silence_is_no_verdict=False)),
    "audit: published, drop what the map does not use": Rules(behaviour=Behaviour(drops_unused_of_published=False)),
    "files go only by a verdict": Rules(behaviour=Behaviour(files_need_a_verdict=False)),
    "check before the answer": Rules(ServerRules(check_epoch=False)),
    "only the highest journal is read": Rules(ServerRules(read_highest_journal_only=False), Behaviour(retries=1)),
    "a renewed journal has what is staged": Rules(_renewed_without(write.Staged)),
    "a renewed journal has the tombstones": Rules(_renewed_without(write.Tombstone)),
    "a renewed journal has the references": Rules(_renewed_without(write.Referred)),
    "a journal is renewed under the next number": Rules(ServerRules(renew_under_next_number=False)),
    "messages wait while a journal is renewed": Rules(ServerRules(messages_wait_for_renewal=False)),
    "records go to the renewed journal": Rules(ServerRules(go_on_in_renewed=False)),
    "what is reserved is written anew": Rules(ServerRules(rewritten=_what_published_maps_use)),
    "what died is flushed before a file is written anew": Rules(
        ServerRules(flush_before_rewriting=False), Behaviour(retries=1, separate_publish=False)
    ),
    "a coordinator that is past has no shard closed": Rules(ServerRules(shard=_HeedsEverybody)),
}

FOUND_BY: dict[str, str] = {
    "refer refuses what is not there": "twice",
    "refer is flushed": "restarted",
    "gone: next match under a new attempt": "next_best",
    "stage is refused if aborted": "ended_goes_on",
    "stage is refused if over by generation": "restarted",
    "stage is refused if published": "used_again",
    "first publish wins": "twice",
    "published is flushed": "ended_early",
    "the segment is there before stage": "released_after_put",
    "a late publish changes no labels": "released_after_put",
    "narrow after publish": "next_best",
    "abort before drops": "restarted",
    "who leaves ends its put before anything is dropped": "left_during_put",
    "abort fences what home never heard of": "ended_goes_on",
    "aborted is flushed": "ended_goes_on",
    "fences are kept": "ended_goes_on",
    "attempts are never shared": "twice",
    "ended is final": "ended_early",
    "older generations are over": "restarted",
    "the highest tick decides about a label": "labels",
    "removed labels leave their tick": "released_after_put",
    "a label that has ended is not held by a late put": "label_ends_during_put",
    "hold is flushed": "label_ends",
    "release is flushed": "label_ends",
    "retiring is flushed": "lineage",
    "a label's end is flushed": "label_ends",
    "retiring and the drop of own bits are one record": "restarted",
    "an owner that did not answer a retirement is asked again": "next_best",
    "the id is never used again": "released_after_put",
    "settling aborts first": "ended_goes_on",
    "audit: live, no verdict": "audited_in_training",
    "audit: no answer, no verdict": "audited",
    "audit: published, drop what the map does not use": "restarted",
    "files go only by a verdict": "audited_in_training",
    "check before the answer": "restarted",
    "only the highest journal is read": "moved",
}
"""The scenario in which some single fault (or none at all) shows what is lost without the rule, where one can."""

SHORTEST: dict[str, tuple[str, dict[str, int]]] = {
    "refer refuses what is not there": ("twice", {}),
    "refer is flushed": ("restarted", {"crash": 1}),
    "gone: next match under a new attempt": ("next_best", {"late": 1}),
    "stage is refused if aborted": ("ended_goes_on", {}),
    "stage is refused if over by generation": ("restarted", {"late": 1}),
    "stage is refused if published": ("used_again", {"late": 1}),
    "first publish wins": ("twice", {}),
    "published is flushed": ("ended_early", {"crash": 1}),
    "the segment is there before stage": ("released_after_put", {}),
    "a late publish changes no labels": ("released_after_put", {"double": 1}),
    "narrow after publish": ("next_best", {}),
    "abort before drops": ("restarted", {"late": 1}),
    "who leaves ends its put before anything is dropped": ("left_during_put", {}),
    "abort fences what home never heard of": ("ended_goes_on", {}),
    "aborted is flushed": ("ended_goes_on", {"crash": 1}),
    "fences are kept": ("ended_goes_on", {"crash": 1}),
    "attempts are never shared": ("twice", {}),
    "ended is final": ("ended_early", {"kill": 1}),
    "older generations are over": ("restarted", {"kill": 1}),
    "the highest tick decides about a label": ("labels", {}),
    "removed labels leave their tick": ("released_after_put", {}),
    "a label that has ended is not held by a late put": ("label_ends_during_put", {}),
    "hold is refused to older generations": ("labels", {"restart": 1, "late": 1}),
    "hold is flushed": ("label_ends", {"crash": 1}),
    "release is flushed": ("label_ends", {"crash": 1}),
    "retiring is flushed": ("next_best", {"crash": 1}),
    "a label's end is flushed": ("label_ends", {"crash": 1}),
    "retiring and the drop of own bits are one record": ("restarted", {"crash": 1}),
    "an owner that did not answer a retirement is asked again": ("next_best", {"late": 1}),
    "the id is never used again": ("released_after_put", {}),
    "settling aborts first": ("ended_goes_on", {}),
    "audit: live, no verdict": ("audited_in_training", {}),
    "audit: no answer, no verdict": ("audited", {"crash": 1}),
    "audit: published, drop what the map does not use": ("moved", {"late": 1}),
    "files go only by a verdict": ("audited_in_training", {}),
    "check before the answer": ("restarted", {"cut": 1}),
    "only the highest journal is read": ("moved", {"cut": 1}),
    "a renewed journal has what is staged": ("released_after_put", {"renew": 1}),
    "a renewed journal has the tombstones": ("used_again", {"renew": 1, "crash": 1}),
    "a renewed journal has the references": ("moved", {"renew": 1, "crash": 1}),
    "a journal is renewed under the next number": ("moved", {"renew": 1, "cut": 1}),
    "messages wait while a journal is renewed": ("moved", {"renew": 1}),
    "records go to the renewed journal": ("moved", {"renew": 1}),
    "what is reserved is written anew": ("ended_goes_on", {"rewrite": 1}),
    "what died is flushed before a file is written anew": ("given_back", {"rewrite": 1, "crash": 1}),
    "a coordinator that is past has no shard closed": ("restarted", {"outlive": 1}),
}
"""The scenario, and the faults by kind, among all whose states a shortest way to a broken promise is found."""
