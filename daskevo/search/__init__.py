"""Search strategies: which candidate to evaluate next."""

from __future__ import annotations

from daskevo.search.evolution import AgedEvolution, NonAgedEvolution
from daskevo.search.grid import Grid
from daskevo.search.multi_objective import MultiObjectiveEvolution
from daskevo.search.optuna_search import Optuna
from daskevo.search.protocol import Strategy
from daskevo.search.random_search import Random
from daskevo.search.reinforce import Reinforce
from daskevo.search.requests import BEST_MATCH, Failure, FailureKind, Report, Request, Stop, View, model_id, usable

__all__ = [
    "BEST_MATCH",
    "AgedEvolution",
    "Failure",
    "FailureKind",
    "Grid",
    "MultiObjectiveEvolution",
    "NonAgedEvolution",
    "Optuna",
    "Random",
    "Reinforce",
    "Report",
    "Request",
    "Stop",
    "Strategy",
    "View",
    "model_id",
    "usable",
]
