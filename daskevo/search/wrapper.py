"""Base classes of wrappers, which are strategies around another strategy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace

from daskevo.errors import InvalidInput
from daskevo.search.drawing import Seen
from daskevo.search.protocol import Strategy
from daskevo.search.requests import Report, Request, Stop, View, model_id
from daskevo.space import Candidate, ModelSpace
from daskevo.types import JSON, ModelId, Objective

APART = 2**40
"""Added to a request's number for each further draw; no run has so many requests, so each has its own generator."""


class Wrapper:
    """Passes everything on to another strategy.

    Parameters
    ----------
    strategy:
        The wrapped strategy.

    Raises
    ------
    InvalidInput
        If it is not a strategy.
    """

    word: str
    """The wrapper's word in its name."""
    asks_again = False
    """Whether it asks on purpose for candidates that were asked for before."""

    def __init__(self, strategy: Strategy) -> None:
        if not isinstance(strategy, Strategy):
            raise InvalidInput(f"{type(strategy).__name__} is no strategy: see daskevo.search.Strategy for its parts")
        self.strategy = strategy

    @property
    def name(self) -> str:
        return f"{self.word}({self.strategy.name})"

    @property
    def own_settings(self) -> dict[str, JSON]:
        """Return the wrapper's own settings."""
        return {}

    @property
    def settings(self) -> JSON:
        return {**self.own_settings, "strategy": {"name": self.strategy.name, "settings": self.strategy.settings}}

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        self._space = space
        self.strategy.start(space, objectives, seed)

    def ask(self, view: View) -> list[Request] | Stop:
        return self.strategy.ask(view)

    def tell(self, request: Request, report: Report) -> None:
        self.strategy.tell(request, report)

    def leave(self) -> list[ModelId]:
        return self.strategy.leave()

    def stop(self) -> list[int]:
        return self.strategy.stop()

    def population(self) -> Sequence[ModelId]:
        return self.strategy.population()


class Redrawing(Wrapper):
    """Asks the wrapped strategy again for unwanted candidates, up to a limit.

    Parameters
    ----------
    strategy:
        The wrapped strategy. One that respects the view's asked candidates proposes no unwanted ones; others are asked
        again, each time with another random generator.
    draws:
        Unwanted proposals in a row, for one request, after which the search ends.
    """

    def __init__(self, strategy: Strategy, draws: int = 200) -> None:
        super().__init__(strategy)
        if draws < 1:
            raise InvalidInput(f"draws={draws}: use 1 or more")
        within = strategy
        while isinstance(within, Wrapper):
            if within.asks_again:
                raise InvalidInput(
                    f"{within.word} asks for known candidates on purpose, and {self.word} refuses them: put it "
                    f"around, {within.word}({self.word}(...))"
                )
            within = within.strategy
        self.draws = draws

    @property
    def own_settings(self) -> dict[str, JSON]:
        return {"draws": self.draws}

    @abstractmethod
    def wants(self, candidate: Candidate) -> bool:
        """Tell whether a candidate may be asked for; always the same answer for the same candidate."""

    def exhausted(self, found: str) -> Stop:
        """Return the final answer, given the reason."""
        return Stop("exhausted", found)

    def ask(self, view: View) -> list[Request] | Stop:
        # One request at a time, so that each unwanted proposal can be redrawn by itself.
        requests: list[Request] = []
        for offset in range(view.wanted):
            asked = _Unwanted(view.asked, self)
            for request in requests:
                asked.add(request.candidate)
            answer = self._one(
                replace(
                    view,
                    wanted=1,
                    next_number=view.next_number + offset,
                    asked=asked,
                    pending=[*view.pending, *requests],
                )
            )
            if isinstance(answer, Stop):
                # A Stop can't be returned with requests; the strategy gives it again at the next call, when there are
                # none.
                return requests or self.exhausted(answer.message)
            if answer is None:
                break
            requests.append(answer)
        return requests

    def _one(self, view: View) -> Request | Stop | None:
        number = view.next_number
        for draw in range(self.draws):
            # Another number gives another random generator; with the same one it would propose the same again.
            answer = self.strategy.ask(replace(view, next_number=number + draw * APART))
            if isinstance(answer, Stop):
                return answer
            if not answer:
                return None
            request = answer[0]
            # A continued candidate is known already, and may be asked for again.
            if self.wants(request.candidate) if request.continues else request.candidate not in view.asked:
                # Back to the number that the run expects.
                return replace(request, number=number, model_id=model_id(view.prefix, number))
        return Stop("exhausted", f"{self.draws} candidates in a row that strategy {self.strategy.name!r} asked for")


class _Unwanted(Seen):
    """Candidates that must not be asked for: known ones, and those that a wrapper doesn't want."""

    def __init__(self, asked: Collection[Candidate], wrapper: Redrawing) -> None:
        super().__init__(asked)
        self._wrapper = wrapper

    def __contains__(self, candidate: object) -> bool:
        if super().__contains__(candidate):
            return True
        return isinstance(candidate, Candidate) and not self._wrapper.wants(candidate)
