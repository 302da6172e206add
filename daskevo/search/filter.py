"""A wrapper that asks only for candidates passing a user's test, before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from daskevo.errors import DaskevoError, InvalidInput
from daskevo.search.protocol import Strategy
from daskevo.search.requests import Stop
from daskevo.search.wrapper import Redrawing
from daskevo.space import Candidate, ModelSpace
from daskevo.space.builder import source_digest
from daskevo.types import JSON, Objective

REMEMBERED = 100_000
"""Candidates whose test is remembered."""


class Filter(Redrawing):
    """Ask only for candidates whose options pass a test.

    For conditions on the model (parameters, depth, FLOPs) use `limits` of :func:`daskevo_workflows.nas.search`.

    Parameters
    ----------
    strategy:
        The wrapped strategy.
    test:
        Takes choice name -> option; returns whether the candidate may be asked for, and always the same for the same.
    what:
        What the test demands, for messages and the record: ``at most 4 layers``.
    draws:
        Candidates in a row that fail the test, for one request, after which the search ends.

    Attributes
    ----------
    rejected:
        Number of different candidates that failed the test in this run; beyond 100,000 some may count twice.
    """

    word = "filter"

    def __init__(
        self, strategy: Strategy, test: Callable[[dict[str, JSON]], bool], what: str, draws: int = 200
    ) -> None:
        super().__init__(strategy, draws)
        if not callable(test):
            raise InvalidInput(f"the test of a filter is a function of a candidate's choices, not {test!r:.80}")
        if not (isinstance(what, str) and what):
            raise InvalidInput("say in `what` what the filter demands, such as 'at most 4 layers'")
        self.test = test
        self.what = what
        self.rejected = 0

    @property
    def own_settings(self) -> dict[str, JSON]:
        # With the test's source: a run is not resumed with another test, which would have asked for other candidates.
        return {**super().own_settings, "what": self.what, "test": source_digest(self.test)}

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        super().start(space, objectives, seed)
        self.rejected = 0
        self._known: dict[Candidate, bool] = {}

    def wants(self, candidate: Candidate) -> bool:
        known = self._known.get(candidate)
        if known is None:
            if len(self._known) >= REMEMBERED:
                # All at once: a lost answer costs one more call of the test.
                self._known.clear()
            known = self._known[candidate] = self._passes(candidate)
            self.rejected += not known
        return known

    def _passes(self, candidate: Candidate) -> bool:
        values = self._space.values(candidate)
        try:
            return bool(self.test(values))
        # Such an error says already what is wrong and what to do.
        except DaskevoError:
            raise
        except Exception as error:
            raise InvalidInput(
                f"the test of filter {self.what!r} raised {type(error).__name__}: {error} "
                f"for the choices {values!r:.300}"
            ) from error

    def exhausted(self, found: str) -> Stop:
        return Stop(
            "exhausted", f"{found}: none was new and passed the filter {self.what!r}, which rejected {self.rejected}"
        )
