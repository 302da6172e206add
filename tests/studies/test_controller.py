"""The controller, with trainers that are threads: who asks is answered, equal steps are trained once, faults are told
apart."""

from __future__ import annotations

import asyncio
import itertools
import math
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from daskevo.errors import InvalidInput, RunError, TrialFailed
from daskevo.tuning import Configuration, Constant, Trajectory, concatenate, count_steps
from daskevo_workflows.studies import work
from daskevo_workflows.studies.controller import Controller, ControllerWish
from daskevo_workflows.studies.study import until_stored
from tests.studies.threads import Fault, ThreadCrew, figures

TIMEOUT_S = 60
WAITERS = itertools.count()


def rate(*pieces: tuple[int, float]) -> Trajectory:
    (_, first), *later = pieces
    sequence = concatenate(Constant(first), *((step, Constant(value)) for step, value in later))
    return Trajectory("m", Configuration({"learning_rate": sequence}))


ONE = rate((0, 0.1))
PARTS_AT_4 = rate((0, 0.1), (4, 0.01))
PARTS_AT_6 = rate((0, 0.1), (6, 0.01))


def ask(controller: Controller, *wishes: tuple[Trajectory, int]) -> list[Future[Mapping[str, float]]]:
    return controller.request([ControllerWish(next(WAITERS), *wish) for wish in wishes])


class Gate:
    """Has a training wait before a step of a trajectory until it is opened."""

    def __init__(self, trajectory: Trajectory, step: int) -> None:
        self.place = trajectory.key(step)
        self.came, self.open = threading.Event(), threading.Event()

    def __call__(self, trajectory: Trajectory, step: int) -> None:
        if trajectory.key(step) == self.place:
            self.came.set()
            assert self.open.wait(TIMEOUT_S)


@contextmanager
def led(crew: ThreadCrew) -> Iterator[Controller]:
    with Controller(crew) as controller:
        yield controller


def test_equal_steps_are_trained_once_and_all_are_answered() -> None:
    crew = ThreadCrew("t0", "t1")
    wishes = [(ONE, 8), (PARTS_AT_4, 8), (PARTS_AT_6, 8), (ONE, 5)]
    with led(crew) as controller:
        answers = [future.result(TIMEOUT_S) for future in ask(controller, *wishes)]
        assert answers == [figures(*wish) for wish in wishes]
        # Known ones are answered at once.
        assert ask(controller, (ONE, 5))[0].done()
    assert crew.trained.total() == count_steps(wishes).unique
    assert set(crew.trained.values()) == {1}


def test_a_newcomer_has_a_running_work_save_where_it_parts() -> None:
    gate = Gate(ONE, 3)
    crew = ThreadCrew("t0", "t1", before_step=gate)
    with led(crew) as controller:
        (first,) = ask(controller, (ONE, 8))
        assert gate.came.wait(TIMEOUT_S)
        (second,) = ask(controller, (PARTS_AT_4, 6))
        crew.settle()
        gate.open.set()
        assert second.result(TIMEOUT_S) == figures(PARTS_AT_4, 6)
        assert first.result(TIMEOUT_S) == figures(ONE, 8)
    assert [(told.step, reply) for told, reply in crew.replies] == [(4, "accepted")]
    assert set(crew.trained.values()) == {1}


def test_a_newcomer_that_comes_too_late_has_the_steps_trained_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work has passed the step, unsaved, and it isn't known yet where it is."""
    monkeypatch.setattr(work, "TOLD_EVERY_S", math.inf)
    gate = Gate(ONE, 7)
    crew = ThreadCrew("t0", "t1", before_step=gate)
    with led(crew) as controller:
        (first,) = ask(controller, (ONE, 8))
        assert gate.came.wait(TIMEOUT_S)
        (second,) = ask(controller, (PARTS_AT_4, 6))
        assert second.result(TIMEOUT_S) == figures(PARTS_AT_4, 6)
        gate.open.set()
        assert first.result(TIMEOUT_S) == figures(ONE, 8)
    assert [(told.step, reply) for told, reply in crew.replies] == [(4, "passed")]
    assert crew.trained[ONE.key(4)] == 2
    assert crew.trained[ONE.key(5)] == 1


def test_an_evaluation_asked_for_while_the_model_is_saved_there_is_done_there() -> None:
    """Where one of two trials parts, the model is saved; a third one asks for its metrics while the other scores."""
    scoring = Gate(ONE, 4)
    crew = ThreadCrew("t0", before_score=scoring)
    with led(crew) as controller:
        first = ask(controller, (ONE, 4), (PARTS_AT_4, 6))
        assert scoring.came.wait(TIMEOUT_S)
        late = ask(controller, (PARTS_AT_4, 4), (PARTS_AT_6, 5))
        scoring.open.set()
        assert [future.result(TIMEOUT_S) for future in [*first, *late]] == [
            figures(ONE, 4),
            figures(PARTS_AT_4, 6),
            figures(ONE, 4),
            figures(ONE, 5),
        ]
    assert set(crew.trained.values()) == {1}


def test_a_request_that_is_taken_back_ends_the_work_at_the_next_step() -> None:
    gate = Gate(ONE, 3)
    crew = ThreadCrew("t0", before_step=gate)
    with led(crew) as controller:
        (first,) = ask(controller, (ONE, 1000))
        assert gate.came.wait(TIMEOUT_S)
        assert first.cancel()
        crew.settle()
        gate.open.set()
        (other,) = ask(controller, (rate((0, 0.5)), 3))
        assert other.result(TIMEOUT_S) == figures(rate((0, 0.5)), 3)
    assert crew.trained[ONE.key(3)] == 1
    assert ONE.key(5) not in crew.trained


