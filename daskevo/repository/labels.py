"""The part of a handle that keeps models and lets them go."""

from __future__ import annotations

from daskevo.client.session import Session
from daskevo.repository.handle_base import HandleBase
from daskevo.types import ModelId, check_label, check_name


class Labels(HandleBase):
    """Hold, release, retire."""

    def hold(self, model_id: str, label: str) -> tuple[str, ...]:
        """Keep a model under one more label, e.g. ``user:my paper``; return its labels.

        Raises
        ------
        UnknownModel, ModelRetired
        """
        return self._run(Session.hold, ModelId(check_name(model_id)), check_label(label))

    def release(self, model_id: str, label: str) -> tuple[str, ...]:
        """Take a label away; with the last one the model is retired. Return the labels that are left."""
        return self._run(Session.release, ModelId(check_name(model_id)), check_label(label))

    def release_label(self, label: str) -> tuple[tuple[ModelId, ...], tuple[ModelId, ...]]:
        """Take a label from all models, e.g. when a run is deleted.

        Returns
        -------
        Models that held it, and those of them that were retired by it.
        """
        return self._run(Session.release_label, check_label(label))

    def retire(self, model_id: str) -> tuple[str, ...]:
        """Take all labels of a model away, whatever they are."""
        return self._run(Session.retire, ModelId(check_name(model_id)))
