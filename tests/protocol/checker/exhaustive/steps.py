"""What becomes of a state when something happens in it: the parts of all transitions, over production's state machines.

What a script does with an answer - go on, pause, send the next messages - happens at once with the delivery or fault
that causes it; so do three more things, because nobody else looks at what they change, so that any order comes to the
same:

- ``settled`` strikes from a list of the coordinator what only the same script would still look for there;
- ``write`` and ``withdraw`` make and remove a file that no record names, and only audits look for such files: not where
  one is under way; to be killed before it is to be killed while the message before it is under way;
- ``end`` of what needs no settling takes an attempt from those that only audits, and the ends of holders, look at: not
  where one is under way or can still come, or the message itself can still be late or doubled.
"""

from __future__ import annotations

from daskevo.protocol.coordinator import Coordinator
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.holders import ClientHolder, Holder
from daskevo.protocol.state import Retirement
from daskevo.types import ModelId
from tests.protocol.checker import actors
from tests.protocol.checker.actors import Ask, Behaviour, Do, Script, Send
from tests.protocol.checker.exhaustive.canonical import Values
from tests.protocol.checker.exhaustive.coordinators import Coordinators
from tests.protocol.checker.exhaustive.draft import Draft
from tests.protocol.checker.exhaustive.forks import Forks, Node, Step
from tests.protocol.checker.exhaustive.places import Places
from tests.protocol.checker.exhaustive.pledges import Pledges
from tests.protocol.checker.exhaustive.state import NOWHERE, PENDING, SCHEDULER, Actor, State
from tests.protocol.checker.promises import BrokenPromise
from tests.protocol.checker.servers import ServerRules

FAULTS = ("late", "double", "crash", "kill", "end", "cut", "restart", "move", "renew", "rewrite", "outlive")
"""A message is late; is delivered twice, once late; a shard's server dies; a holder is killed with its thread; a holder
ends, and its thread goes on; a shard gets another owner, and the old one goes on; the coordinator restarts; a shard is
handed over in order; a shard's journal is renewed; what is alive of a file is written anew; a coordinator goes on after
its generation is past, and has a shard closed that it doesn't know to be served. The last four are no cause to fail."""


