"""The pace of a trial: a search under faults ends with them, neither long before nor long after."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.pace import LONGEST_S, SHORTEST_S, Pace


@pytest.mark.parametrize("work_s", [0.5, 2.0, 5.0])
def test_a_search_takes_as_long_as_asked_if_it_can(tmp_path: Path, work_s: float) -> None:
    """Two trainers, 200 evaluations, ten minutes, each evaluation of so many seconds and its rest."""
    pace, seconds, done, now = Pace(tmp_path / "pace", 200), 600.0, 0.0, 0.0
    while done < 200 and now < 2 * seconds:
        pace.look(int(done), now, seconds - now)
        now += 10
        done += 10 * 2 / (work_s + float((tmp_path / "pace").read_text()))
    assert 0.8 * seconds <= now <= 1.2 * seconds


def test_nobody_rests_where_nothing_finishes_or_the_time_is_over(tmp_path: Path) -> None:
    pace = Pace(tmp_path / "pace", 100)
    for look in range(30):
        pace.look(0, 10.0 * look, 600)
    assert float((tmp_path / "pace").read_text()) == SHORTEST_S
    for look in range(30):
        pace.look(look * 50, 1000 + 10.0 * look, 600)
    assert float((tmp_path / "pace").read_text()) == LONGEST_S
    pace.look(90, 2000, -1.0)
    assert float((tmp_path / "pace").read_text()) == 0
