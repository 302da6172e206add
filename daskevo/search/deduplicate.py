"""No candidate is asked for twice, whatever the strategy within does."""

from __future__ import annotations

from daskevo.search.requests import Stop
from daskevo.search.wrapper import Redrawing
from daskevo.space import Candidate


class Deduplicate(Redrawing):
    """Ask for every candidate once.

    daskevo's own strategies never repeat themselves; this is for others. Candidates that differ and are trained alike
    (the same training key) are found by the run: they are reported "duplicate", with the known score, and spend no
    budget.

    Parameters
    ----------
    strategy:
        The strategy within.
    draws:
        So many known candidates in a row, for one request, and the space is taken to be exhausted.
    """

    word = "deduplicate"

    def wants(self, candidate: Candidate) -> bool:
        return True

    def exhausted(self, found: str) -> Stop:
        return Stop("exhausted", f"{found}: nothing new was found")
