"""The part of a handle that takes in models that were trained elsewhere: ancestors of what a search will find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from daskevo.repository.early_reservation import Wish
from daskevo.repository.handle_base import HandleBase
from daskevo.repository.inheritance import Inheritance
from daskevo.types import JSON, ModelId


class Adding(HandleBase):
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
        """Store a model that was trained elsewhere, as it is: later models of the scope inherit from it.

        Nothing is inherited, and the model isn't changed.

        Parameters
        ----------
        model:
            A Keras model with an architecture graph; it may be compiled, trained, or partly frozen.
        metrics:
            What was measured, by name; the scope's objective picks the quality from them. A model without a quality is
            matched all the same, and loses to one that has a quality where both share as much.
        step:
            Training steps (the unit is the scope's, e.g. optimizer steps) that it has had. A search freezes inherited
            layers that have had enough of them (300 unless it is told otherwise), and goes on training the others.
        labels:
            What keeps it; ``user:kept`` when there is none.
        model_id:
            The id to store it under; drawn when None.
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
        wish = Wish.of(model_id, False, None, "vertex", 0)
        # Nothing is inherited, so nothing is frozen: that it may be compiled does no harm.
        child = Inheritance(self, model, freeze="none", wish=wish, parent=None, trained=True)
        options: dict[str, Any] = {"metrics": metrics, "step": step, "labels": labels, "extra": extra, "finite": True}
        if not self.connection.asynchronous:
            with child:
                return child.put(**options)

        async def put() -> ModelId:
            async with child:
                stored: ModelId = await child.put(**options)  # type: ignore[misc]
                return stored

        return put()  # type: ignore[return-value]
