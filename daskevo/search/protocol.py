"""What every search strategy offers. An implementation passes :func:`daskevo.testing.strategies.check_strategy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from daskevo.search.requests import Report, Request, Stop, View
from daskevo.space import Space
from daskevo.types import JSON, ModelId, Objective


@runtime_checkable
class Strategy(Protocol):
    """Decides which candidates a run evaluates. Pure: no clock, no I/O, all randomness from its own seeded generator.

    A run calls `start` once, then `ask` and `tell` in any order (asynchronous evolution), always from one thread.
    After each it saves `state()` in the same transaction as what it led to, so a killed run goes on as if nothing had
    happened.
    """

    @property
    def name(self) -> str:
        """Word for the strategy, such as ``aged evolution``."""

    @property
    def settings(self) -> JSON:
        """All parameters that change what is asked. A run is resumed only with equal settings."""

    def start(self, space: Space, objective: Objective, seed: int) -> None:
        """Bind the strategy to a run, with nothing left of an earlier one.

        The same space, objective, seed and reports give the same requests.
        """

    def ask(self, view: View) -> list[Request] | Stop:
        """Return up to `view.wanted` requests; an empty list = wait for a report; `Stop` = nothing left to ask."""

    def tell(self, report: Report) -> None:
        """Take in what came of a request. Failed reports change nothing but bookkeeping."""

    def leave(self) -> list[ModelId]:
        """Return the models that left the population since the last call: the run releases them."""

    def population(self) -> Sequence[ModelId]:
        """Return the models that the strategy still wants kept, oldest first."""

    def state(self) -> JSON:
        """Return everything that `restore` needs to go on exactly, the random generator included."""

    def restore(self, state: JSON) -> None:
        """Take up a state of the same strategy after `start`.

        Raises
        ------
        CorruptRecord
            If it is not a state of this strategy.
        """
