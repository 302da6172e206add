"""Where explorations begin: scenes are set in order, by the same functions that set them for `World`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from daskevo.protocol.holders import ClientHolder, Holder
from tests.protocol.checker.actors import Script
from tests.protocol.checker.exhaustive.draft import Draft
from tests.protocol.checker.exhaustive.faults import Choice
from tests.protocol.checker.exhaustive.state import State
from tests.protocol.checker.exhaustive.steps import FAULTS
from tests.protocol.checker.exhaustive.system import System


@dataclass(frozen=True)
class Player:
    """An actor of a scene."""

    scene: Scene
    name: str
    holder: Holder | None
    number: int

    @property
    def resting(self) -> bool:
        """Whether it pauses."""
        return any(actor.number == self.number and not actor.answers for actor in self.scene.state.actors)


class Scene:
    """A system whose state is set step by step, first causes first."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.shards = system.shards
        self.actors: list[Player] = []
        system.pausing = True
        self.state = system.start()

    def spawn(self, name: str, script: Script, holder: Holder | None = None) -> Player:
        """Start a script."""
        draft = Draft(self.state)
        known = -1 if holder is None else self.system.values.add(holder)
        self.system.spawn(draft, name, script, known)
        self.state = draft.state()
        number = self.state.actors[-1].number if self.state.actors else -1
        self.actors.append(Player(self, name, holder, number))
        return self.actors[-1]

    def new_holder(self, name: str) -> Holder:
        """Return a holder that the scheduler knows as live."""
        return ClientHolder(f"{name}@{self.system.coordinators.generation(self.state.coordinator)}")

    def settle_down(self) -> None:
        """Let everything happen that happens by itself."""
        while self._go_on():
            pass

    def train(self, player: Player) -> None:
        """Let everything happen until an actor pauses."""
        while not player.resting and self._go_on():
            pass

    def resume(self, player: Player) -> None:
        """Let an actor go on after its pause."""
        index = next(i for i, actor in enumerate(self.state.actors) if actor.number == player.number)
        self.state = self.system.take(self.state, ("resume", index))

    def end_holder(self, holder: Holder) -> None:
        """A holder ends; its thread goes on."""
        draft = Draft(self.state)
        self.system.end_holder(draft, holder)
        self.state = draft.state()

    def restart_coordinator(self) -> None:
        """A new coordinator takes over."""
        draft = Draft(self.state)
        self.system.restart(draft)
        self.state = draft.state()

    def audit(self) -> None:
        """Start an audit of every shard."""
        draft = Draft(self.state)
        for shard in range(self.shards):
            self.system.spawn_audit(draft, shard)
        self.state = draft.state()

    def begin(self, budget: Mapping[str, int]) -> State:
        """Return the state in which the exploration begins."""
        self.system.pausing = False
        draft = Draft(self.state)
        self.system.resume_all(draft)
        faults = [budget.get(kind, 0) for kind in FAULTS]
        draft.budget = [*faults, budget.get("all", sum(faults))]
        return self.system.check(draft.state())

    def _go_on(self) -> bool:
        choice: Choice | None = next(iter(self.system.choices(self.state)), None)
        if choice is not None:
            self.state = self.system.take(self.state, choice)
        return choice is not None
