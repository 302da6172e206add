"""Breadth-first through all states that a scene can come to, so that the first trace found is a shortest one."""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from daskevo.errors import DaskevoError
from tests.protocol.checker.exhaustive.faults import Choice
from tests.protocol.checker.exhaustive.rest import Rest
from tests.protocol.checker.exhaustive.scenes import Scene
from tests.protocol.checker.exhaustive.state import State, key_of
from tests.protocol.checker.exhaustive.system import System
from tests.protocol.checker.exhaustive.words import words
from tests.protocol.checker.promises import BrokenPromise

Setting = Callable[[Any], None]
"""Sets a scene, or the world of `explore`."""

BROKEN = (BrokenPromise, DaskevoError, KeyError)
"""What a promise, or a state machine whose rules don't hold, ends in."""


@dataclass(frozen=True)
class Violation:
    """A shortest trace to a broken promise."""

    trace: tuple[str, ...]
    error: Exception

    def __str__(self) -> str:
        return f"{self.error!r}\n  " + "\n  ".join(self.trace)


@dataclass
class Exploration:
    """What was explored.

    Attributes
    ----------
    states, transitions
        How many, the first state counted.
    ends
        States in which nothing is left to happen (but what may arrive late); each was followed to rest.
    depth
        Transitions from the scene to the farthest state.
    complete
        Whether nothing was left to explore.
    """

    states: int = 0
    transitions: int = 0
    ends: int = 0
    depth: int = 0
    seconds: float = 0.0
    complete: bool = False
    violation: Violation | None = None


def explore(system: System, setting: Setting, budget: Mapping[str, int], limit: int | None = None) -> Exploration:
    """Explore all interleavings of a scene, with up to so many faults of each kind.

    Parameters
    ----------
    system
        Not used before.
    setting
        Sets the scene.
    budget
        Faults by kind (`FAULTS`), and of all kinds together (``all``; without it, their sum).
    limit
        Stop after so many states.
    """
    began = time.monotonic()
    found = Exploration()
    try:
        scene = Scene(system)
        setting(cast(Any, scene))
        first = scene.begin(budget)
    except BROKEN as error:
        found.violation = Violation(("the scene is set",), error)
        return found
    run = _Run(system, first, found)
    run.explore(limit)
    found.seconds = time.monotonic() - began
    return found


class _Run:
    def __init__(self, system: System, first: State, found: Exploration) -> None:
        self._system = system
        self._first = first
        self._found = found
        self._rest = Rest(system)
        self._seen = {key_of(first, system.values)}
        # By number of state: the number of the one before, and which of its choices led here.
        self._before = array("I", [0])
        self._chosen = array("H", [0])

    def explore(self, limit: int | None) -> None:
        system, found = self._system, self._found
        values = system.values
        waiting = deque([(0, 0, self._first)])
        found.states = 1
        while waiting:
            number, depth, state = waiting.popleft()
            found.depth = max(found.depth, depth)
            for place, choice in enumerate(self._choices(state)):
                found.transitions += 1
                try:
                    then = system.check(system.take(state, choice))
                except BROKEN as error:
                    self._break(number, state, choice, error)
                    return
                key = key_of(then, values)
                if key in self._seen:
                    continue
                self._seen.add(key)
                self._before.append(number)
                self._chosen.append(place)
                waiting.append((found.states, depth + 1, then))
                found.states += 1
            if self._rest.is_end(state):
                found.ends += 1
                try:
                    self._rest.follow(state)
                except BROKEN as error:
                    self._break(number, state, None, error)
                    return
            if limit is not None and found.states >= limit:
                return
        found.complete = True

    def _choices(self, state: State) -> list[Choice]:
        return [*self._system.choices(state), *self._system.faults(state)]

    def _break(self, number: int, state: State, choice: Choice | None, error: Exception) -> None:
        """Tell the way: the numbers of choices from the scene on are taken once more."""
        places = []
        while number:
            places.append(self._chosen[number])
            number = self._before[number]
        told = []
        at = self._first
        for place in reversed(places):
            taken = self._choices(at)[place]
            told.append(words(self._system, at, taken))
            at = self._system.check(self._system.take(at, taken))
        told.append("everything ends" if choice is None else words(self._system, state, choice))
        self._found.violation = Violation(tuple(told), error)
