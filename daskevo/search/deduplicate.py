"""A wrapper that never asks for the same candidate twice."""

from __future__ import annotations

from daskevo.search.requests import Stop
from daskevo.search.wrapper import Redrawing
from daskevo.space import Candidate


class Deduplicate(Redrawing):
    """Ask for every candidate at most once.

    daskevo's own strategies do so already; this is for others. Different candidates that are trained alike (with the
    same training key) are found by the run: it reports them as "duplicate" with the known score, and they spend no
    budget.

    Parameters
    ----------
    strategy:
        The wrapped strategy.
    draws:
        Known candidates in a row, for one request, after which the space counts as exhausted.
    """

    word = "deduplicate"

    def wants(self, candidate: Candidate) -> bool:
        return True

    def exhausted(self, found: str) -> Stop:
        return Stop("exhausted", f"{found}: nothing new was found")
