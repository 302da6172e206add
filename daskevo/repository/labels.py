"""Label methods of the repository handle, which keep models and retire them."""

from __future__ import annotations

from daskevo.client.session import Session
from daskevo.repository.handle_base import HandleBase
from daskevo.types import ModelId, check_label, check_name


class Labels(HandleBase):
    """Hold, release, retire."""

    def hold(self, model_id: str, label: str) -> tuple[str, ...]:
        """Add a label to a model, e.g. ``user:my paper``; return its labels.

        Raises
        ------
        UnknownModel, ModelRetired
        """
        return self._run(Session.hold, ModelId(check_name(model_id)), check_label(label))

    def release(self, model_id: str, label: str) -> tuple[str, ...]:
        """Remove a label and return the remaining ones; removing the last one retires the model."""
        return self._run(Session.release, ModelId(check_name(model_id)), check_label(label))

    def release_label(self, label: str) -> tuple[tuple[ModelId, ...], tuple[ModelId, ...]]:
        """Remove a label from all models, e.g. when a run is deleted.

        Returns
        -------
        Models that had the label, and those of them that were retired by this.
        """
        return self._run(Session.release_label, check_label(label))

    def retire(self, model_id: str) -> tuple[str, ...]:
        """Remove all labels of a model, which retires it."""
        return self._run(Session.retire, ModelId(check_name(model_id)))
