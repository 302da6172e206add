"""Choose a trainer for a stage: by the model in its memory, the size of its memory, and earlier failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daskevo.planning import Losses
from daskevo.tuning.plan import State
from daskevo.tuning.stages import TrainingStage


@dataclass(slots=True)
class PlacedTrainer:
    """A trainer that can take tasks.

    Parameters
    ----------
    memory_bytes:
        Memory of its device; 0 if not known.
    work:
        Its current task.
    holds:
        The state in its memory, from its last task.
    """

    name: str
    memory_bytes: int = 0
    work: str | None = None
    holds: State | None = None


class Placing:
    """Places stages on trainers, and remembers losses and lack of memory.

    Parameters
    ----------
    trainers:
        The present trainers, by name; the caller updates this mapping.
    """

    def __init__(self, trainers: Mapping[str, PlacedTrainer]) -> None:
        self._trainers = trainers
        self._too_small: dict[int, int] = {}
        self.losses = Losses[State]()
        """Trainers lost during the stage that ends in a state."""

    @property
    def most_bytes(self) -> int:
        """Memory of the largest present trainer; 0 if none is known."""
        return max((trainer.memory_bytes for trainer in self._trainers.values()), default=0)

    def place(self, stage: TrainingStage, free: Sequence[PlacedTrainer]) -> PlacedTrainer | None:
        """Return the trainer for a stage: the one that has its model in memory, or else the smallest.

        A stage that ran out of memory is tried only once more, on the largest trainer, even if that is busy now. A
        stage whose trainer died goes to the largest free one, because many processes die of too much memory.
        """
        fitting = [trainer for trainer in free if self.fits(stage, trainer)]
        holding = (trainer for trainer in fitting if trainer.holds is not None and trainer.holds == stage.source)
        # Usually the smallest, which keeps large trainers free for stages that need them.
        sign = -1 if self.losses.died(stage.end) else 1
        return next(holding, None) or min(fitting, key=lambda trainer: sign * trainer.memory_bytes, default=None)

    def fits(self, stage: TrainingStage, trainer: PlacedTrainer) -> bool:
        """Tell whether a trainer may run a stage; one that ran out of memory needs the largest, if that has more."""
        tried = self._too_small.get(stage.node)
        return tried is None or tried < trainer.memory_bytes == self.most_bytes

    def is_beyond(self, stage: TrainingStage) -> bool:
        """Tell whether no present trainer has enough memory for a stage."""
        tried = self._too_small.get(stage.node)
        # Without any trainer nobody can tell: one may be on its way.
        return tried is not None and bool(self._trainers) and tried >= self.most_bytes

    def ran_out(self, end: State, trainer: PlacedTrainer, reached: int) -> str | None:
        """Note that a trainer's memory was too small for the stage that ends in a state.

        Parameters
        ----------
        reached:
            Last step that was trained.

        Returns
        -------
        str, optional
            Why it is not tried again; None: it is, on the largest trainer.
        """
        before, most = self._too_small.get(end.node), self.most_bytes
        self._too_small[end.node] = trainer.memory_bytes
        # Once more only: the largest trainer is worth one try, and a second failure says that memory is not enough.
        if before is None and most > trainer.memory_bytes:
            return None
        earlier = "" if before is None else f", and before on one with {_said(before)}"
        return (
            f"out of memory on trainer {trainer.name} with {_said(trainer.memory_bytes)}{earlier}, between steps "
            f"{reached} and {end.step}; the largest trainer has {_said(most)}"
        )

    def why_beyond(self, end: State) -> str:
        """Return the message for a stage that no trainer has enough memory for."""
        tried = _said(self._too_small.get(end.node, 0))
        return (
            f"out of memory on a trainer with {tried}; those with more have gone, and the largest has "
            f"{_said(self.most_bytes)}"
        )


def _said(memory_bytes: int) -> str:
    return f"{memory_bytes:,} bytes of memory" if memory_bytes else "a memory of unknown size"
