"""The number of candidates of a model space, as far as known."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from daskevo.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Size:
    """The number of candidates of a space.

    Parameters
    ----------
    kind:
        ``exact``; ``at least`` or ``at most`` if counting would take too long; ``unbounded``.
    count:
        The number, or the bound; None if unbounded.

    Examples
    --------
    >>> str(Size("exact", 15625)), str(Size("exact", 391**6 * 2**12)), str(Size("at least", 7)), str(UNBOUNDED)
    ('15625', '1.5e19', 'at least 7', 'unbounded')
    """

    kind: Literal["exact", "at least", "at most", "unbounded"]
    count: int | None

    def __post_init__(self) -> None:
        if (self.count is None) != (self.kind == "unbounded") or (self.count is not None and self.count < 0):
            raise InvalidInput(
                f"a size {self.kind!r} of {self.count!r:.40}: give a number from 0, or none if unbounded"
            )

    @property
    def most(self) -> int | None:
        """An upper bound of the number of candidates; None if there is none."""
        return self.count if self.kind in ("exact", "at most") else None

    def __str__(self) -> str:
        if self.count is None:
            return self.kind
        # Neither float() nor str() accepts integers of any length.
        text = str(self.count) if self.count <= 1_000_000 else f"{Decimal(self.count):.1e}".replace("+", "")
        return text if self.kind == "exact" else f"{self.kind} {text}"


UNBOUNDED = Size("unbounded", None)
