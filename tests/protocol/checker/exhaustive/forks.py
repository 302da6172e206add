"""Scripts that can be continued from any point in more than one way: as trees of what they were answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.protocol.checker.actors import Ask, Do, Note, Run, Script, Send, Stage
from tests.protocol.checker.exhaustive.canonical import Values, frames_of


@dataclass(frozen=True)
class Node:
    """A script at one of its yields."""

    script: Script
    history: tuple[Any, ...]
    """What it was sent until here."""
    calls: tuple[Send | Ask | Do, ...]
    """What it waits for; nothing: it pauses, or is done."""
    numbers: tuple[int, ...] = ()
    """Of the calls, as values."""
    done: bool = False
    outcome: str | None = None


@dataclass(frozen=True)
class Step:
    """Where a script comes to next, and what it noted on its way there."""

    node: int
    notes: tuple[int, ...]
    """Numbers of value."""


class Forks:
    """All points that scripts were found at.

    A generator can't be copied, so it is started anew and sent its history again, once for every answer that is new
    at its point: scripts touch nothing themselves. Two histories that lead to the same instruction with the same
    locals in all of its frames are one point: what comes after depends on nothing else (a loop's place is told by the
    loop's variable, see `actors`).
    """

    def __init__(self, stage: Stage, values: Values) -> None:
        self._stage = stage
        self._values = values
        self._steps: dict[tuple[int, tuple[int, ...]], Step] = {}

    def begin(self, script: Script) -> Step:
        """Return where a script comes to at first."""
        return self._run(script, ())

    def step(self, number: int, answers: tuple[int, ...]) -> Step:
        """Return where a script comes to from a node, when it is sent these answers (by number of value)."""
        found = self._steps.get((number, answers))
        if found is None:
            node: Node = self._values.values[number]
            got = [self._values.values[answer] for answer in answers]
            sent = got[0] if len(node.calls) == 1 and isinstance(node.calls[0], Do) else got
            found = self._steps[number, answers] = self._run(node.script, (*node.history, sent))
        return found

    def _run(self, script: Script, history: tuple[Any, ...]) -> Step:
        run = script.start(self._stage)
        notes: list[Note] = []
        try:
            wanted = self._next(run, None, notes)
            for sent in history:
                notes.clear()
                wanted = self._next(run, sent, notes)
        except StopIteration as stop:
            node = Node(script, history, (), done=True, outcome=stop.value)
            return Step(self._values.add(node, ("done", stop.value)), self._numbers(notes))
        calls = (wanted,) if isinstance(wanted, Do) else tuple(wanted)
        form = ("at", *frames_of(run))
        node = Node(script, history, calls, self._numbers(calls))
        return Step(self._values.add(node, form), self._numbers(notes))

    def _numbers(self, values: Iterable[object]) -> tuple[int, ...]:
        return tuple(self._values.add(value) for value in values)

    @staticmethod
    def _next(run: Run, sent: Any, notes: list[Note]) -> Any:
        wanted = run.send(sent)
        while isinstance(wanted, Note):
            notes.append(wanted)
            wanted = run.send(None)
        return wanted
