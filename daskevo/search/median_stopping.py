"""Median stopping: end a training whose best quality is below the median of the running averages of finished ones.

Golovin et al., "Google Vizier: A Service for Black-Box Optimization" (KDD 2017), section 3.2.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

from daskevo.errors import InvalidInput
from daskevo.search.continuation import Continuing, check_count, continued
from daskevo.search.drawing import Seen
from daskevo.search.requests import Request, Stop, View
from daskevo.space import Candidate, ModelSpace
from daskevo.types import JSON, ModelId, Objective


@dataclass
class _Line:
    """A candidate in training: its ranks so far, one per `every` steps."""

    candidate: Candidate
    ranks: list[float]


class MedianStopping(Continuing):
    """Train random candidates, and stop each one that is clearly worse than fully trained ones were.

    Parameters
    ----------
    every:
        Steps between two decisions about a candidate.
    most:
        Steps of a full training, a multiple of `every`.
    least:
        Number of fully trained candidates before any is stopped.
    candidates:
        Number of candidates that start; None = until the run's budget or the space is exhausted.

    Notes
    -----
    A candidate stops at a step if its best quality so far is worse than the median, over the fully trained candidates,
    of their mean quality up to that step (Vizier's rule: equal is not worse). If a new fully trained one raises the
    median while a candidate's next part is running, that part is cancelled (`stop`). Continuing comes before new
    candidates. Each part is an evaluation of the run's budget. See ``daskevo.search.continuation`` for what a run
    needs.

    Raises
    ------
    InvalidInput
        If `most` is not a multiple of `every`.
    """

    name = "median stopping"

    def __init__(self, every: int, most: int, least: int = 5, candidates: int | None = None) -> None:
        check_count(least, "least")
        check_count(candidates, "candidates")
        if type(every) is not int or type(most) is not int or not 1 <= every <= most or most % every:
            raise InvalidInput(f"every={every!r}, most={most!r}: use whole numbers from 1, most a multiple of every")
        self.every = every
        self.most = most
        self.least = least
        self.candidates = candidates

    @property
    def settings(self) -> JSON:
        return {"every": self.every, "most": self.most, "least": self.least, "candidates": self.candidates}

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        super().start(space, objectives, seed)
        self._begun = 0
        self._lines: dict[ModelId, _Line] = {}
        # For each fully trained candidate, the mean of its first 1, 2, ... ranks. # (n_complete, most / every)
        self._means: list[list[float]] = []
        self._hopeless: set[ModelId] = set()
        # Model -> pending request that continues it, as of the last `ask`. Used for cancelling only: requests must not
        # depend on earlier calls of `ask`.
        self._under_way: dict[ModelId, int] = {}

    def _take(self, request: Request, name: ModelId, rank: float | None) -> None:
        if request.continues is None:
            self._begun += 1
            line: _Line | None = _Line(request.candidate, [])
        else:
            self._let_go(request.continues)
            # Its cancellation is not needed any more: the part has ended by itself.
            self._hopeless.discard(request.continues)
            line = self._lines.pop(request.continues, None)
        if rank is None:
            return
        self._keep(name)
        if line is None:
            # It finished after it had been given up, before the cancellation arrived.
            self._let_go(name)
            return
        line.ranks.append(rank)
        if len(line.ranks) * self.every == self.most:
            self._let_go(name)
            self._means.append([total / count for count, total in enumerate(accumulate(line.ranks), start=1)])
            self._give_up()
        elif self._is_hopeless(line):
            self._let_go(name)
        else:
            self._lines[name] = line

    def _is_hopeless(self, line: _Line) -> bool:
        # The median of a few would stop candidates by chance.
        if len(self._means) < self.least:
            return False
        return max(line.ranks) < median(means[len(line.ranks) - 1] for means in self._means)

    def _give_up(self) -> None:
        """Stop the candidates that are hopeless now that another one is fully trained."""
        for name in [name for name, line in self._lines.items() if self._is_hopeless(line)]:
            del self._lines[name]
            self._hopeless.add(name)
            self._let_go(name)

    def ask(self, view: View) -> list[Request] | Stop:
        under_way = continued(view)
        lines = [(name, line) for name, line in self._lines.items() if name not in under_way][: view.wanted]
        requests = [
            self._go_on(view, offset, line.candidate, name, (len(line.ranks) + 1) * self.every)
            for offset, (name, line) in enumerate(lines)
        ]
        begun = self._begun + sum(request.continues is None for request in view.pending)
        stop: Stop | None = None
        seen = Seen(view.asked)
        while len(requests) < view.wanted and stop is None:
            if self.candidates is not None and begun >= self.candidates:
                stop = Stop("done", f"all of {self.candidates} candidates have begun, and none goes on")
                break
            made = self._begin(view, len(requests), seen, self.every)
            if isinstance(made, Stop):
                stop = made
            else:
                requests.append(made)
                begun += 1
        self._under_way = {
            request.continues: request.number for request in (*view.pending, *requests) if request.continues is not None
        }
        # Parts that are running may be continued, so there is more to ask for until all have ended.
        return requests if requests or view.pending or stop is None else stop

    def stop(self) -> list[int]:
        given_up = [name for name in self._under_way if name in self._hopeless]
        self._hopeless.difference_update(given_up)
        return [self._under_way[name] for name in given_up]
