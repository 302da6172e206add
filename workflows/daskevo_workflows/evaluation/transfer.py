"""How candidates inherit, as a policy: from whom, what is frozen, and how training goes on from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from daskevo.errors import InvalidInput
from daskevo.types import JSON
from daskevo_workflows.execution.passed_functions import name_of

SOURCES = ("best match", "parent", "none")
FREEZE = "steps:300"
"""What of a prefix is frozen if nothing is said; docs/transfer.md has the figures."""


@dataclass(frozen=True)
class Transfer:
    """How candidates inherit.

    Parameters
    ----------
    source:
        ``best match``: the model that shares the longest prefix, whoever it is, of equal ones the best (paper 000);
        ``parent``: the model whose candidate was mutated, and the best match once that one is retired; candidates
        without a parent inherit nothing; ``none``: nobody does. A request that names its ancestor has that one.
    freeze:
        What of the prefix stops training: ``"steps:K"``, the layers that have had K steps of training (all of it, where
        an evaluation has so many); ``"prefix"``, all of it (paper 000); ``"none"``, nothing; a share from 0 to 1,
        nearest to the inputs; or a function of a layer.
    minimum_layers:
        Layers with weights that must be shared; below that nothing is inherited.
    unfreeze_epochs:
        Epochs of training with everything unfrozen that follow those with the prefix frozen.
    stretch:
        How much longer those train that inherit less: epochs are multiplied by 1 + stretch x (share of layers with
        weights that weren't inherited), rounded to whole ones.

    Raises
    ------
    InvalidInput
        If one of them can't be followed.

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
        """Whether anybody inherits."""
        return self.source != "none"

    def epochs(self, epochs: int, *, inherited: int, layers: int) -> int:
        """Return how many epochs to train.

        Parameters
        ----------
        epochs:
            Of the problem.
        inherited, layers:
            Layers with weights that were inherited, and all that the model has.
        """
        return round(epochs * (1 + self.stretch * (1 - inherited / max(1, layers))))

    def changed(self) -> dict[str, JSON]:
        """Return what differs from the usual policy, by name; a function is told by its own."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        if not isinstance(self.freeze, (str, int, float)):
            found["freeze"] = name_of(self.freeze)
        return {name: value for name, value in found.items() if value != getattr(USUAL, name)}

    def to_record(self) -> dict[str, JSON]:
        """Return the policy as runs keep it: what is frozen always, as the usual policy may change with a version."""
        found = {"freeze": self.freeze, **self.changed()}
        if not self.is_any:
            del found["source"]
        return {"transfer": self.is_any, **found}


def recorded_transfer(policy: Mapping[str, Any]) -> Transfer:
    """Return the policy of transfer that a run's record holds.

    Raises
    ------
    InvalidInput
        If it was begun with a function, which no record holds, or is none.
    """
    names = [field.name for field in fields(Transfer)]
    found = {name: policy[name] for name in names if policy.get(name) is not None}
    if policy.get("transfer") is False:
        found["source"] = "none"
    freeze = found.get("freeze", FREEZE)
    if freeze not in ("prefix", "none") and type(freeze) not in (int, float) and not str(freeze).startswith("steps:"):
        raise InvalidInput(f"a policy of its own to freeze ({freeze})")
    return Transfer(**found)


USUAL = Transfer()
