"""The interface of search strategies; :func:`daskevo.testing.strategies.check_strategy` checks implementations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from daskevo.search.requests import Report, Request, Stop, View
from daskevo.space import ModelSpace
from daskevo.types import JSON, ModelId, Objective


@runtime_checkable
class Strategy(Protocol):
    """Decides which candidates a run evaluates. Pure: no clock, no I/O.

    A run calls `start` once, then `ask` and `tell` in any order (asynchronous evolution), always from one thread.

    Only a strategy's settings are stored. To resume a run, the strategy is started again and told all earlier reports
    in the same order; then it must ask as if it had never stopped. So its requests may depend on `start`, on the
    reports and on the view, but never on earlier calls of `ask`. All randomness of a request comes from a generator
    seeded with the run's seed and the request's number (:func:`daskevo.search.drawing.generator`).
    """

    @property
    def name(self) -> str:
        """The strategy's name, such as ``aged evolution``."""

    @property
    def settings(self) -> JSON:
        """All parameters that affect its requests. A run is resumed only with equal settings."""

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        """Prepare for a run, forgetting any earlier one.

        Parameters
        ----------
        objectives:
            What counts as better, one or several. A single-objective strategy uses the first.

        Raises
        ------
        InvalidInput
            If it can't search this space, or with this many objectives.
        """

    def ask(self, view: View) -> list[Request] | Stop:
        """Return up to `view.wanted` requests; an empty list = wait for a report; `Stop` = nothing left to ask."""

    def tell(self, request: Request, report: Report) -> None:
        """Learn the report of a request. Failed reports may change bookkeeping only."""

    def leave(self) -> list[ModelId]:
        """Return the models that left the population since the last call; the run releases them."""

    def stop(self) -> list[int]:
        """Return the numbers of pending requests not worth finishing, each once; the run cancels them."""

    def population(self) -> Sequence[ModelId]:
        """Return the models that the strategy wants to keep, oldest first."""
