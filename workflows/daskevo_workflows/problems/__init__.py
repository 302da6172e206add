"""Problems to search: ours, by name, and yours, by file."""

from __future__ import annotations

from daskevo_workflows.problems.contract import check_problem
from daskevo_workflows.problems.protocol import Data, Problem
from daskevo_workflows.problems.reference import BUILT_IN, ProblemReference, load_problem, refer

__all__ = ["BUILT_IN", "Data", "Problem", "ProblemReference", "check_problem", "load_problem", "refer"]
