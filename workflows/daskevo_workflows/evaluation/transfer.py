"""The transfer policy: which model candidates inherit from, what is frozen, and how training continues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from daskevo.errors import InvalidInput
from daskevo.freeze_policy import FreezePolicy
from daskevo.types import JSON
from daskevo_workflows.execution.passed_functions import name_of

SOURCES = ("best match", "parent", "none")
FREEZE = "steps:300"
"""Default of `Transfer.freeze`; docs/transfer.md has the measurements."""


@dataclass(frozen=True)
class Transfer:
    """How candidates inherit weights.

    Parameters
    ----------
    source:
        ``best match``: the model with the longest shared prefix, ties going to the best quality (paper 000);
        ``parent``: the model whose candidate was mutated, or the best match once that one is retired; candidates
        without a parent inherit nothing; ``none``: nothing is inherited. A request that names an ancestor gets it.
    freeze:
        What of the prefix is frozen: ``"steps:K"``, the layers that have been trained for K steps (everything, if
        each evaluation has that many); ``"prefix"``, all of it (paper 000); ``"none"``, nothing; a share from 0 to 1,
        counted from the inputs; or a function of a layer.
    minimum_layers:
        Minimum number of shared layers with weights; with fewer nothing is inherited.
    unfreeze_epochs:
        Further epochs with nothing frozen, after those with the prefix frozen.
    stretch:
        Longer training for models that inherit less: epochs are multiplied by 1 + stretch x (share of layers with
        weights that were not inherited), and rounded.

    Raises
    ------
    InvalidInput
        If a value is not valid.

    Examples
    --------
    >>> Transfer(source="parent", freeze="steps:500").changed()
    {'source': 'parent', 'freeze': 'steps:500'}
    >>> Transfer(stretch=2.0).epochs(3, inherited=1, layers=4)
    8
    """

    source: Literal["best match", "parent", "none"] = "best match"
    freeze: Any = FREEZE
    minimum_layers: int = 0
    unfreeze_epochs: int = 0
    stretch: float = 0.0

    def __post_init__(self) -> None:
        FreezePolicy.parse(self.freeze)
        if self.source not in SOURCES:
            raise InvalidInput(f"source={self.source!r:.40}: inherit from {', '.join(map(repr, SOURCES))}")
        for name in ("minimum_layers", "unfreeze_epochs"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise InvalidInput(f"{name}={value!r:.40}: use a whole number from 0")
        if isinstance(self.stretch, bool) or not isinstance(self.stretch, (int, float)) or not 0 <= self.stretch <= 100:
            raise InvalidInput(f"stretch={self.stretch!r:.40}: use a number from 0 to 100")

    @property
    def is_any(self) -> bool:
        """Whether candidates inherit at all."""
        return self.source != "none"

    def epochs(self, epochs: int, *, inherited: int, layers: int) -> int:
        """Return the number of epochs to train.

        Parameters
        ----------
        epochs:
            The problem's epochs.
        inherited, layers:
            Number of inherited layers with weights, and of all layers with weights.
        """
        return round(epochs * (1 + self.stretch * (1 - inherited / max(1, layers))))

    def changed(self) -> dict[str, JSON]:
        """Return the fields that differ from the default policy, by name; a function is given by its name."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        if not isinstance(self.freeze, (str, int, float)):
            found["freeze"] = name_of(self.freeze)
        return {name: value for name, value in found.items() if value != getattr(USUAL, name)}

    def to_record(self) -> dict[str, JSON]:
        """Return the policy for a run's record; `freeze` is always included, as its default may change."""
        found = {"freeze": self.freeze, **self.changed()}
        if not self.is_any:
            # `transfer` says so already.
            del found["source"]
        return {"transfer": self.is_any, **found}


def recorded_transfer(policy: Mapping[str, Any]) -> Transfer:
    """Return the transfer policy from a run's record.

    Raises
    ------
    InvalidInput
        If it had a function, which a record can't hold, or is not a policy.
    """
    names = [field.name for field in fields(Transfer)]
    found = {name: policy[name] for name in names if policy.get(name) is not None}
    if policy.get("transfer") is False:
        found["source"] = "none"
    freeze = FreezePolicy.recorded(found.get("freeze", FREEZE))
    if freeze.share is None and freeze.steps is None:
        raise InvalidInput(f"a policy of its own to freeze ({freeze})")
    return Transfer(**found)


USUAL = Transfer()
