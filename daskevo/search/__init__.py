"""Search strategies: which candidate to evaluate next."""

from __future__ import annotations

from daskevo.search.evolution import AgedEvolution
from daskevo.search.protocol import Strategy
from daskevo.search.random_search import Random
from daskevo.search.requests import BEST_MATCH, Failure, FailureKind, Report, Request, Stop, View, model_id, usable

__all__ = [
    "BEST_MATCH",
    "AgedEvolution",
    "Failure",
    "FailureKind",
    "Random",
    "Report",
    "Request",
    "Stop",
    "Strategy",
    "View",
    "model_id",
    "usable",
]
