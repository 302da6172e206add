"""What can go wrong in a state, and what becomes of it; and what owners do for their folders at any time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.protocol.checker import actors
from tests.protocol.checker.actors import Do, Send
from tests.protocol.checker.exhaustive.draft import Draft
from tests.protocol.checker.exhaustive.state import FOLDER, NOWHERE, PENDING, Actor, State
from tests.protocol.checker.exhaustive.steps import FAULTS, Steps
from tests.protocol.checker.promises import BrokenPromise

Choice = tuple[Any, ...]
"""What happens: its kind, and which."""


def possible(system: Steps, state: State) -> Iterator[Choice]:
    """Yield what can go wrong now."""
    if not state.budget[-1]:
        return
    left = dict(zip(FAULTS, state.budget, strict=False))
    renewing = system.renewing(state)
    latest = system.coordinators.generation(state.coordinator)
    for index, actor in enumerate(state.actors):
        for slot, answer in enumerate(actor.answers):
            call = system.call(actor, slot)
            if answer != PENDING or isinstance(call, Do):
                continue
            if left["late"]:
                yield "late", index, slot
            waits = system.waits(state, actor, slot, renewing)
            if left["double"] and not waits:
                yield "double", index, slot
            if left["crash"] and isinstance(call, Send) and not waits:
                yield from _crashes_at(system, state, actor, call, index, slot)
        if actor.holder >= 0:
            if left["kill"]:
                yield "kill", index, False
                if any(answer == PENDING for answer in actor.answers):
                    yield "kill", index, True
            if left["end"] and system.is_live(state, system.values.values[actor.holder]):
                yield "end", index
    for shard, number in enumerate(state.places):
        place = system.places.get(number)
        if place.current is None:
            continue
        if left["crash"]:
            unflushed = 0 if place.above >= 0 else len(place.current.tail)
            yield from (("crash", shard, kept) for kept in range(unflushed + 1))
        if left["renew"] and (shard, False) not in renewing:
            yield "renew", shard
        if left["rewrite"]:
            yield from (("rewrite", shard, *half_dead) for half_dead in system.places.half_dead(number).items())
        if left["move"]:
            yield "move", shard
        if left["outlive"] and system.places.generation(number) == latest > 1:
            yield "outlive", shard
        if left["cut"]:
            yield "cut", shard, -1
            yield from (("cut", shard, index) for index, actor in enumerate(state.actors) if actor.site == NOWHERE)
    if left["restart"]:
        yield ("restart",)


def happen(system: Steps, draft: Draft, kind: str, which: list[Any]) -> None:
    """Let something go wrong, or be done for a shard's folder."""
    match kind, which:
        case "late", (index, slot):
            actor = draft.actors[index]
            draft.orphans.append(system.call_number(actor, slot))
            system.answer(draft, index, slot, system.nothing)
        case "double", (index, slot):
            draft.orphans.append(system.call_number(draft.actors[index], slot))
            system.deliver(draft, index, slot)
        case "crash", (shard, kept):
            system.crashed(draft, shard, system.places.crash(draft.places[shard], kept))
        case "move", (shard,):
            current = system.places.get(draft.places[shard]).current
            assert current is not None
            written = len(current.tail)
            system.crashed(draft, shard, system.places.crash(draft.places[shard], written))
            # At once: whoever meets nobody in between sends again.
            system.open(draft, shard)
        case "die", (index, slot, records):
            actor = draft.actors[index]
            call = system.call(actor, slot)
            assert isinstance(call, Send)
            number = system.call_number(actor, slot)
            outcome = system.places.handle(draft.places[call.shard], number, records, old=False)
            system.answer(draft, index, slot, system.nothing)
            system.crashed(draft, call.shard, outcome.place)
        case "kill", (index, sent):
            actor = draft.actors.pop(index)
            for slot, answer in enumerate(actor.answers):
                if sent and answer == PENDING:
                    call = system.call(actor, slot)
                    if isinstance(call, Do):
                        system.perform(draft, actor, system.call_number(actor, slot))
                    else:
                        draft.orphans.append(system.call_number(actor, slot))
            holder = system.values.values[actor.holder]
            if system.is_live(draft, holder):
                system.end_holder(draft, holder)
        case "end", (index,):
            system.end_holder(draft, system.values.values[draft.actors[index].holder])
        case "cut", (shard, index):
            system.open(draft, shard, draft.actors[index].number if index >= 0 else -1)
        case "renew", (shard,):
            system.spawn(draft, f"renew {shard}", actors.renew(), site=shard, renews=True)
        case "rewrite", (shard, segment, mask):
            draft.places[shard] = system.places.allow_rewriting(draft.places[shard])
            system.spawn(draft, f"rewrite {segment[0]}", actors.rewrite(shard, segment, mask), site=FOLDER)
        case "restart", ():
            system.restart(draft)
        case "outlive", (shard,):
            generation = system.coordinators.generation(draft.coordinator)
            if system.places.shard(system.places.get(draft.places[shard])).heeds(generation - 1):
                raise BrokenPromise(f"generation {generation} serves shard {shard}, and the one before has it closed")


def _crashes_at(system: Steps, state: State, actor: Actor, call: Send, index: int, slot: int) -> Iterator[Choice]:
    number = state.places[call.shard]
    place = system.places.get(number)
    if place.current is None or (place.old is not None and actor.stays >> call.shard & 1):
        return
    records = system.places.records(number, system.call_number(actor, slot))
    yield from (("die", index, slot, count) for count in range(1, records + 1))
