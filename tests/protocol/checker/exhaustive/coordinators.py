"""Coordinators as values: what an event makes of them."""

from __future__ import annotations

from typing import Any

from daskevo.protocol.coordinator import Coordinator
from daskevo.protocol.holders import Holder
from tests.protocol.checker.actors import Ask, Do
from tests.protocol.checker.exhaustive.canonical import Values, form_of


class Coordinators:
    """All coordinators that were found, by number of value, and what follows from each."""

    def __init__(self, values: Values, kind: type[Coordinator], shards: int) -> None:
        self.values = values
        self._kind = kind
        self._shards = shards
        self._known: dict[tuple[Any, ...], tuple[int, int]] = {}

    @property
    def as_produced(self) -> bool:
        """Whether no rule is switched off in it."""
        return self._kind is Coordinator

    def get(self, number: int) -> Coordinator:
        """Return a coordinator by number of value, to look at."""
        coordinator: Coordinator = self.values.values[number]
        return coordinator

    def generation(self, number: int) -> int:
        """Return its generation."""
        return self.get(number).generation

    def is_due(self, number: int) -> bool:
        """Whether attempts wait to be settled now."""
        return bool(self.get(number)._due)

    def create(self, generation: int) -> int:
        """Return a coordinator that knows nobody yet."""
        return self._add(self._kind(generation, self._shards))

    def ask(self, number: int, call: int, *, live: bool) -> tuple[int, int]:
        """Ask it; return its number and that of the answer."""
        key = (number, call, live)
        if key not in self._known:
            coordinator = self._copy(number)
            answer = _asked(coordinator, self.values.values[call], live=live)
            self._known[key] = self._add(coordinator), self.values.add(answer)
        return self._known[key]

    def do(self, number: int, done: int) -> tuple[int, int]:
        """Let its own part do something; return its number and that of the result."""
        key = (number, done)
        if key not in self._known:
            coordinator = self._copy(number)
            do: Do = self.values.values[done]
            answer = None
            match do.name, do.args:
                case "take settling", ():
                    answer = coordinator.take_settling()
                case "postpone", (due,):
                    coordinator.postpone(due)
                case "settled", (due,):
                    coordinator.settled(due)
            self._known[key] = self._add(coordinator), self.values.add(answer)
        return self._known[key]

    def holder_ended(self, number: int, holder: Holder) -> int:
        """Tell it that a holder ended."""
        coordinator = self._copy(number)
        coordinator.holder_ended(holder)
        return self._add(coordinator)

    def resume_settling(self, number: int) -> int:
        """What was postponed is due again."""
        if not self.get(number)._postponed:
            return number
        coordinator = self._copy(number)
        coordinator.resume_settling()
        return self._add(coordinator)

    def _copy(self, number: int) -> Coordinator:
        old = self.get(number)
        new = self._kind(old.generation, old.shards)
        new._counter = old._counter
        new._live = dict(old._live)
        new._by_holder = {holder: set(attempts) for holder, attempts in old._by_holder.items()}
        new._ended = set(old._ended)
        new._due, new._postponed, new._in_hand = dict(old._due), dict(old._postponed), set(old._in_hand)
        return new

    def _add(self, coordinator: Coordinator) -> int:
        seen = (
            "coordinator",
            coordinator.generation,
            form_of(coordinator._live),
            form_of(coordinator._ended),
            form_of(list(coordinator._due)),
            form_of(list(coordinator._postponed)),
            form_of(coordinator._in_hand),
        )
        # The counter only makes the next tick the highest of all, whatever it is.
        return self.values.add(coordinator, (*seen, coordinator._counter), look=seen)


def _asked(coordinator: Coordinator, call: Ask, *, live: bool) -> object:
    match call.name, call.args:
        case "begin", (holder, model):
            return coordinator.begin(holder, model, live=live) or "not live"
        case "end", (attempt, settled):
            coordinator.end(attempt, settled=settled)
            return "ended"
        case "over", (attempts,):
            return coordinator.over(attempts)
        case "tick", ():
            return coordinator.tick()
    raise AssertionError(f"the coordinator can't be asked {call}")
