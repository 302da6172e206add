"""References: sets of bits and what they keep, against a recount of everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from daskevo.protocol.references import Claim, References, mask_of, numbers_in
from daskevo.types import ModelId, Tick

OWNER = ModelId("o")
CLAIMS: list[Claim] = [(ModelId("x"), Tick(1, 1)), (ModelId("x"), Tick(1, 2)), (None, Tick(1, 3)), (OWNER, Tick(1, 0))]


@given(st.frozensets(st.integers(0, 200)))
def test_masks_are_sets(numbers: frozenset[int]) -> None:
    assert numbers_in(mask_of(numbers)) == numbers


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(CLAIMS), st.frozensets(st.integers(0, 5), max_size=4))))
def test_a_tensor_goes_with_the_last_bit_that_covers_it(steps: list[tuple[bool, Claim, frozenset[int]]]) -> None:
    references = References()
    references.store(OWNER, Tick(1, 0), mask_of(range(6)))
    references.published[OWNER] = Tick(1, 0)
    expected: dict[Claim, set[int]] = {(OWNER, Tick(1, 0)): set(range(6))}
    alive = set(range(6))
    for adds, claim, numbers in steps:
        if adds:
            numbers &= frozenset(alive)
            references.add(OWNER, claim, mask_of(numbers))
            expected.setdefault(claim, set()).update(numbers)
        else:
            gone = references.remove(OWNER, claim, mask_of(numbers))
            expected.get(claim, set()).difference_update(numbers)
            left = set().union(*expected.values())
            assert {n for mask in gone.values() for n in numbers_in(mask)} == alive - left
            alive = left
        assert numbers_in(references.there(OWNER)) == alive
        assert {claim: set(numbers_in(references.of(OWNER, claim))) for claim in CLAIMS} == {
            claim: expected.get(claim, set()) for claim in CLAIMS
        }


def test_bits_of_others_cover_the_published_segment_only() -> None:
    references = References()
    for counter in (1, 2):
        references.store(OWNER, Tick(1, counter), 0b11)
    references.published[OWNER] = Tick(1, 1)
    references.add(OWNER, CLAIMS[0], 0b01)
    assert references.remove(OWNER, (OWNER, Tick(1, 2)), 0b11) == {(OWNER, Tick(1, 2)): 0b11}
    assert references.remove(OWNER, (OWNER, Tick(1, 1)), 0b11) == {(OWNER, Tick(1, 1)): 0b10}
    assert references.remove(OWNER, CLAIMS[0], 0b11) == {(OWNER, Tick(1, 1)): 0b01}
    assert references == References(published={OWNER: Tick(1, 1)})
