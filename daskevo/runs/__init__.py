"""Runs: the record on disk, the state in memory, and the planner from requests to units of work."""

from __future__ import annotations

from daskevo.runs.chosen import Chosen
from daskevo.runs.folder import RunInfo
from daskevo.runs.kept_trainings import Keeping
from daskevo.runs.planner import Sharing, Unit, identity, plan, share
from daskevo.runs.record import RunRecord
from daskevo.runs.run_state import LabelChange, RunState
from daskevo.runs.view import Event, RunView, SessionRow, UnitRow

__all__ = [
    "Chosen",
    "Event",
    "Keeping",
    "LabelChange",
    "RunInfo",
    "RunRecord",
    "RunState",
    "RunView",
    "SessionRow",
    "Sharing",
    "Unit",
    "UnitRow",
    "identity",
    "plan",
    "share",
]
