"""Search strategies: which candidate to evaluate next."""

from __future__ import annotations

from daskevo.search.asynchronous_halving import AsynchronousHalving
from daskevo.search.deduplicate import Deduplicate
from daskevo.search.evolution import AgedEvolution, NonAgedEvolution
from daskevo.search.filter import Filter
from daskevo.search.grid import Grid
from daskevo.search.halving import Hyperband, SuccessiveHalving
from daskevo.search.median_stopping import MedianStopping
from daskevo.search.multi_objective import MultiObjectiveEvolution
from daskevo.search.optuna_search import Optuna
from daskevo.search.population_based import PopulationBasedTraining
from daskevo.search.protocol import Strategy
from daskevo.search.random_search import Random
from daskevo.search.reinforce import Reinforce
from daskevo.search.repeat import Repeat
from daskevo.search.replay import Replay
from daskevo.search.requests import BEST_MATCH, Failure, FailureKind, Report, Request, Stop, View, model_id, usable
from daskevo.search.retry import Retry
from daskevo.search.transfer_report import TransferReport

__all__ = [
    "BEST_MATCH",
    "AgedEvolution",
    "AsynchronousHalving",
    "Deduplicate",
    "Failure",
    "FailureKind",
    "Filter",
    "Grid",
    "Hyperband",
    "MedianStopping",
    "MultiObjectiveEvolution",
    "NonAgedEvolution",
    "Optuna",
    "PopulationBasedTraining",
    "Random",
    "Reinforce",
    "Repeat",
    "Replay",
    "Report",
    "Request",
    "Retry",
    "Stop",
    "Strategy",
    "SuccessiveHalving",
    "TransferReport",
    "View",
    "model_id",
    "usable",
]
