"""What can happen next in a state, and what becomes of it: the transitions, over the state machines of production.

Only deliveries and faults are transitions. What a script does with an answer - go on, pause, send the next messages -
and that it gives up on a message that is lost, happens at once with the delivery or fault that causes it. That leaves
out no order that anybody could tell apart: until its next messages are delivered, a script has touched nothing but
itself and the list of what it was promised, and a message may stay under way as long as a pause or an answer could
take. What it would have done to be killed before its answer came is a fault of its own: a kill takes the messages
under way with it, or leaves them as orphans.

More happens at once, see `steps`.

An answer that is lost, and a message that is lost, need no faults of their own either: both are a message that is late
(the sender waits no longer, and the orphan arrives at any time from then on, or never).
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol.checker.actors import Send
from tests.protocol.checker.exhaustive import faults
from tests.protocol.checker.exhaustive.draft import Draft
from tests.protocol.checker.exhaustive.faults import Choice
from tests.protocol.checker.exhaustive.state import PENDING, State
from tests.protocol.checker.exhaustive.steps import FAULTS, Steps


class System(Steps):
    """All that can happen to shards, coordinator and scripts."""

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

    def choices(self, state: State) -> Iterator[Choice]:
        """Yield what happens next if nothing (more) goes wrong."""
        renewing = self.renewing(state)
        for shard, number in enumerate(state.places):
            generation = self.places.generation(number)
            if generation < self.coordinators.generation(state.coordinator):
                yield "open", shard
        for index, actor in enumerate(state.actors):
            for slot, answer in enumerate(actor.answers):
                if answer == PENDING and not self.waits(state, actor, slot, renewing):
                    yield "deliver", index, slot
            if not actor.answers:
                yield "resume", index
        for orphan in dict.fromkeys(state.orphans):
            call = self.values.values[orphan]
            if not (isinstance(call, Send) and (call.shard, False) in renewing):
                yield "arrive", orphan

    def faults(self, state: State) -> Iterator[Choice]:
        """Yield what can go wrong now."""
        return faults.possible(self, state)

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
                self.open(draft, shard)
            case "deliver", index, slot:
                self.deliver(draft, index, slot)
            case "resume", index:
                self.answered(draft, index)
            case "arrive", orphan:
                draft.orphans.remove(orphan)
                self.perform(draft, None, orphan)
            case kind, *which:
                draft.budget[FAULTS.index("crash" if kind == "die" else kind)] -= 1
                draft.budget[-1] -= 1
                # To get a message twice is no cause to fail, nor that its shard is elsewhere.
                draft.disturbed |= kind not in ("double", "move", "renew", "rewrite", "outlive")
                faults.happen(self, draft, kind, which)
        return draft.state()

    def check(self, state: State) -> State:
        """Check every promise; what needs no more to be kept is struck from the list.

        Raises
        ------
        BrokenPromise
        """
        promises = self.pledges.check(state)
        return state if promises == state.promises else state._replace(promises=promises)
