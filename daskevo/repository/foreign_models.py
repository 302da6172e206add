"""Method of the repository handle that adds models trained elsewhere, as ancestors for later searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from daskevo.repository.early_reservation import InheritanceRequest
from daskevo.repository.handle_base import HandleBase
from daskevo.repository.inheritance import Inheritance
from daskevo.types import JSON, ModelId


class ForeignModels(HandleBase):
    """Add."""

    def add(
        self,
        model: Any,
        *,
        metrics: Mapping[str, Any] | None = None,
        step: int = 1,
        labels: Sequence[str] = (),
        model_id: str | None = None,
        extra: JSON = None,
    ) -> ModelId:
        """Store a model that was trained elsewhere, unchanged, so that later models of the scope can inherit from it.

        It inherits nothing itself.

        Parameters
        ----------
        model:
            A Keras model with an architecture graph; it may be compiled, trained, or partly frozen.
        metrics:
            Measured values by name; the scope's objective selects the quality from them. A model without a quality is
            matched, too, but loses to one with a quality that shares as much.
        step:
            Training steps of the model, in the unit of the scope, for example optimizer steps. A search freezes
            inherited layers with enough steps (300 by default), and trains the others further.
        labels:
            Labels that keep it; ``user:kept`` if there is none.
        model_id:
            The id to store it under; drawn at random when None.
        extra:
            JSON to attach.

        Returns
        -------
        ModelId
            With an asynchronous client, an awaitable of it.

        Raises
        ------
        CannotFlatten
            If it has no architecture graph, or has layers that no record can hold: lambdas, unregistered functions.
        ModelExists
            If the id is taken.
        NotFinite
            If weights hold nan or inf.
        InvalidInput, InvalidName
            If an argument can't be.
        PutFailed, QuotaReached, PutUnknown
            As `Inheritance.put` does.
        """
        request = InheritanceRequest.of(model_id, False, None, "vertex", 0)
        # Nothing is inherited, so nothing is frozen: that it may be compiled does no harm.
        child = Inheritance(self, model, freeze="none", request=request, parent=None, trained=True)
        # Nan in this model would go into every model that inherits it, and no training here has shown that there is
        # none.
        options: dict[str, Any] = {"metrics": metrics, "step": step, "labels": labels, "extra": extra, "finite": True}
        if not self.connection.asynchronous:
            with child:
                return child.put(**options)

        async def put() -> ModelId:
            async with child:
                stored: ModelId = await child.put(**options)  # type: ignore[misc]
                return stored

        return put()  # type: ignore[return-value]
