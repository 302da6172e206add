"""What happens when: by the seed alone, each kind in its turn, over with the time."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from tests.chaos.schedule import DECK, LAST_S, WAYS, schedule

VICTIMS = ["provider-0", "provider-1", "trainer-0"]


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_faults_come_in_order_and_end_with_the_time(seed: int) -> None:
    faults = schedule(seed, 1800, VICTIMS)
    assert faults == schedule(seed, 1800, VICTIMS)
    assert faults != schedule(seed ^ 1, 1800, VICTIMS)
    assert [fault.at_s for fault in faults] == sorted(fault.at_s for fault in faults)
    assert all(0 < fault.at_s < fault.at_s + fault.seconds <= 1800 or not fault.seconds for fault in faults)
    assert faults[-1].at_s > 1790
    for fault in faults:
        assert (fault.seconds > 0) == (fault.kind in LAST_S)
        assert (fault.victim in VICTIMS) == (fault.kind in ("kill worker", "kill host", "stop", "cut"))
        assert (fault.way in WAYS) == (fault.kind == "cut")
        assert fault.kind in fault.words()


def test_each_kind_has_its_turn() -> None:
    faults = schedule(5, 3600, VICTIMS)
    for first in range(0, len(faults) - len(DECK), len(DECK)):
        assert Counter(fault.kind for fault in faults[first : first + len(DECK)]) == Counter(DECK)
    assert {fault.victim for fault in faults if fault.victim} == set(VICTIMS)
    assert {fault.way for fault in faults if fault.way} == set(WAYS)


def test_a_longer_trial_begins_like_a_shorter_one() -> None:
    short, long = schedule(3, 60, VICTIMS), schedule(3, 600, VICTIMS)
    assert [fault[:3] for fault in short] == [fault[:3] for fault in long[: len(short)]]


def test_faults_are_as_far_apart_as_asked() -> None:
    faults = schedule(3, 3600, VICTIMS, every_s=20)
    gaps = [later.at_s - earlier.at_s for earlier, later in itertools.pairwise(faults)]
    assert 8 <= min(gaps) < max(gaps) <= 32
    assert sum(gaps) / len(gaps) == pytest.approx(20, abs=2)
