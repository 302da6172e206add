"""From a state in which all scripts have ended to rest: is anything lost, or left?"""

from __future__ import annotations

from tests.protocol.checker import actors
from tests.protocol.checker.exhaustive.draft import Draft
from tests.protocol.checker.exhaustive.pledges import View
from tests.protocol.checker.exhaustive.state import State, key_of
from tests.protocol.checker.exhaustive.system import System
from tests.protocol.checker.promises import BrokenPromise, Promises

MOST_STEPS = 3000


class Rest:
    """Follows ends to rest, in one order each: everything ends, settles, is audited; then all labels are released."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._followed: set[bytes] = set()

    def is_end(self, state: State) -> bool:
        """Whether nothing happens by itself any more; raises BrokenPromise if scripts wait for ever."""
        choices = list(self._system.choices(state))
        if any(choice[0] != "arrive" for choice in choices):
            return False
        if state.actors and not choices:
            raise BrokenPromise(f"{[actor.name for actor in state.actors]} wait for ever")
        return not state.actors

    def follow(self, state: State) -> None:
        """Follow an end to rest: what is late arrives never, or after everything else.

        Raises
        ------
        BrokenPromise
        """
        state = state._replace(budget=(0,) * len(state.budget), disturbed=True)
        for late in {(), state.orphans}:
            begin = state._replace(orphans=late)
            key = key_of(begin, self._system.values)
            if key not in self._followed:
                self._follow(begin)
                self._followed.add(key)

    def _follow(self, state: State) -> None:
        late, state = state.orphans, state._replace(orphans=())
        for _, holder in sorted(self._system.coordinators.get(state.coordinator).live().items()):
            draft = Draft(state)
            if self._system.is_live(draft, holder[0]):
                self._system.end_holder(draft, holder[0])
                state = self._go_on(draft.state())
        if late:
            state = self._audit(state)._replace(orphans=late)
            while state.orphans:
                state = self._system.check(self._system.take(state, ("arrive", state.orphans[0])))
        state = self._audit(self._audit(self._go_on(state)))
        self._promises(state).check_at_rest()
        for label in sorted(self._promises(state).labels()):
            draft = Draft(state)
            self._system.spawn(draft, f"release {label}", actors.release_label(label))
            state = self._go_on(draft.state())
        state = self._audit(self._audit(state))
        self._promises(state).check_empty()

    def _audit(self, state: State) -> State:
        draft = Draft(state)
        for shard in range(self._system.shards):
            self._system.spawn_audit(draft, shard)
        return self._go_on(draft.state())

    def _go_on(self, state: State) -> State:
        for _ in range(MOST_STEPS):
            choice = next(iter(self._system.choices(state)), None)
            if choice is None:
                return state
            state = self._system.check(self._system.take(state, choice))
        raise BrokenPromise(f"still busy after {MOST_STEPS} steps: {[actor.name for actor in state.actors]}")

    def _promises(self, state: State) -> Promises:
        return self._system.pledges.copy(state.promises, View(self._system, state))
