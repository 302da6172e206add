"""What every search strategy offers. An implementation passes :func:`daskevo.testing.strategies.check_strategy`."""

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

    Nothing of a strategy is stored but its settings. When a killed run goes on, it is started again, and told again all
    that it was told, in the same order; then it must ask as if nothing had happened. So what is asked depends on
    `start`, on what was told, and on the view, and never on earlier calls of `ask`; all randomness of a request comes
    from a generator seeded by the run's seed and the request's number (:func:`daskevo.search.drawing.generator`).
    """

    @property
    def name(self) -> str:
        """Word for the strategy, such as ``aged evolution``."""

    @property
    def settings(self) -> JSON:
        """All parameters that change what is asked. A run is resumed only with equal settings."""

    def start(self, space: ModelSpace, objectives: Sequence[Objective], seed: int) -> None:
        """Bind the strategy to a run, with nothing left of an earlier one.

        Parameters
        ----------
        objectives:
            What counts as better, one or several. A strategy for one takes the first.

        Raises
        ------
        InvalidInput
            If it can't search such a space, or for so many objectives.
        """

    def ask(self, view: View) -> list[Request] | Stop:
        """Return up to `view.wanted` requests; an empty list = wait for a report; `Stop` = nothing left to ask."""

    def tell(self, request: Request, report: Report) -> None:
        """Take in what came of a request. Failed reports change nothing but bookkeeping."""

    def leave(self) -> list[ModelId]:
        """Return the models that left the population since the last call: the run releases them."""

    def stop(self) -> list[int]:
        """Return the numbers of pending requests that aren't worth finishing, each once: the run gives them up."""

    def population(self) -> Sequence[ModelId]:
        """Return the models that the strategy still wants kept, oldest first."""
