"""Search strategies as studies of a simulation: what they ask for are trials, what is continued is the trial again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from daskevo.search import Report, Request, Stop, Strategy, View
from daskevo.space import Candidate
from daskevo.tuning import Configuration, GridSpace, Trial, concatenate
from daskevo.types import Objective

History = tuple[tuple[int, Candidate], ...]
"""Which candidate's hyper-parameters hold from which step on: several for clones of population based training."""


class Asking:
    """A study that a strategy leads.

    Parameters
    ----------
    strategy, space:
        It is started on the space, to minimise ``loss``.
    at_once:
        Requests under way together.
    """

    def __init__(self, strategy: Strategy, space: GridSpace, at_once: int, seed: int = 0) -> None:
        self.strategy, self.space, self.at_once = strategy, space, at_once
        strategy.start(space, (Objective.parse("min loss"),), seed)
        self.requests: list[Request] = []
        self.pending: dict[Trial, Request] = {}
        self.lines: dict[str, tuple[str, History, int]] = {}
        self.continued_steps = 0

    def begin(self) -> Sequence[Trial]:
        answer = self.strategy.ask(
            View(
                self.at_once - len(self.pending),
                len(self.requests),
                "study",
                {request.candidate for request in self.requests},
                list(self.pending.values()),
            )
        )
        return [] if isinstance(answer, Stop) else [self._trial(request) for request in answer]

    def _trial(self, request: Request) -> Trial:
        assert request.until_step is not None
        name, start = f"trial-{request.number}", 0
        history: History = ((0, request.candidate),)
        if request.continues is not None:
            name_before, history, start = self.lines[request.continues]
            if request.parent is None:
                name = name_before
            else:
                history += ((start, request.candidate),)
        self.continued_steps += request.until_step - start
        trial = Trial(name, self._configuration(history), request.until_step)
        self.lines[request.model_id] = name, history, request.until_step
        self.requests.append(request)
        self.pending[trial] = request
        return trial

    def _configuration(self, history: History) -> Configuration:
        parts = [(step, self.space.configuration(candidate)) for step, candidate in history]
        first = parts[0][1]
        return Configuration(
            {
                name: concatenate(sequence, *((step, part.sequences[name]) for step, part in parts[1:]))
                for name, sequence in first.sequences.items()
            },
            first.constants,
            first.unit,
        )

    def told(self, trial: Trial, metrics: Mapping[str, float]) -> Sequence[Trial]:
        request = self.pending.pop(trial)
        report = Report(request.number, request.model_id, "finished", quality=metrics["loss"], metrics=metrics)
        self.strategy.tell(request, report)
        self.strategy.leave()
        return self.begin()
