"""No state that orders of events and faults can lead to breaks a promise; with any rule left out, one does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import with_long
from tests.faults.switched_off import SHORTEST, SWITCHED_OFF
from tests.protocol.checker import Behaviour
from tests.protocol.checker.exhaustive.search import Exploration, explore
from tests.protocol.checker.exhaustive.system import System
from tests.protocol.checker.explore import SCENARIOS

SMALL = [
    ("twice", {}),
    ("next_best", {"late": 1}),
    ("used_again", {"kill": 1}),
    ("ended_early", {"crash": 1, "double": 1}),
    ("ended_goes_on", {"crash": 1}),
    ("restarted", {"cut": 1}),
    ("moved", {"late": 1}),
    ("next_best", {"move": 1}),
    ("ended_goes_on", {"move": 1}),
    ("audited_in_training", {"move": 1}),
    ("moved", {"move": 1, "late": 1}),
    ("released_after_put", {"late": 1, "crash": 1}),
    ("label_ends", {}),
    ("label_ends_during_put", {"late": 1}),
    ("label_ends", {"restart": 1}),
    ("label_ends_during_put", {"crash": 1}),
    ("left_during_put", {"late": 1}),
    ("left_while_reserving", {"late": 1}),
    ("audited_in_training", {}),
    ("ended_goes_on", {"renew": 1}),
    ("moved", {"renew": 1, "cut": 1}),
    ("released_after_put", {"renew": 1, "crash": 1}),
    ("next_best", {"rewrite": 1}),
    ("restarted", {"rewrite": 1}),
    ("restarted", {"outlive": 1}),
    ("given_back", {"rewrite": 1}),
]
"""Scenes and faults by kind whose states are some thousands; benchmarks/every_state.py takes the large ones."""


def _explore(system: System, scene: str, budget: dict[str, int]) -> Exploration:
    return explore(system, SCENARIOS[scene], budget)


LARGER = [("twice", {}), ("next_best", {"late": 1}), ("label_ends", {"restart": 1}), ("next_best", {"rewrite": 1})]


def _case(scene: str, budget: dict[str, int]) -> Any:
    marks = [pytest.mark.long] if (scene, budget) in LARGER else []
    return pytest.param(scene, budget, id=f"{scene}-{'-'.join(budget)}", marks=marks)


@pytest.mark.parametrize(("scene", "budget"), [_case(scene, budget) for scene, budget in SMALL])
def test_no_state_breaks_a_promise(scene: str, budget: dict[str, int]) -> None:
    found = _explore(System(behaviour=Behaviour(retries=1, separate_publish=False)), scene, budget)
    assert found.violation is None, str(found.violation)
    assert found.complete
    assert found.ends


def test_every_rule_has_its_scene() -> None:
    assert SHORTEST.keys() == SWITCHED_OFF.keys()


@pytest.mark.parametrize(
    "rule",
    with_long(
        SWITCHED_OFF,
        "first publish wins",
        "hold is refused to older generations",
        "gone: next match under a new attempt",
        "what died is flushed before a file is written anew",
        "audit: no answer, no verdict",
    ),
)
def test_each_rule_is_needed(rule: str) -> None:
    found = _explore(SWITCHED_OFF[rule].system(), *SHORTEST[rule])
    assert found.violation is not None, f"nobody misses the rule that {rule} in {found.states} states"
