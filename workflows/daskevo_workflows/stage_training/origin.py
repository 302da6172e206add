"""The origin of a snapshot, which is the training it is a state of, and whether a training may go on from it."""

from __future__ import annotations

import logging
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.extras import other_backend, versions_of
from daskevo.repository import Snapshot
from daskevo.tuning import Trajectory
from daskevo.types import JSON

logger = logging.getLogger(__name__)

PACKAGES = ("daskevo", "keras", "tensorflow", "numpy")
_WHOLE = ("step", "epoch", "offset", "batch", "optimizer_steps", "seed")


def versions() -> dict[str, str]:
    """Return the versions that a training's bits depend on, by package."""
    return {"python": platform.python_version(), **versions_of(PACKAGES), **other_backend()}


@dataclass(frozen=True)
class Origin:
    """What is the same at all steps of a training.

    Parameters
    ----------
    seed:
        The training's seed.
    data:
        Digest of the data; None for a problem's own training loop.
    compiled:
        Optimizer and loss, or the loop, as JSON.
    unit:
        What a step is: an epoch or an optimizer step.
    """

    seed: int
    data: str | None
    compiled: JSON
    unit: str

    @classmethod
    def of(cls, trajectory: Trajectory, seed: int, data: str | None, compiled: JSON) -> Origin:
        return cls(seed, data, compiled, trajectory.configuration.unit)

    def to_json(self, key: str) -> dict[str, JSON]:
        """Return it as a snapshot keeps it, with the key of its trajectory until there."""
        return {
            "key": key,
            "seed": self.seed,
            "data": self.data,
            "compiled": self.compiled,
            "unit": self.unit,
            "versions": dict(versions()),
        }


def check_same(snapshot: Snapshot, origin: Origin, trajectory: Trajectory, other_versions: bool) -> Mapping[str, Any]:
    """See that a training may go on from a snapshot, and return what its `extra` says.

    Other versions of Keras, TensorFlow, numpy or daskevo are refused unless wanted: what comes after would be a good
    training, but not that of one piece, and steps until there can be trained again.

    Raises
    ------
    InvalidInput
        If it is of other data, another seed, optimizer or trajectory, or of other versions.
    CorruptRecord
        If it isn't a snapshot of such a training.
    """
    extra = snapshot.extra
    if not isinstance(extra, Mapping) or not all(type(extra.get(name)) is int for name in _WHOLE):
        raise CorruptRecord(
            f"the snapshot doesn't say where its training was: 'extra' is {extra!r:.120}, expected whole numbers for "
            f"{', '.join(_WHOLE)}"
        )
    for what, name, wanted in (
        ("other data", "data", origin.data),
        ("another seed", "seed", origin.seed),
        ("another unit of steps", "unit", origin.unit),
        ("another optimizer or loss", "compiled", origin.compiled),
    ):
        if extra.get(name) != wanted:
            raise InvalidInput(
                f"the snapshot was trained with {what}: {name} is {extra.get(name)!r:.160} there and {wanted!r:.160} "
                "here. Begin anew, or go back to what it was",
                what=name,
            )
    # After the parts above: the key covers some of them, and can't say which one differs.
    key = trajectory.key(extra["step"])
    if extra.get("key") != key:
        raise InvalidInput(
            f"the snapshot is of another trajectory: its first {extra['step']} steps, or the model, data, seed or "
            "ancestor that its origin names, aren't those of this one",
            what="trajectory",
        )
    if changed := changed_versions(extra):
        said = ", ".join(f"{name} {then}, here {now}" for name, (then, now) in changed.items())
        if not other_versions:
            raise InvalidInput(
                f"the snapshot was trained with other versions ({said}), so what follows wouldn't be what one piece "
                "gives, bit for bit: begin anew, or resume with other_versions=True",
                what="versions",
            )
        logger.warning("going on from a snapshot of other versions (%s): not bit for bit what one piece gives", said)
    return extra


def changed_versions(extra: Mapping[str, Any]) -> dict[str, tuple[str | None, str | None]]:
    """Return the packages whose versions differ from those that a snapshot was made with: there, and here."""
    found = extra.get("versions")
    then, now = found if isinstance(found, Mapping) else {}, versions()
    # Python's own version is kept for people: it doesn't take part in the arithmetic.
    names = sorted({*then, *now} - {"python"})
    return {name: (then.get(name), now.get(name)) for name in names if then.get(name) != now.get(name)}


def check_header(before: Trajectory, after: Trajectory) -> None:
    """See that two trajectories are of one origin and one model; raises InvalidInput."""
    if before.origin != after.origin or before.configuration.header != after.configuration.header:
        raise InvalidInput(
            "the snapshot is of another model than the one in training, or other hyper-parameters are sequences: "
            "resume it, which builds its model"
        )


def check_until(step: int, before: Trajectory, after: Trajectory) -> None:
    """See that two trajectories are the same until a step; raises InvalidInput."""
    if before.key(step) != after.key(step):
        raise InvalidInput(
            f"the other trajectory isn't the same until step {step}: resume it from a snapshot of its own, or begin it",
            step=step,
        )
