"""Decisions about a run's tasks that need no cluster: what follows from an event, whatever carries it out."""

from daskevo.planning.losses import Losses, LossKind

__all__ = ["LossKind", "Losses"]
