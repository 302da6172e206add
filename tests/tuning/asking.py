"""Search strategies as studies of a simulation: what they ask for are trials, what is continued is the trial again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from daskevo.search import Report, Request, Stop, Strategy, View
from daskevo.tuning import GridSpace, Trial
from daskevo.types import Objective
from daskevo_workflows.studies.trial_lines import Lines


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
        self.lines = Lines(space)
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
        line = self.lines.add(request)
        self.continued_steps += line.trial.until - line.start
        self.requests.append(request)
        self.pending[line.trial] = request
        return line.trial

    def told(self, trial: Trial, metrics: Mapping[str, float]) -> Sequence[Trial]:
        request = self.pending.pop(trial)
        report = Report(request.number, request.model_id, "finished", quality=metrics["loss"], metrics=metrics)
        self.strategy.tell(request, report)
        self.strategy.leave()
        return self.begin()
