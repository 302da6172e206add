"""A trajectory: the deterministic course of a training from its origin, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from daskevo.tuning.configuration import SCHEME, Configuration
from daskevo.types import check_name


@dataclass(frozen=True, slots=True)
class Trajectory:
    """How a model is trained, from its first step on.

    Parameters
    ----------
    origin:
        Name of everything that training starts from: model, data, seed and ancestor, but not the trial. Trainings with
        different origins share no step.
    configuration:
        The hyper-parameters at each step.

    Examples
    --------
    >>> from daskevo.tuning import Constant, MultiStep
    >>> one = Trajectory("digits-7", Configuration({"lr": Constant(0.1)}))
    >>> two = Trajectory("digits-7", Configuration({"lr": MultiStep(0.1, (100,), 0.5)}))
    >>> one.key(100) == two.key(100), one.key(100) == Trajectory("digits-8", one.configuration).key(100)
    (True, False)
    """

    origin: str
    configuration: Configuration

    def __post_init__(self) -> None:
        check_name(self.origin, "origin of a trajectory")

    def key(self, step: int) -> str:
        """Return the key of the state after `step` steps, equal for all trajectories that are equal up to there.

        Returns
        -------
        str
            32 hexadecimal digits, the same in every process; snapshots and metrics are stored under it.
        """
        # The origin's name has no blank in it, so two different pairs never give the same text.
        whole = f"{self.origin} {self.configuration.key(step)}"
        return blake2b(whole.encode(), digest_size=16, person=SCHEME).hexdigest()
