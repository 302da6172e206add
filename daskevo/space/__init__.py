"""Model spaces: what may vary, apart from the model and apart from how it is explored (paper 003, section 3)."""

from __future__ import annotations

from daskevo.space.builder import Builder, Choose
from daskevo.space.candidate import Candidate
from daskevo.space.choice import Choice
from daskevo.space.model_space import ModelSpace, Pick
from daskevo.space.product import Space
from daskevo.space.size import UNBOUNDED, Size

__all__ = ["UNBOUNDED", "Builder", "Candidate", "Choice", "Choose", "ModelSpace", "Pick", "Size", "Space"]
