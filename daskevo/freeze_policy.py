"""The policy that says what of an inherited prefix is frozen, as trainer, simulator, commands and reports read it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daskevo.errors import InvalidInput

_STEPS = re.compile(r"steps:([0-9]{1,15})")
_SHARES = {"prefix": 1.0, "none": 0.0}


@dataclass(frozen=True, slots=True)
class FreezePolicy:
    """A parsed policy; a function has neither `share` nor `steps`.

    Parameters
    ----------
    rule:
        The policy as it is passed and recorded: ``"prefix"``, ``"none"``, a share from 0 to 1, ``"steps:K"``, or a
        function of a layer, of which a record has the name.
    share:
        Share of the freezable layers that is frozen, counted from the inputs.
    steps:
        Number of training steps from which on a layer is frozen.

    Examples
    --------
    >>> trained = {1: 20, 3: 9, 5: 8}
    >>> [FreezePolicy.parse(rule).choose([1, 3, 5], trained) for rule in ("prefix", 0.5, "steps:9")]
    [[1, 3, 5], [1], [1, 3]]
    """

    rule: Any
    share: float | None = None
    steps: int | None = None

    @classmethod
    def parse(cls, rule: object) -> FreezePolicy:
        """Return the policy that was passed; raise `InvalidInput` if it is none."""
        if callable(rule) and not isinstance(rule, type):
            return cls(rule)
        if isinstance(rule, str) and (found := _STEPS.fullmatch(rule)):
            return cls(rule, steps=int(found[1]))
        share = _SHARES.get(rule) if isinstance(rule, str) else rule
        if isinstance(share, (int, float)) and not isinstance(share, bool) and 0 <= share <= 1:
            return cls(rule, share=float(share))
        raise InvalidInput(
            f"{rule!r} is no policy for freezing: use 'prefix', 'none', a share from 0 to 1, 'steps:K', or a function "
            "of a layer",
            policy=repr(rule),
        )

    @classmethod
    def recorded(cls, rule: object) -> FreezePolicy:
        """Return the policy of a run's record; what can't be parsed is the name of a function."""
        try:
            return cls.parse(rule)
        except InvalidInput:
            return cls(rule)

    def choose(self, layers: list[int], steps: Mapping[int, int]) -> list[int]:
        """Return the layers to freeze, of those that can be, which are given in order of depth.

        Parameters
        ----------
        steps:
            Layer -> its training steps: the fewest that one of its trainable tensors has.

        Raises
        ------
        InvalidInput
            If the policy is a function: only who has Keras layers can call it.
        """
        if self.steps is not None:
            return [layer for layer in layers if steps[layer] >= self.steps]
        if self.share is None:
            raise InvalidInput("a function that freezes layers needs Keras layers: pass a policy in words, or a share")
        # The small addend makes 0.7 of ten seven, although 0.7 * 10 may be less in binary.
        return layers[: math.floor(self.share * len(layers) + 1e-9)]

    def __str__(self) -> str:
        if self.steps is not None:
            return f"what has had {self.steps} steps"
        return "the prefix" if self.rule == "prefix" else "nothing" if self.rule == "none" else str(self.rule)
