"""A wrapper that evaluates each candidate several times and reports the mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from daskevo.errors import InvalidInput
from daskevo.search.continuation import continuing
from daskevo.search.drawing import Seen
from daskevo.search.protocol import Strategy
from daskevo.search.requests import Report, Request, Stop, View, model_id, usable
from daskevo.search.wrapper import Wrapper
from daskevo.space import Candidate, ModelSpace
from daskevo.types import JSON, ModelId, Objective


@dataclass
class _Group:
    """The evaluations of one candidate: its first request, and the reports so far by repeat."""

    first: Request
    reports: dict[int, Report] = field(default_factory=dict)


class Repeat(Wrapper):
    """Evaluate every candidate several times, with different initial weights, and report the mean.

    Parameters
    ----------
    strategy:
        The wrapped strategy. It is told once per candidate: the means of quality and metrics over the finished
        evaluations, with the model of the best one; the other models leave.
    times:
        Evaluations per candidate. Each one counts against the budget.

    Notes
    -----
    All of them train from scratch: for the second, the best match would be the first one's whole model, and nothing
    would be left to train.
    """

    word = "repeat"
    asks_again = True

    def __init__(self, strategy: Strategy, times: int = 3) -> None:
        super().__init__(strategy)
        if times < 1:
            raise InvalidInput(f"times={times}: use 1 or more")
        if continuing(strategy) is not None:
            raise InvalidInput(
                f"the strategy {strategy.name!r} continues the models of its candidates, and a repeated one has "
                "several: repeat a strategy that trains each candidate in one piece"
            )
        self.times = times

    @property
    def own_settings(self) -> dict[str, JSON]:
        return {"times": self.times}

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        super().start(space, objectives, seed)
        self._objective = objectives[0]
        self._open: dict[Candidate, _Group] = {}
        self._left: list[ModelId] = []

    def ask(self, view: View) -> list[Request] | Stop:
        firsts, known = self._known(view)
        requests: list[Request] = []
        for candidate, first in firsts.items():
            missing = [repeat for repeat in range(self.times) if repeat not in known[candidate]]
            # Begun candidates first: until all their repeats are reported the strategy learns nothing of them.
            requests += [_repeated(first, repeat) for repeat in missing]
        stop: Stop | None = None
        asked = Seen(view.asked)
        while len(requests) < view.wanted and stop is None:
            inner = replace(
                view,
                wanted=1,
                next_number=view.next_number + len(requests),
                asked=asked,
                # The strategy knows one request of each candidate, the first.
                pending=sorted(firsts.values(), key=lambda request: request.number),
            )
            answer = self.strategy.ask(inner)
            if isinstance(answer, Stop):
                stop = answer
            elif not answer:
                break
            else:
                first = replace(answer[0], transfer=False)
                firsts[first.candidate] = first
                asked.add(first.candidate)
                requests += [_repeated(first, repeat) for repeat in range(self.times)]
        numbered = [
            replace(request, number=number, model_id=model_id(view.prefix, number))
            for number, request in enumerate(requests[: view.wanted], start=view.next_number)
        ]
        return numbered if numbered or stop is None else stop

    def _known(self, view: View) -> tuple[dict[Candidate, Request], dict[Candidate, set[int]]]:
        """Return the first requests of unfinished candidates, and which of their repeats were asked for."""
        firsts = {candidate: group.first for candidate, group in self._open.items()}
        known = {candidate: set(group.reports) for candidate, group in self._open.items()}
        for request in view.pending:
            first = firsts.setdefault(request.candidate, request)
            if request.number < first.number:
                firsts[request.candidate] = request
            known.setdefault(request.candidate, set()).add(request.repeat)
        return firsts, known

    def tell(self, request: Request, report: Report) -> None:
        group = self._open.setdefault(request.candidate, _Group(request))
        if request.number < group.first.number:
            group.first = request
        group.reports[request.repeat] = report
        if len(group.reports) < self.times:
            return
        del self._open[request.candidate]
        told = self._mean(list(group.reports.values()))
        # A duplicate's model is another candidate's, so it must not leave with this one.
        models = {r.model_id for r in group.reports.values() if r.own_quality is not None}
        self._left += sorted(models - {told.model_id})
        self.strategy.tell(group.first, replace(told, number=group.first.number))

    def _mean(self, reports: Sequence[Report]) -> Report:
        """Return one report for several: the best one's, with the means of all finished; or the last failure."""
        scored = [report for report in reports if report.status != "failed" and usable(report.quality)]
        if not scored:
            return reports[-1]
        # Prefer a finished report over a duplicate, whose model belongs to another candidate.
        best = max(scored, key=lambda r: (r.status == "finished", self._objective.rank(r.quality or 0.0), -r.number))
        qualities = [float(report.quality) for report in scored if report.quality is not None]
        return replace(
            best,
            quality=math.fsum(qualities) / len(qualities),
            metrics=_means([report.metrics for report in scored]),
        )

    def leave(self) -> list[ModelId]:
        left, self._left = self._left, []
        return [*left, *self.strategy.leave()]

    def population(self) -> Sequence[ModelId]:
        waiting = [
            (report.number, report.model_id)
            for group in self._open.values()
            for report in group.reports.values()
            if report.own_quality is not None
        ]
        return [*self.strategy.population(), *(name for _, name in sorted(waiting))]


def _repeated(first: Request, repeat: int) -> Request:
    return replace(first, repeat=repeat)


def _means(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the means of the metrics that all of them have."""
    names = [name for name in metrics[0] if all(usable(found.get(name)) for found in metrics)]
    return {name: math.fsum(found[name] for found in metrics) / len(metrics) for name in names}


def repeating(strategy: Strategy) -> Repeat | None:
    """Return the wrapper that evaluates candidates several times: this strategy, or one that it wraps; None if none."""
    # By attribute, not by `Wrapper`: a user's wrapper need not derive from ours.
    within: object = strategy
    while within is not None and not (isinstance(within, Repeat) and within.times > 1):
        within = getattr(within, "strategy", None)
    return within
