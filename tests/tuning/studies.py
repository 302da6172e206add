"""Studies to simulate: successive halving, its asynchronous variant, and grids of the paper's kinds of sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from daskevo.tuning import (
    Configuration,
    Constant,
    Cosine,
    Exponential,
    GridSpace,
    MultiStep,
    Trial,
    grid,
    warmup,
)


class Halving:
    """Successive halving: after each rung the better ones go on, from where they are."""

    def __init__(self, configurations: Sequence[Configuration], rungs: Sequence[int], keep: int) -> None:
        self.trials = [Trial(f"trial-{number}", each, rungs[0]) for number, each in enumerate(configurations)]
        self.rungs = rungs
        self.keep = keep
        self.scores: dict[Trial, float] = {}

    def begin(self) -> Sequence[Trial]:
        return self.trials

    def told(self, trial: Trial, metrics: Mapping[str, float]) -> Sequence[Trial]:
        self.scores[trial] = metrics["loss"]
        later = self.rungs[self.rungs.index(trial.until) + 1 :]
        if len(self.scores) < len(self.trials) or not later:
            return ()
        best = sorted(self.scores, key=lambda one: (self.scores[one], one.name))[: len(self.trials) // self.keep]
        self.trials, self.scores = [one._replace(until=later[0]) for one in best], {}
        return self.trials


class AsynchronousHalving:
    """ASHA: who is among the best of a rung so far goes on at once.

    Parameters
    ----------
    at_once:
        Trials under way together; for each that is told and lets none go on, a new one is begun. None: all.
    """

    def __init__(
        self, configurations: Sequence[Configuration], rungs: Sequence[int], keep: int, at_once: int | None = None
    ) -> None:
        trials = [Trial(f"trial-{number}", each, rungs[0]) for number, each in enumerate(configurations)]
        self.trials, self.waiting = trials[:at_once], trials[len(trials[:at_once]) :]
        self.rungs = rungs
        self.keep = keep
        self.scores: dict[int, dict[Trial, float]] = {rung: {} for rung in rungs}
        self.promoted: set[Trial] = set()

    def begin(self) -> Sequence[Trial]:
        return self.trials

    def told(self, trial: Trial, metrics: Mapping[str, float]) -> Sequence[Trial]:
        scores = self.scores[trial.until]
        scores[trial] = metrics["loss"]
        later = self.rungs[self.rungs.index(trial.until) + 1 :]
        if not later:
            return self._next()
        best = sorted(scores, key=lambda one: (scores[one], one.name))[: len(scores) // self.keep]
        rising = [one for one in best if one not in self.promoted]
        self.promoted.update(rising)
        return [one._replace(until=later[0]) for one in rising] or self._next()

    def _next(self) -> Sequence[Trial]:
        """Begin a new trial, if there are any."""
        new, self.waiting = self.waiting[:1], self.waiting[1:]
        return new


def loss(configuration: Configuration, step: int) -> Mapping[str, float]:
    """Any figure that only depends on the state."""
    return {"loss": int(configuration.key(step)[:6], 16) / 16**6}


def paper_grid() -> GridSpace:
    """48 trials of the paper's kinds of sequences (its table 6.1), meant for 60 epochs."""
    return grid(
        learning_rate=[
            MultiStep(0.1, (30, 45), 0.1),
            MultiStep(0.1, (40, 50), 0.1),
            MultiStep(0.1, (20,), 0.1),
            warmup(0.01, 5, MultiStep(0.1, (30,), 0.1)),
            warmup(0.01, 5, Exponential(0.1, 0.95)),
            warmup(0.01, 5, Cosine(0.1, 0.0, 55)),
        ],
        batch_size=[Constant(128), MultiStep(128, (20,), 2), MultiStep(128, (30,), 2), MultiStep(128, (40,), 2)],
        momentum=[Constant(0.9), MultiStep(0.9, (30,), 1.05)],
        unit="epoch",
    )


def trials_of(space: GridSpace, until: int) -> list[Trial]:
    """Return all trials of a space."""
    return [
        Trial(f"trial-{number}", space.configuration(candidate), until)
        for number, candidate in enumerate(space.enumerate())
    ]
