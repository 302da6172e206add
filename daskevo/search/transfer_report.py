"""A summary of what an evaluation inherited, small enough to be stored with every report and model."""

from __future__ import annotations

from dataclasses import dataclass

from daskevo.errors import CorruptRecord
from daskevo.types import JSON

LONGEST_WORDS = 240
"""Characters of `TransferReport.words`, at most."""


@dataclass(frozen=True, slots=True)
class TransferReport:
    """What an evaluation inherited, and why no more.

    Parameters
    ----------
    reason:
        Why no more was inherited, as a keyword for counting. Where the prefix ended: ``other settings``, ``another
        layer``, ``other connections``, ``own weights``, or ``whole model``; why there is none: ``not asked``, ``no
        match``, ``too few layers``, ``gone``, ``no answer`` (:class:`daskevo.repository.InheritanceReport` explains
        them).
    words:
        The reason as a sentence, with the first layer that is not shared.
    inherited, layers:
        Inherited layers with weights, and all layers with weights.
    frozen:
        Layers that did not train.
    nbytes:
        Size of the inherited tensors, in bytes.
    tried, silent:
        Better matches that could not be used, and providers or shards that did not answer the query.

    Examples
    --------
    >>> print(TransferReport("other settings", "dense_2: units 32, the ancestor's 64", inherited=2, layers=4, frozen=2))
    2 of 4 layers with weights, 2 frozen; then other settings: dense_2: units 32, the ancestor's 64
    """

    reason: str
    words: str
    inherited: int = 0
    layers: int = 0
    frozen: int = 0
    nbytes: int = 0
    tried: int = 0
    silent: int = 0

    def __post_init__(self) -> None:
        if len(self.words) > LONGEST_WORDS:
            # Names of the user's layers may be of any length, and the words are stored with every report and model.
            object.__setattr__(self, "words", self.words[: LONGEST_WORDS - 1] + "…")

    def __str__(self) -> str:
        if not self.inherited:
            return f"nothing; {self.reason}: {self.words}"
        return (
            f"{self.inherited} of {self.layers} layers with weights, {self.frozen} frozen; "
            f"then {self.reason}: {self.words}"
        )

    @classmethod
    def from_json(cls, value: JSON) -> TransferReport:
        """Read a stored one; raises CorruptRecord on anything else."""
        match value:
            # `type` rather than `isinstance`, for which True and False are whole numbers.
            case {"reason": str(), "words": str(), **counts} if all(type(n) is int and n >= 0 for n in counts.values()):
                try:
                    return cls(**value)
                except TypeError:
                    pass  # a count of another name
        raise CorruptRecord(f"expected what an evaluation inherited, found {value!r:.200}")
