"""What an evaluation inherited and why no more, in so few bytes that every report and every model can keep it."""

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
        Why no more was inherited, as a word to count by. Where the prefix ended: ``other settings``, ``another layer``,
        ``other connections``, ``own weights``, or ``whole model``; why there is none: ``not asked``, ``no match``,
        ``too few layers``, ``gone``, ``no answer`` (:class:`daskevo.repository.InheritanceReport` explains them).
    words:
        The same in words, with the first layer that is not shared.
    inherited, layers:
        Layers with weights that were inherited, and all that the model has.
    frozen:
        Layers that did not train.
    nbytes:
        Size of what was inherited, in bytes.
    tried, silent:
        Better matches that could not be inherited from, and providers or shards that did not answer the query.

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
            case {"reason": str(), "words": str(), **counts} if all(type(n) is int and n >= 0 for n in counts.values()):
                try:
                    return cls(**value)
                except TypeError:
                    pass  # a count of another name
        raise CorruptRecord(f"expected what an evaluation inherited, found {value!r:.200}")
