"""Code of this process that hangs is interrupted."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest

from daskevo_workflows.execution.alarm import Overdue, alarm

pytestmark = pytest.mark.usefixtures("alarm_clock")


def test_what_waits_and_what_computes_is_interrupted() -> None:
    with pytest.raises(Overdue), alarm(0.05):
        time.sleep(10_000)
    with pytest.raises(Overdue), alarm(0.05):
        sum(iter(lambda: 1, 2))
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("place", ["begin", "end"])
def test_it_may_ring_while_it_begins_or_ends(place: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this process slept meanwhile: nothing of it is left, whoever it interrupts."""
    setitimer = signal.setitimer

    def ringing(which: int, seconds: float, *again: float) -> Any:
        rings = (seconds > 0) == (place == "begin")
        if rings and when == "before":
            signal.raise_signal(signal.SIGALRM)
        found = setitimer(which, seconds, *again)
        if rings and when == "after":
            signal.raise_signal(signal.SIGALRM)
        return found

    monkeypatch.setattr(signal, "setitimer", ringing)
    done = []
    if place == "begin":
        with pytest.raises(Overdue), alarm(10_000):
            done.append("nothing")
    else:
        with alarm(10_000):
            done.append("all")
    monkeypatch.undo()
    assert done == ([] if place == "begin" else ["all"])
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_what_is_done_in_time_is_not() -> None:
    with alarm(10_000):
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 10_000
    with alarm(None):
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_the_clock_of_somebody_else_is_left_alone() -> None:
    signal.setitimer(signal.ITIMER_REAL, 5_000)
    with alarm(0.001):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 1_000
    signal.setitimer(signal.ITIMER_REAL, 0)
    found = []

    def elsewhere() -> None:
        with alarm(0.001):
            found.append(signal.getitimer(signal.ITIMER_REAL)[0])

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [0]
