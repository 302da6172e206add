"""A search on a cluster, simulated: what it would take with so many trainers, and what would hold it up.

Strategies, the run's state, planner, the state machines of shards and coordinator and the prefix index are the real
ones; time is made of measured costs.
"""

from __future__ import annotations

from daskevo_workflows.simulate.costs import MeasuredCosts, Phase
from daskevo_workflows.simulate.graphs import layered, layered_space, of_problem
from daskevo_workflows.simulate.outcome import SimulatedOutcome
from daskevo_workflows.simulate.queries import Answered, queries
from daskevo_workflows.simulate.searching import search

__all__ = [
    "Answered",
    "MeasuredCosts",
    "Phase",
    "SimulatedOutcome",
    "layered",
    "layered_space",
    "of_problem",
    "queries",
    "search",
]
