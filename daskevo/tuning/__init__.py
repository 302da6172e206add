"""Stage trees: trials whose hyper-parameters begin alike are trained together until they part (paper 002).

Pure: no clock, no I/O, no cluster.
"""

from __future__ import annotations

from daskevo.tuning.architectures import ArchitectureSpace, architectures
from daskevo.tuning.configuration import Configuration, Unit
from daskevo.tuning.cost import Costs, Estimate
from daskevo.tuning.eviction import KeptSnapshot, evictions, kept_snapshots, make_room, stored_bytes
from daskevo.tuning.instructions import Answer, Halt, Instruction, Refuse, Run, Save
from daskevo.tuning.joining import Joined, concatenate, warmup
from daskevo.tuning.merge_rate import StepCount, count_steps
from daskevo.tuning.needs import Change, Kind, begun_with, changes_of_kind, needed_snapshots
from daskevo.tuning.plan import PlanNode, SearchPlan, State, TrialStanding, Waiter
from daskevo.tuning.policies import Policy
from daskevo.tuning.sequences import Constant, Cosine, Cyclic, Exponential, Linear, MultiStep, Step
from daskevo.tuning.simulation import AllAtOnce, Machine, Outcome, SimulatedStudy, Trial, simulate
from daskevo.tuning.snapshot_labels import LabelStep, label_steps
from daskevo.tuning.spaces import ConditionalSpace, ConfigurationSpace, GridSpace, conditional, grid
from daskevo.tuning.stage_scheduler import Scheduler
from daskevo.tuning.stages import Promises, StageTree, TrainingStage, stage_tree
from daskevo.tuning.step_sequence import StepSequence, sequence_from_json
from daskevo.tuning.trajectory import Trajectory

__all__ = [
    "AllAtOnce",
    "Answer",
    "ArchitectureSpace",
    "Change",
    "ConditionalSpace",
    "Configuration",
    "ConfigurationSpace",
    "Constant",
    "Cosine",
    "Costs",
    "Cyclic",
    "Estimate",
    "Exponential",
    "GridSpace",
    "Halt",
    "Instruction",
    "Joined",
    "KeptSnapshot",
    "Kind",
    "LabelStep",
    "Linear",
    "Machine",
    "MultiStep",
    "Outcome",
    "PlanNode",
    "Policy",
    "Promises",
    "Refuse",
    "Run",
    "Save",
    "Scheduler",
    "SearchPlan",
    "SimulatedStudy",
    "StageTree",
    "State",
    "Step",
    "StepCount",
    "StepSequence",
    "TrainingStage",
    "Trajectory",
    "Trial",
    "TrialStanding",
    "Unit",
    "Waiter",
    "architectures",
    "begun_with",
    "changes_of_kind",
    "concatenate",
    "conditional",
    "count_steps",
    "evictions",
    "grid",
    "kept_snapshots",
    "label_steps",
    "make_room",
    "needed_snapshots",
    "sequence_from_json",
    "simulate",
    "stage_tree",
    "stored_bytes",
    "warmup",
]
