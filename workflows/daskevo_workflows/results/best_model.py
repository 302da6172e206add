"""One of the best models of a search: figures from the record, weights while the repository has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daskevo.errors import ModelRetired
from daskevo.search import TransferReport
from daskevo.space import Candidate
from daskevo.types import JSON, ModelId

if TYPE_CHECKING:
    import keras

    from daskevo.protocol.model_record import ModelRecord
    from daskevo_workflows.exporting import Card, Exported
    from daskevo_workflows.results.result import Result


@dataclass(frozen=True)
class Found:
    """One of the best models.

    Parameters
    ----------
    model_id, quality, metrics, step:
        As reported.
    candidate, choices:
        The candidate, and its options as choice name -> option.
    result:
        The run that it belongs to.
    transfer:
        What it inherited, and why no more; None in older records.
    """

    model_id: ModelId
    quality: float
    metrics: Mapping[str, float]
    step: int
    candidate: Candidate
    choices: Mapping[str, JSON]
    result: Result
    transfer: TransferReport | None = None

    @cached_property
    def model(self) -> keras.Model:
        """The trained keras.Model with its weights, loaded at first use.

        Raises
        ------
        ModelRetired
            If its weights are gone: ``result.best(k, living=True)`` leaves such models out.
        ModelLost
        """
        try:
            return self.result.repository.load(self.model_id)
        except ModelRetired as error:
            raise ModelRetired(
                f"{self.model_id!r} of the run in {self.result.folder} has been retired, and its weights are gone. Its "
                "figures stay in the run's record; result.best(k, living=True) leaves such models out",
                model_id=self.model_id,
            ) from error

    @property
    def state(self) -> str | None:
        """Its status in the repository: ``published``, ``retired``, ...; None if that can't be looked up."""
        return self.result.standings([self.model_id]).get(self.model_id)

    @cached_property
    def lineage(self) -> Sequence[ModelRecord]:
        """Its ancestors, nearest first (`Repository.lineage`)."""
        return self.result.repository.lineage(self.model_id)

    def export(self, path: str | Path, *, overwrite: bool = False, data: Any = None) -> Exported:
        """Write it as a ``.keras``, ``.weights.h5`` or ``.safetensors`` file, with a model card.

        Parameters and errors are those of :func:`daskevo_workflows.exporting.export_model`.
        """
        from daskevo_workflows.exporting import export_model

        found = self.result
        return export_model(found.repository, self.model_id, path, run=found.folder, overwrite=overwrite, data=data)

    @cached_property
    def card(self) -> Card:
        """Its model card, for ``print(found.card)`` and ``found.card.facts``.

        Raises
        ------
        ModelRetired
        """
        from daskevo_workflows.exporting import model_card

        return model_card(self.result.repository, self.model_id, run=self.result.folder)

    def __repr__(self) -> str:
        others = "".join(f", {one.metric}={self.metrics.get(one.metric):.6g}" for one in self.result.objectives[1:])
        return f"Found({self.model_id!r}, {self.result.objective.metric}={self.quality:.4f}{others}, step={self.step})"
