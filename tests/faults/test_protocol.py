"""Single faults and mixtures of them break no promise of the protocol; with any rule left out, some do."""

from __future__ import annotations

from functools import partial

import pytest

from tests.cases import with_long
from tests.faults.switched_off import FOUND_BY, SWITCHED_OFF
from tests.protocol.checker import Behaviour, World
from tests.protocol.checker.explore import SCENARIOS, random_faults, run, single_faults

PATIENT = partial(World, 2)
HASTY = partial(World, 2, behaviour=Behaviour(retries=1, separate_publish=False))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_without_faults_everything_succeeds(scenario: str) -> None:
    worlds = []

    def make() -> World:
        worlds.append(World(2))
        return worlds[0]

    assert run(make, SCENARIOS[scenario], lambda world, _: next(iter(world.actions()), None)) is None
    outcomes = {actor.outcome for actor in worlds[0].actors if actor.name.startswith("put") and not actor.disturbed}
    assert outcomes <= {"stored", "stored by another"}


@pytest.mark.parametrize("stride", [30, pytest.param(6, marks=pytest.mark.long)])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_single_fault_breaks_a_promise(scenario: str, stride: int) -> None:
    """One of so many faults of each step here; a stride of one runs them all (some minutes)."""
    for start, make in enumerate((PATIENT, HASTY)):
        runs = 0
        for finding in single_faults(make, SCENARIOS[scenario], start=stride // 2 * start, stride=stride):
            assert finding is None, str(finding)
            runs += 1
        assert runs


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_mixture_of_faults_breaks_a_promise(scenario: str) -> None:
    for seed in range(25):
        finding = random_faults(HASTY if seed % 2 else PATIENT, SCENARIOS[scenario], seed, faults=6)
        assert finding is None, str(finding)


@pytest.mark.parametrize(
    "rule",
    with_long(
        FOUND_BY,
        "attempts are never shared",
        "release is flushed",
        "gone: next match under a new attempt",
        "a label's end is flushed",
        "stage is refused if over by generation",
    ),
)
def test_each_rule_is_needed(rule: str) -> None:
    """The exploration can fail: it finds what is lost, leaked, comes back or fails when one rule is left out."""
    findings = single_faults(SWITCHED_OFF[rule].world, SCENARIOS[FOUND_BY[rule]])
    finding = next(filter(None, findings), None)
    assert finding is not None, f"nobody misses the rule that {rule}"
