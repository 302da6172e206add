"""What can happen next in a state, and what becomes of it: the transitions, over the state machines of production.

Only deliveries and faults are transitions. What a script does with an answer - go on, pause, send the next messages -
and that it gives up on a message that is lost, happens at once with the delivery or fault that causes it. That leaves
out no order that anybody could tell apart: until its next messages are delivered, a script has touched nothing but
itself and the list of what it was promised, and a message may stay under way as long as a pause or an answer could
take. What it would have done to be killed before its answer came is a fault of its own: a kill takes the messages
under way with it, or leaves them as orphans.

Three more things happen at once, because nobody else looks at what they change, so that any order comes to the same:

- ``settled`` strikes from a list of the coordinator what only the same script would still look for there;
- ``write`` makes a file that no record names yet, and only audits look for such files: not where one is under way; to
  be killed before it is to be killed while the message before it is under way;
- ``end`` of what needs no settling takes an attempt from those that only audits, and the ends of holders, look at: not
  where one is under way or can still come, or the message itself can still be late or doubled.

An answer that is lost, and a message that is lost, need no faults of their own either: both are a message that is late
(the sender waits no longer, and the orphan arrives at any time from then on, or never).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from daskevo.ownership.coordinator import Coordinator
from daskevo.ownership.hashing import shard_of
from daskevo.ownership.holders import ClientHolder, Holder
from daskevo.ownership.references import numbers_in
from daskevo.ownership.state import Retirement
from daskevo.testing.ownership import actors
from daskevo.testing.ownership.actors import Ask, Behaviour, Do, Script, Send
from daskevo.testing.ownership.exhaustive.canonical import Values
from daskevo.testing.ownership.exhaustive.coordinators import Coordinators
from daskevo.testing.ownership.exhaustive.forks import Forks, Node, Step
from daskevo.testing.ownership.exhaustive.places import Places
from daskevo.testing.ownership.exhaustive.pledges import Pledges
from daskevo.testing.ownership.exhaustive.state import FOLDER, NOWHERE, PENDING, SCHEDULER, Actor, State
from daskevo.testing.ownership.promises import BrokenPromise
from daskevo.testing.ownership.servers import ServerRules
from daskevo.types import ModelId

Choice = tuple[Any, ...]
"""What happens: its kind, and which."""

FAULTS = ("late", "double", "crash", "kill", "end", "cut", "restart", "move", "renew", "rewrite")
"""A message is late; is delivered twice, once late; a shard's server dies; a holder is killed with its thread; a holder
ends, and its thread goes on; a shard gets another owner, and the old one goes on; the coordinator restarts; a shard is
handed over in order; a shard's journal is renewed; what is alive of a file is written anew. The last three are no
cause to fail."""


class Draft:
    """A state in the making."""

    def __init__(self, state: State) -> None:
        self.places = list(state.places)
        self.coordinator, self.ended, self.promises = state.coordinator, state.ended, state.promises
        self.disturbed = state.disturbed
        self.actors = list(state.actors)
        self.orphans = list(state.orphans)
        self.budget = list(state.budget)

    def state(self) -> State:
        """Return it as it is."""
        return State(
            tuple(self.places),
            self.coordinator,
            self.ended,
            tuple(self.actors),
            tuple(sorted(self.orphans)),
            self.promises,
            tuple(self.budget),
            self.disturbed,
        )


class System:
    """Shards, coordinator and scripts, with every rule that tests may switch off."""

    def __init__(
        self,
        shards: int = 2,
        rules: ServerRules | None = None,
        behaviour: Behaviour | None = None,
        coordinator: type[Coordinator] = Coordinator,
    ) -> None:
        self.shards = shards
        self.behaviour = behaviour or Behaviour()
        self.values = Values()
        self.pausing = False
        """Whether scripts stay at their pauses: while a scene is set."""
        self.nothing, self.yes = self.values.add(None, form=("nothing",)), self.values.add(True)
        self.forks = Forks(self, self.values)
        self.places = Places(self.values, rules or ServerRules())
        self.coordinators = Coordinators(self.values, coordinator, shards)
        self.pledges = Pledges(self)
        self._homes: dict[ModelId, int] = {}
        self._settle = self.forks.begin(actors.settle()).node

    def home(self, model: ModelId) -> int:
        """Return the shard of a model."""
        if model not in self._homes:
            self._homes[model] = shard_of(model, self.shards)
        return self._homes[model]

    def start(self) -> State:
        """Return the state in which all shards are open and empty."""
        return State(
            tuple(self.places.create(shard, 1) for shard in range(self.shards)),
            self.coordinators.create(1),
            self.values.add(frozenset()),
            (),
            (),
            self.pledges.none(),
            (0,) * (len(FAULTS) + 1),
            False,
        )

    # What can happen.

    def choices(self, state: State) -> Iterator[Choice]:
        """Yield what happens next if nothing (more) goes wrong."""
        renewing = self._renewing(state)
        for shard, number in enumerate(state.places):
            generation = self.places.generation(number)
            if generation < self.coordinators.generation(state.coordinator):
                yield "open", shard
        for index, actor in enumerate(state.actors):
            for slot, answer in enumerate(actor.answers):
                if answer == PENDING and not self._waits(state, actor, slot, renewing):
                    yield "deliver", index, slot
            if not actor.answers:
                yield "resume", index
        for orphan in dict.fromkeys(state.orphans):
            call = self.values.values[orphan]
            if not (isinstance(call, Send) and (call.shard, False) in renewing):
                yield "arrive", orphan

    def faults(self, state: State) -> Iterator[Choice]:
        """Yield what can go wrong now."""
        if not state.budget[-1]:
            return
        left = dict(zip(FAULTS, state.budget, strict=False))
        renewing = self._renewing(state)
        for index, actor in enumerate(state.actors):
            for slot, answer in enumerate(actor.answers):
                call = self._call(actor, slot)
                if answer != PENDING or isinstance(call, Do):
                    continue
                if left["late"]:
                    yield "late", index, slot
                waits = self._waits(state, actor, slot, renewing)
                if left["double"] and not waits:
                    yield "double", index, slot
                if left["crash"] and isinstance(call, Send) and not waits:
                    yield from self._crashes_at(state, actor, call, index, slot)
            if actor.holder >= 0:
                if left["kill"]:
                    yield "kill", index, False
                    if any(answer == PENDING for answer in actor.answers):
                        yield "kill", index, True
                if left["end"] and self.is_live(state, self.values.values[actor.holder]):
                    yield "end", index
        for shard, number in enumerate(state.places):
            place = self.places.get(number)
            if place.current is None:
                continue
            if left["crash"]:
                unflushed = 0 if place.above >= 0 else len(place.current.tail)
                yield from (("crash", shard, kept) for kept in range(unflushed + 1))
            if left["renew"] and (shard, False) not in renewing:
                yield "renew", shard
            if left["rewrite"]:
                yield from (("rewrite", shard, *half_dead) for half_dead in self.places.half_dead(number).items())
            if left["move"]:
                yield "move", shard
            if left["cut"]:
                yield "cut", shard, -1
                yield from (("cut", shard, index) for index, actor in enumerate(state.actors) if actor.site == NOWHERE)
        if left["restart"]:
            yield ("restart",)

    def take(self, state: State, choice: Choice) -> State:
        """Return the state after a choice.

        Raises
        ------
        BrokenPromise
            If it breaks one.
        """
        draft = Draft(state)
        match choice:
            case "open", shard:
                self._open(draft, shard)
            case "deliver", index, slot:
                self._deliver(draft, index, slot)
            case "resume", index:
                self._answered(draft, index)
            case "arrive", orphan:
                draft.orphans.remove(orphan)
                self._perform(draft, None, orphan)
            case kind, *which:
                draft.budget[FAULTS.index("crash" if kind == "die" else kind)] -= 1
                draft.budget[-1] -= 1
                # To get a message twice is no cause to fail, nor that its shard is elsewhere.
                draft.disturbed |= kind not in ("double", "move", "renew", "rewrite")
                self._fail(draft, kind, which)
        return draft.state()

    def check(self, state: State) -> State:
        """Check every promise; what needs no more to be kept is struck from the list.

        Raises
        ------
        BrokenPromise
        """
        promises = self.pledges.check(state)
        return state if promises == state.promises else state._replace(promises=promises)

    def words(self, state: State, choice: Choice) -> str:
        """Return what happens in words."""
        match choice:
            case ("deliver" | "late" | "double") as kind, index, slot:
                actor = state.actors[index]
                return f"{kind} {_name(self._call(actor, slot))} of {actor.name}"
            case "die", index, slot, records:
                actor = state.actors[index]
                return f"crash after {records} records of {_name(self._call(actor, slot))} of {actor.name}"
            case "arrive", orphan:
                return f"late or again: {_name(self.values.values[orphan])}"
            case "kill", index, sent:
                return f"kill {state.actors[index].name}" + (", what it sent arrives later" if sent else "")
            case "end" | "resume" as kind, index:
                return f"{kind} {state.actors[index].name}"
            case "cut", shard, index:
                stays = f", {state.actors[index].name} stays with the old" if index >= 0 else ""
                return f"shard {shard} gets another owner{stays}"
            case "move", shard:
                return f"shard {shard} is handed over"
            case "renew", shard:
                return f"shard {shard} begins to renew its journal"
            case "rewrite", shard, (owner, _), mask:
                return f"shard {shard} begins to write what is alive of {owner} anew: {sorted(numbers_in(mask))}"
            case "crash", shard, kept:
                return f"crash shard {shard}, {kept} unflushed records kept"
        return " ".join(map(str, choice))

    # Parts of what happens.

    def spawn(
        self,
        draft: Draft,
        name: str,
        script: Script,
        holder: int = -1,
        site: int = NOWHERE,
        *,
        old: bool = False,
        audits: bool = False,
        renews: bool = False,
    ) -> None:
        """Start a script."""
        step = self.forks.begin(script)
        number = max((actor.number for actor in draft.actors), default=-1) + 1
        draft.actors.append(Actor(number, name, step.node, (), holder, site, old, audits=audits, renews=renews))
        self._arrived(draft, len(draft.actors) - 1, step)

    def end_holder(self, draft: Draft, holder: Holder) -> None:
        """A holder ends, says the scheduler; its thread may go on."""
        draft.disturbed = True
        ended = self.values.values[draft.ended] | {holder}
        draft.ended = self.values.add(ended)
        draft.coordinator = self.coordinators.holder_ended(draft.coordinator, holder)
        self._settle_if_due(draft)

    def restart(self, draft: Draft) -> None:
        """A new coordinator takes over; what the old one had under way is gone."""
        draft.disturbed = True
        draft.coordinator = self.coordinators.create(self.coordinators.generation(draft.coordinator) + 1)
        draft.actors = [actor for actor in draft.actors if actor.site != SCHEDULER]

    def spawn_audit(self, draft: Draft, shard: int) -> None:
        """Start an audit of a shard."""
        self.spawn(draft, f"audit {shard}", actors.audit(), site=shard, audits=True)

    def resume_all(self, draft: Draft) -> None:
        """Let every script that pauses go on."""
        while (index := next((i for i, actor in enumerate(draft.actors) if not actor.answers), None)) is not None:
            self._answered(draft, index)

    def _fail(self, draft: Draft, kind: str, which: list[Any]) -> None:
        match kind, which:
            case "late", (index, slot):
                actor = draft.actors[index]
                draft.orphans.append(self._call_number(actor, slot))
                self._answer(draft, index, slot, self.nothing)
            case "double", (index, slot):
                draft.orphans.append(self._call_number(draft.actors[index], slot))
                self._deliver(draft, index, slot)
            case "crash", (shard, kept):
                self._crashed(draft, shard, self.places.crash(draft.places[shard], kept))
            case "move", (shard,):
                current = self.places.get(draft.places[shard]).current
                assert current is not None
                written = len(current.tail)
                self._crashed(draft, shard, self.places.crash(draft.places[shard], written))
                # At once: whoever meets nobody in between sends again.
                self._open(draft, shard)
            case "die", (index, slot, records):
                actor = draft.actors[index]
                call = self._call(actor, slot)
                assert isinstance(call, Send)
                number = self._call_number(actor, slot)
                outcome = self.places.handle(draft.places[call.shard], number, records, old=False)
                self._answer(draft, index, slot, self.nothing)
                self._crashed(draft, call.shard, outcome.place)
            case "kill", (index, sent):
                actor = draft.actors.pop(index)
                for slot, answer in enumerate(actor.answers):
                    if sent and answer == PENDING:
                        call = self._call(actor, slot)
                        if isinstance(call, Do):
                            self._perform(draft, actor, self._call_number(actor, slot))
                        else:
                            draft.orphans.append(self._call_number(actor, slot))
                holder = self.values.values[actor.holder]
                if self.is_live(draft, holder):
                    self.end_holder(draft, holder)
            case "end", (index,):
                self.end_holder(draft, self.values.values[draft.actors[index].holder])
            case "cut", (shard, index):
                self._open(draft, shard, draft.actors[index].number if index >= 0 else -1)
            case "renew", (shard,):
                self.spawn(draft, f"renew {shard}", actors.renew(), site=shard, renews=True)
            case "rewrite", (shard, segment, mask):
                draft.places[shard] = self.places.allow_rewriting(draft.places[shard])
                self.spawn(draft, f"rewrite {segment[0]}", actors.rewrite(shard, segment, mask), site=FOLDER)
            case "restart", ():
                self.restart(draft)

    def _open(self, draft: Draft, shard: int, staying: int = -1) -> None:
        there = self.places.get(draft.places[shard]).current is not None
        outcome = self.places.open(draft.places[shard], self.coordinators.generation(draft.coordinator))
        draft.places[shard] = outcome.place
        if there:
            draft.disturbed = True
            draft.actors = [
                actor._replace(
                    old=actor.old or actor.site == shard,
                    stays=actor.stays & ~(1 << shard) | (actor.number == staying) << shard,
                )
                for actor in draft.actors
                if not (actor.site == shard and actor.old)
            ]
        self._tidy(draft, shard)
        self._retire(draft, shard, outcome.retirements, old=False)
        draft.coordinator = self.coordinators.resume_settling(draft.coordinator)
        self._settle_if_due(draft)

    def _crashed(self, draft: Draft, shard: int, place: int) -> None:
        draft.places[shard] = place
        draft.actors = [actor for actor in draft.actors if actor.site != shard or actor.old]

    def _tidy(self, draft: Draft, shard: int) -> None:
        """Forget an old owner that is nobody's any more, or that has stopped."""
        stopped = self.places.get(draft.places[shard]).old is None
        used = any(actor.stays >> shard & 1 or (actor.site == shard and actor.old) for actor in draft.actors)
        if stopped and used:
            draft.actors = [
                actor._replace(stays=actor.stays & ~(1 << shard))
                for actor in draft.actors
                if not (actor.site == shard and actor.old)
            ]
        elif not stopped and not used:
            draft.places[shard] = self.places.forget_old(draft.places[shard])

    def _retire(self, draft: Draft, shard: int, retirements: tuple[Retirement, ...], *, old: bool) -> None:
        for retirement in retirements:
            self.spawn(draft, f"retire {retirement.model}", actors.retire(retirement), site=shard, old=old)

    def _settle_if_due(self, draft: Draft) -> None:
        waiting = any(actor.node == self._settle for actor in draft.actors)
        if self.coordinators.is_due(draft.coordinator) and not waiting:
            self.spawn(draft, "settle", actors.settle(), site=SCHEDULER)

    def _deliver(self, draft: Draft, index: int, slot: int) -> None:
        actor = draft.actors[index]
        answer = self._perform(draft, actor, self._call_number(actor, slot))
        # It is gone if that stopped the old owner whose provider runs it.
        found = next((i for i, other in enumerate(draft.actors) if other.number == actor.number), None)
        if found is not None:
            self._answer(draft, found, slot, answer)

    def _perform(self, draft: Draft, actor: Actor | None, number: int) -> int:
        """Let a call arrive; return the number of its answer."""
        call = self.values.values[number]
        if isinstance(call, Ask):
            return self._ask(draft, call, number)
        if isinstance(call, Do):
            assert actor is not None
            return self._do(draft, actor, call, number)
        shard = call.shard
        place = self.places.get(draft.places[shard])
        old = place.old is not None and actor is not None and bool(actor.stays >> shard & 1)
        if not old and place.current is None:
            return self.nothing
        outcome = self.places.handle(draft.places[shard], number, None, old=old)
        draft.places[shard] = outcome.place
        if outcome.reply is not None:
            draft.promises = self.pledges.answered(draft.promises, number, outcome.reply)
        self._retire(draft, shard, outcome.retirements, old=old)
        if old:
            self._tidy(draft, shard)
        return self.nothing if outcome.reply is None else outcome.reply

    def _ask(self, draft: Draft, call: Ask, number: int) -> int:
        live = call.name == "begin" and self.is_live(draft, call.args[0])
        draft.coordinator, answer = self.coordinators.ask(draft.coordinator, number, live=live)
        self._settle_if_due(draft)
        return answer

    def _do(self, draft: Draft, actor: Actor, do: Do, number: int) -> int:
        match do.name, do.args:
            case "write", (shard, segment):
                draft.places[shard] = self.places.write(draft.places[shard], segment)
                return self.nothing
            case "rename", (shard, segment, mask):
                draft.places[shard] = self.places.write(draft.places[shard], segment, mask)
                return self.nothing
            case "open", (shard,):
                self._open(draft, shard)
                return self.nothing
            case (("take settling" | "postpone" | "settled"), _):
                draft.coordinator, answer = self.coordinators.do(draft.coordinator, number)
                return answer
        outcome = self.places.act(draft.places[actor.site], number, old=actor.old)
        draft.places[actor.site] = outcome.place
        if actor.old and self.places.get(outcome.place).old is None:
            self._tidy(draft, actor.site)
        assert outcome.reply is not None
        return outcome.reply

    def _answer(self, draft: Draft, index: int, slot: int, answer: int) -> None:
        actor = draft.actors[index]
        answers = (*actor.answers[:slot], answer, *actor.answers[slot + 1 :])
        draft.actors[index] = actor._replace(answers=answers)
        if PENDING not in answers:
            self._answered(draft, index)

    def _answered(self, draft: Draft, index: int) -> None:
        actor = draft.actors[index]
        self._arrived(draft, index, self.forks.step(actor.node, actor.answers))

    def _at_once(self, draft: Draft, node: Node) -> int | None:
        """Do what nobody can tell the moment of; return the number of the answer, or None."""
        if len(node.calls) != 1:
            return None
        (call,) = node.calls
        audited = any(actor.audits for actor in draft.actors)
        match call:
            case Do("serving"):
                # Who runs at a provider ends with it.
                return self.yes
            case Do("settled"):
                draft.coordinator, answer = self.coordinators.do(draft.coordinator, node.numbers[0])
                return answer
            case Do("write", (shard, segment)) if self.behaviour.segment_before_stage and not audited:
                draft.places[shard] = self.places.write(draft.places[shard], segment)
                return self.nothing
            case Ask("end", (_, True)) if self.coordinators.as_produced and not audited:
                left = dict(zip(FAULTS, draft.budget, strict=False)) if draft.budget[-1] else {}
                if not any(left.get(kind) for kind in ("late", "double", "kill", "end", "restart")):
                    draft.coordinator, answer = self.coordinators.ask(draft.coordinator, node.numbers[0], live=False)
                    return answer
        return None

    def _arrived(self, draft: Draft, index: int, step: Step) -> None:
        actor = draft.actors[index]
        while True:
            for note in step.notes:
                draft.promises = self.pledges.noted(draft.promises, note)
            node: Node = self.values.values[step.node]
            if node.done or (self.pausing and not node.calls):
                break
            if not node.calls:
                step = self.forks.step(step.node, ())
            elif (answer := self._at_once(draft, node)) is not None:
                step = self.forks.step(step.node, (answer,))
            else:
                break
        if not node.done:
            draft.actors[index] = actor._replace(node=step.node, answers=(PENDING,) * len(node.calls))
            return
        del draft.actors[index]
        if node.outcome == "failed" and not draft.disturbed:
            raise BrokenPromise(f"{actor.name} failed without cause")

    # Looks.

    def _call(self, actor: Actor, slot: int) -> Send | Ask | Do:
        node: Node = self.values.values[actor.node]
        return node.calls[slot]

    def _call_number(self, actor: Actor, slot: int) -> int:
        node: Node = self.values.values[actor.node]
        return node.numbers[slot]

    def _renewing(self, state: State) -> set[tuple[int, bool]]:
        """Return the openings of shards that answer no message meanwhile: shard, and whether it is the old one."""
        if not self.places.rules.messages_wait_for_renewal:
            return set()
        return {(actor.site, actor.old) for actor in state.actors if actor.renews}

    def _waits(self, state: State, actor: Actor, slot: int, renewing: set[tuple[int, bool]]) -> bool:
        """Whether a message waits until somebody serves its shard, or its journal is renewed."""
        call = self._call(actor, slot)
        if isinstance(call, Do):
            return call.name == "handle" and (actor.site, actor.old) in renewing
        if not isinstance(call, Send):
            return False
        if renewing:
            stays = actor.stays >> call.shard & 1 and self.places.get(state.places[call.shard]).old is not None
            if (call.shard, bool(stays)) in renewing:
                return True
        if not call.patient:
            return False
        return self.places.get(state.places[call.shard]).current is None and not actor.stays >> call.shard & 1

    def _crashes_at(self, state: State, actor: Actor, call: Send, index: int, slot: int) -> Iterator[Choice]:
        number = state.places[call.shard]
        place = self.places.get(number)
        if place.current is None or (place.old is not None and actor.stays >> call.shard & 1):
            return
        records = self.places.records(number, self._call_number(actor, slot))
        yield from (("die", index, slot, count) for count in range(1, records + 1))

    def is_live(self, state: State | Draft, holder: Holder) -> bool:
        """What the scheduler says of a holder; a new scheduler knows none of the old one's."""
        assert isinstance(holder, ClientHolder)
        generation = holder.client_id.rpartition("@")[2]
        known = str(self.coordinators.generation(state.coordinator))
        return holder not in self.values.values[state.ended] and generation == known


def _name(call: Send | Ask | Do) -> str:
    return type(call.message).__name__ if isinstance(call, Send) else call.name
