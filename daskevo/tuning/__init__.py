"""Stage trees: trials whose hyper-parameters begin alike are trained together until they part (paper 002).

Pure: no clock, no I/O, no cluster.
"""

from __future__ import annotations

from daskevo.tuning.configuration import Configuration, Unit
from daskevo.tuning.counting import StepCount, count_steps
from daskevo.tuning.joining import Joined, concatenate, warmup
from daskevo.tuning.plan import Node, SearchPlan, Standing, State
from daskevo.tuning.sequences import Constant, Cosine, Cyclic, Exponential, Linear, MultiStep, Step
from daskevo.tuning.spaces import ConditionalSpace, ConfigurationSpace, GridSpace, conditional, grid
from daskevo.tuning.step_sequence import StepSequence, sequence_from_json
from daskevo.tuning.trajectory import Trajectory

__all__ = [
    "ConditionalSpace",
    "Configuration",
    "ConfigurationSpace",
    "Constant",
    "Cosine",
    "Cyclic",
    "Exponential",
    "GridSpace",
    "Joined",
    "Linear",
    "MultiStep",
    "Node",
    "SearchPlan",
    "Standing",
    "State",
    "Step",
    "StepCount",
    "StepSequence",
    "Trajectory",
    "Unit",
    "concatenate",
    "conditional",
    "count_steps",
    "grid",
    "sequence_from_json",
    "warmup",
]
