"""Which trainer a stage goes to: who has its model, who has the memory, who was tried before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daskevo.tuning.plan import State
from daskevo.tuning.stages import TrainingStage


@dataclass(slots=True)
class PlacedTrainer:
    """One that can take work.

    Parameters
    ----------
    memory_bytes:
        Of its device; 0 if that isn't known.
    work:
        What it does.
    holds:
        The state that it has in memory, as the end of what it did last.
    """

    name: str
    memory_bytes: int = 0
    work: str | None = None
    holds: State | None = None


class Placing:
    """Places stages, and knows which have had bad luck.

    Parameters
    ----------
    trainers:
        Those that are there, by name; somebody else's, which may change.
    """

    def __init__(self, trainers: Mapping[str, PlacedTrainer]) -> None:
        self._trainers = trainers
        self._too_small: dict[int, int] = {}
        self.losses: dict[State, int] = {}
        """How many trainers were lost in the stage that ends there."""

    @property
    def most_bytes(self) -> int:
        """Memory of the largest trainer that is there; 0 if nobody's is known."""
        return max((trainer.memory_bytes for trainer in self._trainers.values()), default=0)

    def place(self, stage: TrainingStage, free: Sequence[PlacedTrainer]) -> PlacedTrainer | None:
        """Return the trainer for a stage: best the one that has its model, else the smallest.

        A stage that ran out of memory has only one more try, on the largest trainer, free or not. One whose trainer was
        lost goes to the largest that is free: many a process dies of what it has taken.
        """
        fitting = [trainer for trainer in free if self.fits(stage, trainer)]
        holding = (trainer for trainer in fitting if trainer.holds is not None and trainer.holds == stage.source)
        sign = -1 if stage.end in self.losses else 1
        return next(holding, None) or min(fitting, key=lambda trainer: sign * trainer.memory_bytes, default=None)

    def fits(self, stage: TrainingStage, trainer: PlacedTrainer) -> bool:
        """Tell whether a trainer may have a stage: one that ran out of memory only the largest, if that has more."""
        tried = self._too_small.get(stage.node)
        return tried is None or tried < trainer.memory_bytes == self.most_bytes

    def is_beyond(self, stage: TrainingStage) -> bool:
        """Tell whether no trainer that is there has enough memory for a stage."""
        tried = self._too_small.get(stage.node)
        return tried is not None and bool(self._trainers) and tried >= self.most_bytes

    def ran_out(self, end: State, trainer: PlacedTrainer, reached: int) -> str | None:
        """Take in that a trainer's memory was too small for the stage that ends there.

        Parameters
        ----------
        reached:
            The last step that was trained.

        Returns
        -------
        str, optional
            Why it is not tried again; None: it is, on the largest trainer.
        """
        before, most = self._too_small.get(end.node), self.most_bytes
        self._too_small[end.node] = trainer.memory_bytes
        if before is None and most > trainer.memory_bytes:
            return None
        earlier = "" if before is None else f", and before on one with {_said(before)}"
        return (
            f"out of memory on trainer {trainer.name} with {_said(trainer.memory_bytes)}{earlier}, between steps "
            f"{reached} and {end.step}; the largest trainer has {_said(most)}"
        )

    def why_beyond(self, end: State) -> str:
        """Say of a stage for which no trainer came that has enough memory why it can't be had."""
        tried = _said(self._too_small.get(end.node, 0))
        return (
            f"out of memory on a trainer with {tried}; those with more have gone, and the largest has "
            f"{_said(self.most_bytes)}"
        )


def _said(memory_bytes: int) -> str:
    return f"{memory_bytes:,} bytes of memory" if memory_bytes else "a memory of unknown size"
