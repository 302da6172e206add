"""The repository of models for users: opening it, the handle, inheritance and snapshots."""

from __future__ import annotations

from daskevo.repository.early_reservation import EarlyReservation
from daskevo.repository.handle import Repository
from daskevo.repository.inheritance import Inheritance
from daskevo.repository.open import get_repository, open_repository
from daskevo.repository.report import InheritanceReport
from daskevo.repository.results import Matches, ModelSummary, SnapshotSummary
from daskevo.repository.snapshot import Snapshot, StoredSnapshot

__all__ = [
    "EarlyReservation",
    "Inheritance",
    "InheritanceReport",
    "Matches",
    "ModelSummary",
    "Repository",
    "Snapshot",
    "SnapshotSummary",
    "StoredSnapshot",
    "get_repository",
    "open_repository",
]
