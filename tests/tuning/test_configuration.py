"""Configurations: common beginnings and keys against values compared one by one, in any number of steps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.tuning import Configuration, Constant, Cosine, Exponential, MultiStep, StepSequence, concatenate
from tests.tuning.drawn import CONFIGURATIONS, SEQUENCES


def steps_of(configuration: Configuration, steps: int) -> list[tuple[str, ...]]:
    """The values of a configuration, step by step, as exact text."""
    return [tuple(value.hex() for value in configuration.at(step).values()) for step in range(steps)]


@given(CONFIGURATIONS, CONFIGURATIONS, st.integers(0, 15))
@settings(max_examples=100)
def test_common_steps_are_those_of_equal_values(one: Configuration, two: Configuration, most: int) -> None:
    common = 0
    if one.header == two.header:
        pairs = zip(steps_of(one, most), steps_of(two, most), strict=True)
        common = next((step for step, (a, b) in enumerate(pairs) if a != b), most)
    assert one.common_steps(two, most) == two.common_steps(one, most) == common
    for steps in range(15):
        assert (one.key(steps) == two.key(steps)) == (
            one.header == two.header and steps_of(one, steps) == steps_of(two, steps)
        )


@given(SEQUENCES, SEQUENCES, st.integers(1, 5000))
@example(Constant(0.1), Constant(0.2), 1023)
@example(Constant(0.1), Constant(0.2), 1024)
@example(Constant(0.1), Constant(0.2), 1025)
@settings(max_examples=30)
def test_long_sequences_part_where_they_are_made_to(one: StepSequence, two: StepSequence, at: int) -> None:
    first = Configuration({"rate": one, "size": Constant(3)})
    second = Configuration({"rate": concatenate(one, (at, two)), "size": Constant(3)})
    common = first.common_steps(second, 6000)
    assert common >= at
    assert first.common_steps(second, at) == at
    assert first.key(common) == second.key(common)
    if common < 6000:
        assert first.bits_at(common) != second.bits_at(common)
        assert first.key(common + 1) != second.key(common + 1)
        assert first.key(6000) != second.key(6000)


def test_keys_are_the_same_in_every_process_and_version() -> None:
    """Stored names are made of these."""
    configuration = Configuration({"lr": Cosine(0.1, 0.0, 3000), "bs": Constant(64)}, {"optimizer": "sgd"}, "epoch")
    assert configuration.key(0) == "ace169400fddd7203a9bec51e2903b03"
    assert configuration.key(2500) == "51a554c2ce7f6158f55bef5dd2fb5e0b"


@pytest.mark.parametrize("change", [{"constants": {"dropout": 0.5}}, {"constants": {"p": 1.0}}, {"unit": "epoch"}])
def test_other_constants_or_units_share_nothing(change: dict[str, Any]) -> None:
    parts: dict[str, Any] = {"sequences": {"lr": Constant(0.1)}, "constants": {"p": 1}}
    one, two = Configuration(**parts), Configuration(**{**parts, **change})
    assert one.common_steps(two, 10) == 0
    assert one.key(5) != two.key(5)
    assert one != two


def test_which_hyper_parameter_has_a_value_matters() -> None:
    one = Configuration({"a": Constant(1.0), "b": Constant(2.0)})
    two = Configuration({"a": Constant(2.0), "b": Constant(1.0)})
    other = Configuration({"a": Constant(1.0), "c": Constant(2.0)})
    assert len({one.key(3), two.key(3), other.key(3)}) == 3
    assert one.common_steps(two, 9) == one.common_steps(other, 9) == 0


@given(CONFIGURATIONS)
def test_data_comes_back(configuration: Configuration) -> None:
    again = Configuration.from_json(json.loads(json.dumps(configuration.to_json())))
    assert again == configuration
    assert again.key(20) == configuration.key(20)


def test_what_changes_nothing_over_time_has_no_sequences() -> None:
    one, other = Configuration({}, {"units": 4}, "epoch"), Configuration({}, {"units": 8}, "epoch")
    assert one.common_steps(Configuration({}, {"units": 4}, "epoch"), 5000) == 5000
    assert one.common_steps(other, 5000) == 0
    assert one.key(3) != one.key(4) != one.key(2000) != other.key(2000)
    assert Configuration.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_values_that_overflow_are_found_before_they_are_trained() -> None:
    configuration = Configuration({"lr": Exponential(1.0, 2.0), "bs": Constant(8)})
    configuration.check(1024)
    with pytest.raises(InvalidInput, match=r"'lr'.*at step 1024"):
        configuration.check(1025)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Configuration({"lr": 0.1}),  # type: ignore[dict-item]
        lambda: Configuration({"lr": Constant(0.1)}, {"lr": 0.1}),
        lambda: Configuration({"lr": Constant(0.1)}, {"p": float("nan")}),
        lambda: Configuration({"lr": Constant(0.1)}, {"p": Constant(0.1)}),
        lambda: Configuration({"l r": Constant(0.1)}),
        lambda: Configuration({"lr": Constant(0.1)}, unit="batch"),  # type: ignore[arg-type]
        lambda: Configuration({"lr": Constant(0.1)}).key(-1),
    ],
)
def test_what_is_no_configuration_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidInput):
        make()


@pytest.mark.parametrize(
    "data",
    [
        None,
        {"sequences": {"lr": 0.1}, "constants": {}, "unit": "epoch"},
        {"sequences": {"lr": {"kind": "constant", "value": 1}}, "constants": {}, "unit": "week"},
        {"sequences": {"lr": {"kind": "constant", "value": 1}}, "constants": []},
    ],
)
def test_corrupt_data_is_refused(data: object) -> None:
    with pytest.raises(CorruptRecord):
        Configuration.from_json(data)


def test_a_multistep_is_a_constant_until_its_first_milestone() -> None:
    one = Configuration({"lr": MultiStep(0.1, (100, 150), 0.5)})
    assert one.common_steps(Configuration({"lr": Constant(0.1)}), 200) == 100
    assert one.common_steps(Configuration({"lr": MultiStep(0.1, (100, 160), 0.5)}), 200) == 150


def test_more_steps_than_anyone_trains_are_refused_at_once() -> None:
    configuration = Configuration({"lr": Constant(0.1)})
    for refused in (lambda: configuration.check(10**12), lambda: configuration.key(10**12)):
        with pytest.raises(InvalidInput, match="from 0 to 134,217,728"):
            refused()
