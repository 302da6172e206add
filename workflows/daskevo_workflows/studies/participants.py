"""Who takes part in what a controller leads: the crew that trains, studies that watch, keepers of their snapshots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from daskevo.tuning import Halt, Run, Save, Scheduler, SearchPlan
from daskevo.tuning.stage_scheduler import Failure
from daskevo_workflows.studies.stage_commands import Reply
from daskevo_workflows.studies.study_view import StudyView


class CrewEvents(Protocol):
    """What a crew tells the controller, which has the meaning of each; all but `post` in the controller's thread."""

    @property
    def plan(self) -> SearchPlan: ...

    @property
    def scheduler(self) -> Scheduler: ...

    @property
    def watchers(self) -> list[Watcher]: ...

    def post(self, function: Callable[[], object]) -> None: ...

    def take_in_last(self, timeout_s: float = 0.0) -> None: ...

    def came(self, trainer: str, memory_bytes: int = 0) -> None: ...

    def went(self, trainer: str) -> None: ...

    def progress(self, work: str, step: int) -> None: ...

    def trained(self, work: str, start: int, stop: int, seconds: Mapping[str, float]) -> None: ...

    def measured(self, work: str, step: int, metrics: Mapping[str, float]) -> None: ...

    def saved(self, work: str, step: int, name: str, kind: str = "mark") -> None: ...

    def unsaved(self, work: str, step: int, kind: str, why: str) -> None: ...

    def full(self, work: str, step: int, nbytes: int) -> None: ...

    def replied(self, work: str, step: int, reply: Reply) -> None: ...

    def ended(self, work: str) -> None: ...

    def vanished(self, work: str, why: str) -> None: ...

    def broke(self, work: str, failure: Failure, why: str) -> None: ...

    def tell_all(self, kind: str, message: str, **facts: Any) -> None: ...


class Crew(Protocol):
    """Trainers that do what they are told. Called in the controller's thread; tells it what happens by its events."""

    def begin(self, controller: CrewEvents) -> None:
        """Say who is there."""

    def start(self, run: Run) -> None:
        """Have a trainer do a work."""

    def order(self, told: Save | Halt) -> None:
        """Change a running work; a mark is answered by :meth:`Controller.replied`."""

    def copy(self, work: str) -> bool:
        """Have a work keep a copy against failures after its next step, and go on; False: it has not begun."""

    def room(self, work: str, made: bool) -> None:
        """Tell a work whether there is room now for what it could not store (:meth:`Controller.full`)."""

    def know(self, origin: str, setting: Any) -> None:
        """Take in what all trajectories of an origin begin with."""

    def watch(self) -> None:
        """Look at trainers. Called at each turn."""

    def close(self, patience_s: float) -> None:
        """Cancel all tasks; kill the trainers of tasks that still run after `patience_s` seconds (0: kill none)."""


class Watcher(Protocol):
    """A study as the controller sees it: told of the works on its trajectories, in the controller's thread."""

    def given(self, run: Run) -> None:
        """A trainer was given a work."""

    def over(self, run: Run) -> None:
        """A work ended, as planned or not."""

    def stage(self, run: Run, start: int, stop: int, seconds: Mapping[str, float]) -> None:
        """Steps were trained."""

    def stored(self, run: Run, step: int, name: str, kind: str) -> None:
        """A snapshot was stored."""

    def note(self, kind: str, message: str, **facts: Any) -> None:
        """Something happened that is worth telling."""

    def ended(self, failure: BaseException) -> None:
        """The controller ends; why."""

    def picture(self, scheduler: Scheduler, *, is_over: bool = False) -> StudyView:
        """Say what it looks like now."""


class Keeper(Protocol):
    """Keeps a study's snapshots. Called in the controller's thread."""

    def stored(self, run: Run, step: int, name: str, kind: str) -> None:
        """A work has stored a snapshot, with a label of the study that joined last, of those of its origin."""

    def forget(self, name: str | None) -> None:
        """A snapshot can't be read any more."""

    def make_room(self, work: str, step: int, nbytes: int) -> None:
        """Let go of what is kept while there is room only, and tell the work whether there is some now."""

    def unsaved(self, step: int, kind: str, why: str) -> None:
        """A state was not stored."""

    def needed(self) -> set[str]:
        """Return the names of the snapshots that the study needs."""

    def begun_with(self) -> set[str]:
        """Return the names of those that it needs even if no trainer fails."""

    def turn(self) -> None:
        """Change labels if that is due. Called at each turn."""
