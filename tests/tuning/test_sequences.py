"""Sequences: the paper's families, joined ones, equality bit for bit, data that comes back exactly or is refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.tuning import (
    Constant,
    Cosine,
    Cyclic,
    Exponential,
    Joined,
    Linear,
    MultiStep,
    Step,
    StepSequence,
    concatenate,
    sequence_from_json,
    warmup,
)
from daskevo.tuning.exact import half_cosine, powers
from tests.tuning.drawn import SEQUENCES


def test_powers_and_cosines_agree_with_the_mathematical_functions() -> None:
    exponents = np.arange(0, 100_000, 7)
    for base in (0.999, 1.0001, 0.0, -0.5):
        np.testing.assert_allclose(powers(base, exponents), np.power(base, exponents), rtol=1e-11)
    x = np.linspace(0.0, 1.0, 10_001)
    np.testing.assert_allclose(half_cosine(x), (1 - np.cos(np.pi * x)) / 2, rtol=0, atol=1e-15)
    assert half_cosine(x)[0] == 0.0


def test_the_bits_are_the_same_on_every_machine() -> None:
    """What other machines compute: a change of these figures makes stored keys unfindable."""
    assert Exponential(0.1, 0.95)(40).hex() == "0x1.a51bcf7ab1eeap-7"
    assert Cosine(0.1, 0.001, 60, restarts=2)(100).hex() == "0x1.34395810624dep-4"


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        (Linear(0.0, 1.0, 4), lambda step: min(step / 4, 1.0)),
        (Exponential(0.1, 0.9), lambda step: 0.1 * 0.9**step),
        (Step(0.1, 3, 0.5), lambda step: 0.1 * 0.5 ** (step // 3)),
        (MultiStep(0.1, (2, 5), 0.5), lambda step: 0.1 * 0.5 ** ((step >= 2) + (step >= 5))),
        (Cosine(1.0, 0.2, 8), lambda step: 0.2 + 0.4 * (1 + math.cos(math.pi * min(step, 8) / 8))),
        (Cosine(1.0, 0.2, 8, 1), lambda step: 0.2 + 0.4 * (1 + math.cos(math.pi * (step % 8) / 8))),
        (Cosine(1.0, 0.2, 4, 3), lambda step: 0.2 + 0.4 * (1 + math.cos(math.pi * _restarted(step)))),
        (Cyclic(0.0, 1.0, 2, 3), lambda step: (0.0, 0.5, 1.0, 2 / 3, 1 / 3)[step % 5]),
    ],
)
def test_families(sequence: StepSequence, expected: object) -> None:
    assert callable(expected)
    assert sequence.values(0, 30) == pytest.approx([expected(step) for step in range(30)])
    assert sequence.values(7, 21).tolist() == sequence.values(0, 30)[7:21].tolist()


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.integers(1, 100))
def test_ends_are_exact(start: float, end: float, steps: int) -> None:
    for sequence in (Linear(start, end, steps), Cosine(start, end, steps)):
        assert sequence(0) == start
        assert sequence(steps) == sequence(steps + 1) == end


def test_periods_that_grow_are_whole_steps() -> None:
    """3 steps, 4.5 rounded, 6.75 rounded."""
    values = Cosine(1.0, 0.0, 3, restarts=1.5).values(0, 15)
    assert [step for step in range(15) if values[step] == 1.0] == [0, 3, 7, 14]


def _restarted(step: int) -> float:
    length = 4
    while step >= length:
        step -= length
        length *= 3
    return step / length


@given(SEQUENCES, st.integers(0, 40), st.integers(0, 40))
@settings(max_examples=200)
def test_a_range_has_the_values_of_its_steps_bit_for_bit(sequence: StepSequence, start: int, length: int) -> None:
    values = sequence.values(start, start + length)
    assert values.dtype == np.float64
    assert [value.hex() for value in values.tolist()] == [sequence(step).hex() for step in range(start, start + length)]


@given(SEQUENCES)
def test_data_comes_back_exactly(sequence: StepSequence) -> None:
    again = sequence_from_json(json.loads(json.dumps(sequence.to_json())))
    assert again == sequence
    assert hash(again) == hash(sequence)
    assert again.values(0, 50).tobytes() == sequence.values(0, 50).tobytes()


@given(SEQUENCES, st.integers(1, 12), SEQUENCES, st.integers(1, 12))
def test_a_later_sequence_counts_its_own_steps(one: StepSequence, at: int, two: StepSequence, more: int) -> None:
    joined = concatenate(one, (at, two), (at + more, one))
    assert joined.values(0, at).tobytes() == one.values(0, at).tobytes()
    assert joined.values(at, at + more).tobytes() == two.values(0, more).tobytes()
    assert joined.values(at + more, 40).tobytes() == one.values(0, 40 - at - more).tobytes()
    assert not any(isinstance(part, Joined) for _, part in joined.pieces)


def test_equal_values_of_different_families() -> None:
    assert MultiStep(0.1, (100,), 0.1).values(0, 100).tobytes() == Constant(0.1).values(0, 100).tobytes()
    assert Step(0.1, 1, 0.9).values(0, 99).tobytes() == Exponential(0.1, 0.9).values(0, 99).tobytes()
    assert Linear(0.3, 0.3, 7).values(0, 20).tobytes() == Constant(0.3).values(0, 20).tobytes()
    assert Constant(-0.0).values(0, 1).tobytes() == Constant(0).values(0, 1).tobytes()
    assert warmup(0.0, 10, Exponential(0.1, 0.9)).values(0, 11)[-1] == 0.1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Constant(math.nan),
        lambda: Constant(math.inf),
        lambda: Constant(True),
        lambda: Constant("0.1"),  # type: ignore[arg-type]
        lambda: Constant(2**53 + 1),
        lambda: Constant(10**400),
        lambda: Linear(0, 1, 0),
        lambda: Linear(0, 1, 2.5),  # type: ignore[arg-type]
        lambda: Step(0.1, -3, 0.5),
        lambda: MultiStep(0.1, (5, 5), 0.5),
        lambda: MultiStep(0.1, (0,), 0.5),
        lambda: MultiStep(0.1, 5, 0.5),  # type: ignore[arg-type]
        lambda: Cosine(1, 0, 10, restarts=0.5),
        lambda: Cyclic(0, 1, 5, 0),
        lambda: concatenate(Constant(1), (10, Constant(2)), (10, Constant(3))),
        lambda: concatenate(Constant(1), (10, Constant(2)), (5, Constant(3))),
        lambda: concatenate(Constant(1), (-1, Constant(2))),
        lambda: concatenate(Constant(1), (0, Constant(2))),
        lambda: concatenate(Constant(1), (5, 0.1)),  # type: ignore[arg-type]
        lambda: Joined(()),
        lambda: Joined(((3, Constant(1)),)),
        lambda: warmup(0.0, 5, 0.1),  # type: ignore[arg-type]
        lambda: Constant(0.1).values(-1, 3),
        lambda: Constant(0.1).values(5, 3),
    ],
)
def test_what_is_no_sequence_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidInput):
        make()


def test_a_value_beyond_all_numbers_is_refused_where_it_stands() -> None:
    grown = Exponential(1.0, 2.0)
    assert grown(1023) == 2.0**1023
    with pytest.raises(InvalidInput, match="at step 1024") as caught:
        grown.values(0, 2000)
    assert caught.value.step == 1024


DEEP: dict[str, object] = {"kind": "constant", "value": 0.1}
for _ in range(3_000):
    DEEP = {"kind": "joined", "pieces": [[0, DEEP]]}

NESTED: list[object] = []
for _ in range(100_000):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"kind": "unheard of"},
        {"kind": ["constant"]},
        {"kind": "constant"},
        {"kind": "constant", "value": "0.1"},
        {"kind": "constant", "value": None},
        {"kind": "constant", "value": [0.1]},
        {"kind": "constant", "value": 0.1, "more": 1},
        {"kind": "multistep", "start": 1, "milestones": [[1]], "gamma": 1},
        {"kind": "multistep", "start": 1, "milestones": {"1": 2}, "gamma": 1},
        {"kind": "joined", "pieces": []},
        {"kind": "joined", "pieces": [0, {"kind": "constant", "value": 1}]},
        {"kind": "joined", "pieces": [[0, {"kind": "constant", "value": 1}, 3]]},
        {"kind": "joined", "pieces": [[0, {"kind": "constant", "value": 1}], [0, {"kind": "constant", "value": 1}]]},
        {"kind": "constant", "value": NESTED},
        DEEP,
    ],
)
def test_corrupt_data_is_refused(data: object) -> None:
    with pytest.raises(CorruptRecord):
        sequence_from_json(data)
