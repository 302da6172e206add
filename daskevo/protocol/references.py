"""References to the stored tensors of one shard's owners, as sets of bits.

Paper 000 counts references (section 4.3). Sets are used here because messages that change them can be repeated, and
they can be replayed and audited, unlike counters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from daskevo.types import Attempt, ModelId

Claim = tuple[ModelId | None, Attempt]
"""Holder of bits: (model, attempt); the model is None for a reader's attempt."""

Segment = tuple[ModelId, Attempt]
"""Key of a segment: (owner, attempt that stored it)."""


def mask_of(numbers: Iterable[int]) -> int:
    """Encode tensor numbers as a bitmap in one int."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def numbers_in(mask: int) -> frozenset[int]:
    """Return the tensor numbers of a bitmap."""
    numbers = []
    # Takes the lowest set bit each time, so that sparse bitmaps with high numbers are fast.
    while mask:
        low = mask & -mask
        numbers.append(low.bit_length() - 1)
        mask ^= low
    return frozenset(numbers)


@dataclass
class References:
    """Bits at the owners of one shard, and the tensors that they keep alive.

    Bits of (O, p) at O itself cover O's segment of attempt p, staged or published. Bits of other models at O cover the
    published segment of O. A tensor is freed with the last bit that covers it.
    """

    bits: dict[ModelId, dict[Claim, int]] = field(default_factory=dict)
    alive: dict[Segment, int] = field(default_factory=dict)
    published: dict[ModelId, Attempt] = field(default_factory=dict)

    def store(self, owner: ModelId, attempt: Attempt, mask: int) -> None:
        """Add a segment, with its tensors alive and covered by the owner's own bits."""
        if mask:
            self.alive[owner, attempt] = mask
            self.add(owner, (owner, attempt), mask)

    def add(self, owner: ModelId, claim: Claim, mask: int) -> None:
        """Add bits; the caller has checked that the tensors are stored."""
        claims = self.bits.setdefault(owner, {})
        claims[claim] = claims.get(claim, 0) | mask

    def remove(self, owner: ModelId, claim: Claim, mask: int) -> dict[Segment, int]:
        """Remove bits, and tensors that no bits cover any more; return these tensors."""
        claims = self.bits.get(owner, {})
        left = claims.pop(claim, 0) & ~mask
        if left:
            claims[claim] = left
        if not claims:
            self.bits.pop(owner, None)
        attempt = claim[1] if claim[0] == owner else self.published.get(owner)
        if attempt is None:
            return {}
        segment = (owner, attempt)
        gone = self.alive.get(segment, 0) & mask & ~self._covered(segment)
        if not gone:
            return {}
        self.alive[segment] &= ~gone
        if not self.alive[segment]:
            del self.alive[segment]
        return {segment: gone}

    def of(self, owner: ModelId, claim: Claim) -> int:
        """Return the bits of one claim at one owner."""
        return self.bits.get(owner, {}).get(claim, 0)

    def owners_of(self, claim: Claim) -> list[ModelId]:
        """Return the owners at which a claim has bits, without the claim's own model."""
        return [owner for owner, claims in self.bits.items() if owner != claim[0] and claim in claims]

    def there(self, owner: ModelId) -> int:
        """Return the tensors of a published or retired owner that are still stored."""
        attempt = self.published.get(owner)
        return 0 if attempt is None else self.alive.get((owner, attempt), 0)

    def __iter__(self) -> Iterator[tuple[ModelId, Claim, int]]:
        for owner, claims in self.bits.items():
            for claim, mask in claims.items():
                yield owner, claim, mask

    def _covered(self, segment: Segment) -> int:
        owner, attempt = segment
        covered = self.of(owner, segment)
        if self.published.get(owner) == attempt:
            for claim, mask in self.bits.get(owner, {}).items():
                if claim[0] != owner:
                    covered |= mask
        return covered
