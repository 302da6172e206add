"""A trajectory: the one way in which training goes on from a beginning, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from daskevo.tuning.configuration import SCHEME, Configuration
from daskevo.types import check_name


@dataclass(frozen=True, slots=True)
class Trajectory:
    """How a model is trained from its first step on.

    Parameters
    ----------
    origin:
        Names what training begins with, and on: the model, its data, the seed and the ancestor, never a trial's
        number. Trainings with other origins share no step.
    configuration:
        The hyper-parameters by step.

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
        """Name the state after `step` steps: the same for all trajectories that are the same until there.

        Returns
        -------
        str
            32 hexadecimal digits, the same in every process: what a snapshot and its metrics are found by.
        """
        whole = f"{self.origin} {self.configuration.key(step)}"
        return blake2b(whole.encode(), digest_size=16, person=SCHEME).hexdigest()
