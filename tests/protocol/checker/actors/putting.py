"""How a model comes to be: begin, open, reserve, train, stage, publish, narrow, end; and how a put gives up."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from daskevo.protocol import messages as ask
from daskevo.protocol import replies as say
from daskevo.protocol import scripts
from daskevo.protocol.holders import Holder
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerEntry, OwnerMap
from daskevo.types import Attempt, ModelId, TensorSpec, Tick
from tests.protocol.checker.actors import mutants
from tests.protocol.checker.actors.language import (
    Ask,
    Call,
    Do,
    Note,
    Run,
    Send,
    Stage,
    begin,
    end,
    play,
    retry,
    script,
    send_to,
)

TENSORS = 3
"""Tensors per model: 0 is inherited unchanged, 1 inherited and changed, 2 never inherited."""


@script
def put(
    stage: Stage,
    holder: Holder,
    model: ModelId,
    ancestor: ModelId | None = None,
    fallback: ModelId | None = None,
    labels: tuple[str, ...] = ("user:a",),
    *,
    left: bool = False,
) -> Run:
    """Make a model: begin, open, reserve, train, stage, publish, narrow, end. Returns put's verdict.

    `left`: whoever waits for the put is interrupted, and leaves the block that gives back, while the put is under way.
    """
    attempt = yield from begin(stage, holder, model)
    if attempt is None:
        return "not live"
    inherited: dict[int, OwnerEntry] | None = {}
    used = None
    for candidate in (ancestor, fallback):
        if candidate is None:
            continue
        inherited = yield from _reserve(stage, model, attempt, candidate)
        if inherited is not None:
            used = candidate
            break
        if stage.behaviour.new_attempt_after_gone:
            attempt = yield from begin(stage, holder, model)
            if attempt is None:
                return "not live"
    inherited = inherited or {}
    yield []  # training
    kept = {number: entry for number, entry in inherited.items() if number == 0}
    record = make_record(model, attempt, kept, used if inherited else None)
    owners = sorted({entry.owner for entry in inherited.values()})
    narrow = [
        send_to(stage, ask.Drop(owner, model, attempt, numbers))
        for owner in owners
        if (numbers := frozenset(e.number for e in inherited.values() if e.owner == owner and e not in kept.values()))
    ]
    if narrow and not stage.behaviour.narrow_after_publish:
        yield list(narrow)
    tick = yield from retry(stage, Ask("tick"))
    for label in labels:
        yield Note("issued", (model, label, tick or attempt, True))
    ticks = dict.fromkeys(labels, tick or attempt)
    if left:
        return (yield from _leave_during_put(stage, record, ticks, owners))
    answer = yield from _stage_and_publish(stage, record, ticks)
    if isinstance(answer, say.Verdict) and answer.attempt == attempt and answer.state != "aborted":
        if narrow:
            yield list(narrow)
        yield [end(attempt)]
        return "stored"
    return (yield from _give_up(stage, model, attempt, owners, answer))


def _reserve(
    stage: Stage, model: ModelId, attempt: Attempt, ancestor: ModelId
) -> Generator[Any, Any, dict[int, OwnerEntry] | None]:
    """Return the entries of tensors 0 and 1 that are reserved now; {}: no such ancestor; None: gone, given back."""
    (opened,) = yield [send_to(stage, ask.Open(ancestor))]
    if not isinstance(opened, say.Opened):
        return {}
    entries = {number: opened.record.owner_map.entries[number] for number in (0, 1)}
    wanted: dict[ModelId, frozenset[int]] = {}
    for entry in entries.values():
        wanted[entry.owner] = wanted.get(entry.owner, frozenset()) | {entry.number}
    answers = yield [send_to(stage, ask.Refer(o, model, attempt, n)) for o, n in wanted.items()]
    if all(isinstance(answer, say.Reserved) for answer in answers):
        yield Note("reserved", (model, attempt, wanted))
        return entries
    run = scripts.give_back(model, attempt, wanted)
    if not stage.behaviour.new_attempt_after_gone:
        run = mutants.without_end(run)
    yield from play(stage, run)
    return None


def _stage_and_publish(stage: Stage, record: ModelRecord, labels: dict[str, Tick]) -> Generator[Any, Any, Any]:
    home = stage.home(record.model_id)
    segment = (record.model_id, record.attempt)
    if stage.behaviour.segment_before_stage:
        yield Do("write", (home, segment))
        yield []  # written, and not yet staged
    if not stage.behaviour.separate_publish:
        answer = yield from retry(stage, Send(home, ask.Put(record, labels, 1)))
    else:
        answer = yield from retry(stage, Send(home, ask.Stage(record, 1)))
        if isinstance(answer, say.Ok):
            answer = yield from retry(stage, Send(home, ask.Publish(record.model_id, record.attempt, labels)))
    if not stage.behaviour.segment_before_stage:
        yield Do("write", (home, segment))
    return answer


def _leave_during_put(stage: Stage, record: ModelRecord, labels: dict[str, Tick], owners: list[ModelId]) -> Run:
    model, attempt = record.model_id, record.attempt
    home = stage.home(model)
    yield Do("write", (home, (model, attempt)))
    yield []  # written, and not yet staged
    yield Note("given_back", (attempt,))
    leaving: list[Call] = [end(attempt, settled=False)]
    if not stage.behaviour.leaving_ends_put:
        leaving = [*(send_to(stage, ask.Drop(owner, model, attempt)) for owner in owners), end(attempt)]
    yield [Send(home, ask.Put(record, labels, 1)), *leaving]
    return "left"


def _give_up(stage: Stage, model: ModelId, attempt: Attempt, owners: list[ModelId], answer: Any) -> Run:
    drops = [send_to(stage, ask.Drop(owner, model, attempt)) for owner in owners]
    yield Note("given_back", (attempt,))
    if not stage.behaviour.abort_before_drops and drops:
        yield drops
    verdict = yield from retry(stage, send_to(stage, ask.Abort(model, attempt)))
    if not isinstance(verdict, say.Verdict):
        yield [end(attempt, settled=False)]
        return "unknown"
    if verdict.state == "aborted" and drops:
        yield drops
    yield [end(attempt)]
    if verdict.state != "aborted":
        return "stored"
    by_another = isinstance(answer, say.Refused) and answer.reason in ("published", "retiring", "retired")
    return "stored by another" if by_another else "failed"


def make_record(
    model: ModelId, attempt: Attempt, inherited: dict[int, OwnerEntry], ancestor: ModelId | None
) -> ModelRecord:
    """Return the record of a model with three tensors, of which `inherited` are somebody else's."""
    entries = [inherited.get(number, OwnerEntry(model, number, "0" * 32, 1)) for number in range(TENSORS)]
    own = {number: TensorSpec((2,), "float32") for number in range(TENSORS) if number not in inherited}
    return ModelRecord(model, attempt, "scope", None, OwnerMap.of(entries), own, attempt, ancestor=ancestor)