class Steps:
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
        self.nothing = self.values.add(None, form=("nothing",))
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
        self.settle_if_due(draft)

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
            self.answered(draft, index)

    def deliver(self, draft: Draft, index: int, slot: int) -> None:
        """A call of a script arrives, and its answer at once."""
        actor = draft.actors[index]
        answer = self.perform(draft, actor, self.call_number(actor, slot))
        # It is gone if that stopped the old owner whose provider runs it.
        found = next((i for i, other in enumerate(draft.actors) if other.number == actor.number), None)
        if found is not None:
            self.answer(draft, found, slot, answer)

    def answered(self, draft: Draft, index: int) -> None:
        """A script has all its answers, or goes on after its pause."""
        actor = draft.actors[index]
        self._arrived(draft, index, self.forks.step(actor.node, actor.answers))

    def answer(self, draft: Draft, index: int, slot: int, answer: int) -> None:
        """A script gets an answer."""
        actor = draft.actors[index]
        answers = (*actor.answers[:slot], answer, *actor.answers[slot + 1 :])
        draft.actors[index] = actor._replace(answers=answers)
        if PENDING not in answers:
            self.answered(draft, index)

    def open(self, draft: Draft, shard: int, staying: int = -1) -> None:
        """A shard gets an owner; the one before goes on as the old one."""
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
        self.settle_if_due(draft)

    def crashed(self, draft: Draft, shard: int, place: int) -> None:
        """Nobody serves a shard any more, and who ran at its provider is gone."""
        draft.places[shard] = place
        draft.actors = [actor for actor in draft.actors if actor.site != shard or actor.old]

    def settle_if_due(self, draft: Draft) -> None:
        """Start to settle what waits for it, if nobody does yet."""
        waiting = any(actor.node == self._settle for actor in draft.actors)
        if self.coordinators.is_due(draft.coordinator) and not waiting:
            self.spawn(draft, "settle", actors.settle(), site=SCHEDULER)

    def perform(self, draft: Draft, actor: Actor | None, number: int) -> int:
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

    def is_live(self, state: State | Draft, holder: Holder) -> bool:
        """What the scheduler says of a holder; a new scheduler knows none of the old one's."""
        assert isinstance(holder, ClientHolder)
        generation = holder.client_id.rpartition("@")[2]
        known = str(self.coordinators.generation(state.coordinator))
        return holder not in self.values.values[state.ended] and generation == known

    def call(self, actor: Actor, slot: int) -> Send | Ask | Do:
        """Return a call of a script."""
        node: Node = self.values.values[actor.node]
        return node.calls[slot]

    def call_number(self, actor: Actor, slot: int) -> int:
        """Return its number of value."""
        node: Node = self.values.values[actor.node]
        return node.numbers[slot]

    def renewing(self, state: State) -> set[tuple[int, bool]]:
        """Return the openings of shards that answer no message meanwhile: shard, and whether it is the old one."""
        if not self.places.rules.messages_wait_for_renewal:
            return set()
        return {(actor.site, actor.old) for actor in state.actors if actor.renews}

    def waits(self, state: State, actor: Actor, slot: int, renewing: set[tuple[int, bool]]) -> bool:
        """Whether a message waits until somebody serves its shard, or its journal is renewed."""
        call = self.call(actor, slot)
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

    def _ask(self, draft: Draft, call: Ask, number: int) -> int:
        live = call.name == "begin" and self.is_live(draft, call.args[0])
        draft.coordinator, answer = self.coordinators.ask(draft.coordinator, number, live=live)
        self.settle_if_due(draft)
        return answer

    def _do(self, draft: Draft, actor: Actor, do: Do, number: int) -> int:
        match do.name, do.args:
            case "write", (shard, segment):
                draft.places[shard] = self.places.write(draft.places[shard], segment)
                return self.nothing
            case "withdraw", (shard, segment):
                draft.places[shard] = self.places.withdraw(draft.places[shard], segment)
                return self.nothing
            case "rename", (shard, segment, mask):
                draft.places[shard] = self.places.write(draft.places[shard], segment, mask)
                return self.nothing
            case "open", (shard,):
                self.open(draft, shard)
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

    def _at_once(self, draft: Draft, call: Send | Ask | Do, number: int) -> int:
        """Do what nobody can tell the moment of; return the number of the answer, or `PENDING`."""
        audited = any(actor.audits for actor in draft.actors)
        match call:
            case Do("settled"):
                draft.coordinator, answer = self.coordinators.do(draft.coordinator, number)
                return answer
            case Do("write", (shard, segment)) if self.behaviour.segment_before_stage and not audited:
                draft.places[shard] = self.places.write(draft.places[shard], segment)
                return self.nothing
            case Do("withdraw", (shard, segment)) if not audited:
                draft.places[shard] = self.places.withdraw(draft.places[shard], segment)
                return self.nothing
            case Ask("end", (_, True)) if self.coordinators.as_produced and not audited:
                left = dict(zip(FAULTS, draft.budget, strict=False)) if draft.budget[-1] else {}
                if not any(left.get(kind) for kind in ("late", "double", "kill", "end", "restart")):
                    draft.coordinator, answer = self.coordinators.ask(draft.coordinator, number, live=False)
                    return answer
        return PENDING

    def _arrived(self, draft: Draft, index: int, step: Step) -> None:
        actor = draft.actors[index]
        while True:
            for note in step.notes:
                draft.promises = self.pledges.noted(draft.promises, note)
            node: Node = self.values.values[step.node]
            if node.done or (self.pausing and not node.calls):
                break
            calls = zip(node.calls, node.numbers, strict=True)
            answers = tuple(self._at_once(draft, call, number) for call, number in calls)
            if PENDING in answers:
                draft.actors[index] = actor._replace(node=step.node, answers=answers)
                return
            step = self.forks.step(step.node, answers)
        if not node.done:
            draft.actors[index] = actor._replace(node=step.node, answers=())
            return
        del draft.actors[index]
        if node.outcome == "failed" and not draft.disturbed:
            raise BrokenPromise(f"{actor.name} failed without cause")
