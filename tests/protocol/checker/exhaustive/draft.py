"""A state in the making."""

from __future__ import annotations

from tests.protocol.checker.exhaustive.state import State


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
