"""How a model comes to be: begin, open, reserve, train, put."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Literal

from daskevo.errors import AttemptOver
from daskevo.protocol import messages as ask
from daskevo.protocol import replies as say
from daskevo.protocol import scripts
from daskevo.protocol.holders import Holder
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerEntry, OwnerMap
from daskevo.protocol.scripts import PutOutcome
from daskevo.protocol.steps import Begin, End, Find, Reserve, Script, Together
from daskevo.types import Attempt, ModelId, TensorSpec
from tests.protocol.checker.actors.language import (
    Ask,
    Call,
    Do,
    Note,
    Run,
    Send,
    Stage,
    begin,
    changed,
    end,
    play,
    refer,
    refers,
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
    left: Literal["", "reserving", "putting"] = "",
) -> Run:
    """Make a model: begin, open, reserve, train, put. Returns put's verdict.

    `left`: whoever waits is interrupted while these messages are under way.
    """
    search = _Search([candidate for candidate in (ancestor, fallback) if candidate is not None])
    reserving = _reserving(stage, scripts.reserve(model, again=True), holder, model, search, left == "reserving")
    try:
        attempt = yield from play(stage, reserving)
    except AttemptOver:
        return "not live"
    except asyncio.CancelledError:
        return "left"
    inherited = search.entries
    yield []  # training
    kept = {number: entry for number, entry in inherited.items() if number == 0}
    record = make_record(model, attempt, kept, search.ancestor if inherited else None)
    owners = sorted({entry.owner for entry in inherited.values()})
    unused = {
        owner: numbers
        for owner in owners
        if (numbers := frozenset(e.number for e in inherited.values() if e.owner == owner and e not in kept.values()))
    }
    tick = yield from retry(stage, Ask("tick"))
    for label in labels:
        yield Note("issued", (model, label, tick or attempt, True))
    ticks = dict.fromkeys(labels, tick or attempt)
    message = ask.Put(record, ticks, 1)
    run = scripts.put(message, owners, unused)
    del search
    if stage.behaviour.segment_before_stage:
        yield Do("write", (stage.home(model), (model, attempt)))
        yield []  # written, and not yet staged
    try:
        outcome = yield from play(stage, _under_rules(stage, run, message, owners, unused, left == "putting"))
    except asyncio.CancelledError:
        return "left"
    if outcome.state == "aborted":
        answer = outcome.answer
        by_another = isinstance(answer, say.Refused) and answer.reason in ("published", "retiring", "retired")
        return "stored by another" if by_another else "failed"
    state: str = outcome.state
    return state


@dataclass
class _Search:
    """What a writer may inherit from, and what it inherits."""

    candidates: list[ModelId]
    attempt: Attempt | None = None
    ancestor: ModelId | None = None
    entries: dict[int, OwnerEntry] = field(default_factory=dict)
    under_way: list[Send] = field(default_factory=list)
    """Messages whose answers are not waited for."""


def _reserving(
    stage: Stage, run: Script[Attempt | None], holder: Holder, model: ModelId, search: _Search, leaves: bool
) -> Script[Attempt | None]:
    """The script of an inherit as this writer carries it out: it inherits tensors 0 and 1."""
    attempts_of_their_own = stage.behaviour.new_attempt_after_gone

    def instead(step: Any) -> Generator[Any, Any, Any]:
        match step:
            case Begin():
                if search.attempt is None or attempts_of_their_own:
                    search.attempt = yield from begin(stage, holder, model)
                return search.attempt
            case Find():
                search.entries = {}
                if not search.candidates:
                    return {}
                search.ancestor = search.candidates.pop(0)
                (opened,) = yield [send_to(stage, ask.Open(search.ancestor))]
                if not isinstance(opened, say.Opened):
                    return {}
                search.entries = {number: opened.record.owner_map.entries[number] for number in (0, 1)}
                wanted: dict[ModelId, frozenset[int]] = {}
                for entry in search.entries.values():
                    wanted[entry.owner] = wanted.get(entry.owner, frozenset()) | {entry.number}
                return wanted
            case Reserve() if leaves:
                search.under_way = refers(stage, step)
                raise asyncio.CancelledError
            case Reserve():
                return (yield from refer(stage, step))
            case End(attempt, settled) if leaves:
                return (yield [*search.under_way, end(attempt, settled=settled)])
            case End() if not attempts_of_their_own:
                return None
        return (yield step)

    return changed(run, instead)


def _under_rules(
    stage: Stage,
    run: Script[PutOutcome],
    message: ask.Put,
    owners: list[ModelId],
    unused: dict[ModelId, frozenset[int]],
    leaves: bool,
) -> Script[PutOutcome]:
    """The script of a put as this writer's network carries it out, under the rules that it keeps."""
    rules, model, attempt = stage.behaviour, message.record.model_id, message.record.attempt

    def instead(step: Any) -> Generator[Any, Any, Any]:
        match step:
            case Together((ask.Put(),)) if leaves:
                raise asyncio.CancelledError
            case End(_, settled) if leaves:
                yield Note("given_back", (attempt,))
                leaving: list[Call] = [end(attempt, settled=settled)]
                if not rules.leaving_ends_put:
                    leaving = [*(send_to(stage, ask.Drop(owner, model, attempt)) for owner in owners), end(attempt)]
                return (yield [send_to(stage, message), *leaving])
            case Together((ask.Put(),)):
                if not rules.narrow_after_publish and unused:
                    yield Together(tuple(ask.Drop(owner, model, attempt, numbers) for owner, numbers in unused.items()))
                answer = yield from _stage_and_publish(stage, message)
                if not rules.segment_before_stage:
                    yield Do("write", (stage.home(model), (model, attempt)))
                return [answer]
            case Together((ask.Abort(),)):
                yield Note("given_back", (attempt,))
                if not rules.abort_before_drops and owners:
                    yield Together(tuple(ask.Drop(owner, model, attempt) for owner in owners))
                return [(yield from retry(stage, send_to(stage, step.messages[0])))]
        return (yield step)

    return changed(run, instead)


def _stage_and_publish(stage: Stage, put: ask.Put) -> Generator[Any, Any, Any]:
    home, model, attempt = stage.home(put.record.model_id), put.record.model_id, put.record.attempt
    if not stage.behaviour.separate_publish:
        return (yield from retry(stage, Send(home, put)))
    answer = yield from retry(stage, Send(home, ask.Stage(put.record, put.file_bytes)))
    if isinstance(answer, say.Ok):
        answer = yield from retry(stage, Send(home, ask.Publish(model, attempt, put.labels)))
    return answer


def make_record(
    model: ModelId, attempt: Attempt, inherited: dict[int, OwnerEntry], ancestor: ModelId | None
) -> ModelRecord:
    """Return the record of a model with three tensors, of which `inherited` are somebody else's."""
    entries = [inherited.get(number, OwnerEntry(model, number, "0" * 32, 1)) for number in range(TENSORS)]
    own = {number: TensorSpec((2,), "float32") for number in range(TENSORS) if number not in inherited}
    return ModelRecord(model, attempt, "scope", None, OwnerMap.of(entries), own, attempt, ancestor=ancestor)
