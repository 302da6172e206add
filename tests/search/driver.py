"""Drives a strategy as a run does, without a cluster."""

from __future__ import annotations

from collections.abc import Callable

from daskevo.search import Failure, Report, Request, Stop, Strategy, View
from daskevo.space import Candidate, Choice, Space
from daskevo.types import Objective

SPACE = Space("s", tuple(Choice(f"c{number}", (0, 1, 2, 3)) for number in range(5)))
TINY = Space("t", tuple(Choice(f"c{number}", (0, 1)) for number in range(3)))
MAX, MIN = Objective.parse("max q"), Objective.parse("min q")


class Run:
    """Drives a strategy as a run does, without a cluster."""

    def __init__(self, strategy: Strategy, space: Space = SPACE, objective: Objective = MAX, seed: int = 0) -> None:
        self.strategy, self.space = strategy, space
        strategy.start(space, objective, seed)
        self.requests: list[Request] = []
        self.asked: set[Candidate] = set()
        self.pending: list[Request] = []
        self.left: list[str] = []
        self.stop: Stop | None = None

    def ask(self, wanted: int = 1) -> list[Request]:
        answer = self.strategy.ask(View(wanted, len(self.requests), "run", self.asked, len(self.pending)))
        if isinstance(answer, Stop):
            self.stop = answer
            return []
        assert [request.number for request in answer] == list(
            range(len(self.requests), len(self.requests) + len(answer))
        )
        self.requests += answer
        self.pending += answer
        self.asked |= {request.candidate for request in answer}
        return answer

    def tell(self, request: Request, quality: float | None, status: str = "finished") -> None:
        self.pending.remove(request)
        failure = Failure("not finite", "") if status == "failed" else None
        self.strategy.tell(Report(request.number, request.model_id, status, quality=quality, failure=failure))  # type: ignore[arg-type]
        self.left += self.strategy.leave()

    def go(self, evaluations: int, quality: Callable[[Candidate], float] = lambda c: float(sum(c.values))) -> None:
        for _ in range(evaluations):
            for request in self.ask():
                self.tell(request, quality(request.candidate))
