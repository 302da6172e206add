"""The repository of models as users see it: a handle, what inheriting gives, opening."""

from __future__ import annotations

from daskevo.repository.handle import Matches, ModelSummary, Repository
from daskevo.repository.inheritance import Inheritance, InheritanceReport
from daskevo.repository.opening import get_repository, open_repository

__all__ = [
    "Inheritance",
    "InheritanceReport",
    "Matches",
    "ModelSummary",
    "Repository",
    "get_repository",
    "open_repository",
]