def test_a_stage_that_fails_fails_its_trials_and_no_others() -> None:
    def breaks(trajectory: Trajectory, step: int) -> None:
        if trajectory.key(step) == PARTS_AT_4.key(5):
            raise Fault("error")

    crew = ThreadCrew("t0", before_step=breaks)
    with led(crew) as controller:
        first, second, third = ask(controller, (ONE, 8), (PARTS_AT_4, 6), (PARTS_AT_4, 8))
        assert first.result(TIMEOUT_S) == figures(ONE, 8)
        for future in (second, third):
            with pytest.raises(TrialFailed, match="that was asked for"):
                future.result(TIMEOUT_S)
        # It is known, and not tried again.
        runs = len(crew.runs)
        with pytest.raises(TrialFailed):
            ask(controller, (PARTS_AT_4, 7))[0].result(TIMEOUT_S)
        assert len(crew.runs) == runs


def test_a_stage_for_which_no_trainer_has_the_memory_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that has it is there, but busy, and goes before it is free."""
    monkeypatch.setattr("daskevo_workflows.studies.controller.LARGER_S", 0.0)
    gate, ran_out = Gate(PARTS_AT_4, 6), threading.Event()
    big = rate((0, 0.5))

    def breaks(trajectory: Trajectory, step: int) -> None:
        if trajectory.key(step) == big.key(1):
            raise Fault("out of memory")
        gate(trajectory, step)

    crew = ThreadCrew("small", before_step=breaks)
    with led(crew) as controller:
        controller.post(lambda: controller.came("large", 1_000))
        monkeypatch.setattr(controller, "note", lambda *facts: ran_out.set())
        failing, other = ask(controller, (big, 10), (PARTS_AT_4, 8))
        assert gate.came.wait(TIMEOUT_S)
        assert ran_out.wait(TIMEOUT_S)
        crew.lose("large")  # another comes, of unknown size
        controller.call(lambda: None)
        gate.open.set()
        with pytest.raises(TrialFailed, match="those with more have gone"):
            failing.result(TIMEOUT_S)
        assert other.result(TIMEOUT_S) == figures(PARTS_AT_4, 8)
    assert [run.trainer for run in crew.runs[:2]] == ["small", "large"]


def test_a_lost_trainer_costs_no_more_than_was_not_saved() -> None:
    gate = Gate(PARTS_AT_4, 6)
    crew = ThreadCrew("t0", before_step=gate)
    with led(crew) as controller:
        first, second = ask(controller, (ONE, 4), (PARTS_AT_4, 8))
        assert first.result(TIMEOUT_S) == figures(ONE, 4)
        assert gate.came.wait(TIMEOUT_S)
        crew.lose("t0")
        controller.call(lambda: None)
        gate.open.set()
        assert second.result(TIMEOUT_S) == figures(PARTS_AT_4, 8)
    assert all(crew.trained[ONE.key(step)] == 1 for step in range(1, 5))
    assert crew.trained[PARTS_AT_4.key(5)] == 2


def test_a_snapshot_that_is_gone_is_made_again() -> None:
    crew = ThreadCrew("t0")
    with led(crew) as controller:
        assert ask(controller, (ONE, 4))[0].result(TIMEOUT_S) == figures(ONE, 4)
        until_stored(controller)  # which is after the answer
        crew.store.clear()
        assert ask(controller, (PARTS_AT_4, 6))[0].result(TIMEOUT_S) == figures(PARTS_AT_4, 6)
    assert crew.trained[ONE.key(4)] == 2


def test_figures_are_waited_for_in_an_event_loop() -> None:
    async def first_and_all(controller: Controller) -> None:
        waiting = [asyncio.wrap_future(future) for future in ask(controller, (ONE, 3), (ONE, 6))]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert done
        assert await asyncio.gather(*waiting) == [figures(ONE, 3), figures(ONE, 6)]

    with led(ThreadCrew("t0")) as controller:
        asyncio.run(asyncio.wait_for(first_and_all(controller), TIMEOUT_S))


def test_costs_are_measured_a_start_apart() -> None:
    crew = ThreadCrew("t0")
    with led(crew) as controller:
        ask(controller, (ONE, 4))[0].result(TIMEOUT_S)
        controller.call(lambda: None)
        assert controller.scheduler.costs.step_s(0) == (1.0, "measured")
        assert controller.scheduler.costs.start_s == 0.5


def test_what_ends_the_controller_is_raised_wherever_somebody_waits() -> None:
    class Broken(ThreadCrew):
        def watch(self) -> None:
            super().watch()
            if self.runs:
                raise RunError("no trainer any more")

    gate = Gate(ONE, 1)
    with led(Broken("t0", before_step=gate)) as controller:
        (first,) = ask(controller, (ONE, 4))
        with pytest.raises(RunError, match="no trainer any more"):
            first.result(TIMEOUT_S)
        gate.open.set()
        with pytest.raises(RunError, match="no trainer any more"):
            ask(controller, (ONE, 4))


def test_a_wish_that_can_t_be_is_refused_at_once() -> None:
    with led(ThreadCrew("t0")) as controller, pytest.raises(InvalidInput, match="step"):
        ask(controller, (ONE, 0))


def test_closing_cancels_what_is_waited_for() -> None:
    gate = Gate(ONE, 2)
    crew = ThreadCrew("t0", before_step=gate)
    with led(crew) as controller:
        (first,) = ask(controller, (ONE, 4))
        assert gate.came.wait(TIMEOUT_S)
    gate.open.set()
    with pytest.raises(RunError, match="closed"):
        first.result(TIMEOUT_S)
