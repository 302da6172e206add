"""Training along a trajectory, from any step to any later one: cut into stages, it ends with the bits of one piece."""

from __future__ import annotations

from daskevo_workflows.stage_training.begin import begin, check, data_digest, resume
from daskevo_workflows.stage_training.determinism import deterministic
from daskevo_workflows.stage_training.exactness import check_exact
from daskevo_workflows.stage_training.protocol import Training, TrainingLoop

__all__ = ["Training", "TrainingLoop", "begin", "check", "check_exact", "data_digest", "deterministic", "resume"]
