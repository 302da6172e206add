"""The scheduler, obeyed by trainers that check what they are told: every request answered, no step trained twice."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.errors import InvalidInput
from daskevo.tuning import (
    Configuration,
    Constant,
    Halt,
    Policy,
    Run,
    Scheduler,
    Trajectory,
    concatenate,
    count_steps,
)
from tests.tuning.drawn import CONFIGURATIONS
from tests.tuning.trainers import Trainers, works

TRIALS = st.lists(
    st.tuples(st.builds(Trajectory, st.just("m"), CONFIGURATIONS), st.integers(1, 14)), min_size=1, max_size=12
)
SEEDS = st.integers(0, 2**32 - 1).map(random.Random)
POLICIES = st.sampled_from(["critical path", "breadth first", "most children"])


def rate(*pieces: tuple[int, float]) -> Trajectory:
    (_, first), *later = pieces
    sequence = concatenate(Constant(first), *((step, Constant(value)) for step, value in later))
    return Trajectory("m", Configuration({"lr": sequence}))


@given(TRIALS, st.integers(1, 4), POLICIES, st.booleans(), SEEDS)
@settings(max_examples=80)
def test_trials_known_from_the_start_train_each_step_once(
    trials: list[tuple[Trajectory, int]], trainers: int, policy: Policy, batched: bool, rng: random.Random
) -> None:
    cluster = Trainers(Scheduler(policy=policy, batched=batched), [f"t{n}" for n in range(trainers)])
    for waiter, (trajectory, step) in enumerate(trials):
        cluster.ask(waiter, trajectory, step)
    cluster.finish(rng)
    assert set(cluster.answers) == set(range(len(trials)))
    assert set(cluster.trained.values()) == {1}
    assert cluster.trained.total() == count_steps(trials).unique


@given(TRIALS, st.integers(1, 3), SEEDS)
@settings(max_examples=120)
def test_whatever_happens_everybody_is_answered_and_no_step_is_trained_twice_without_need(
    trials: list[tuple[Trajectory, int]], trainers: int, rng: random.Random
) -> None:
    """Trials come and go, trainers die, and the whole study is killed."""
    cluster = Trainers(Scheduler(), [f"t{n}" for n in range(trainers)])
    left = list(enumerate(trials))
    gone: set[object] = set()
    lost = 0
    while left or rng.random() < 0.9:
        happens = rng.random()
        if left and happens < 0.4:
            waiter, (trajectory, step) = left.pop()
            cluster.ask(waiter, trajectory, step)
            cluster.decide()
        elif cluster.asked and happens < 0.5:
            waiter = rng.choice(sorted(cluster.asked, key=str))
            if waiter not in cluster.answers:
                gone.add(waiter)
                cluster.take_back(waiter)
                cluster.decide()
        elif happens < 0.55:
            lost += sum(cluster.steps.values())
            if rng.random() < 0.5:
                cluster.restore(Scheduler())
            else:
                cluster.lose("t0")
        elif cluster.running:
            cluster.advance(rng.choice(sorted(cluster.running)))
    cluster.finish(rng)
    failed = {waiter for waiter, why in cluster.refused.items() if "lost 2 times" in why}
    assert set(cluster.answers) == set(range(len(trials))) - gone - failed
    if not lost and not gone:
        # A newcomer may need a step that was passed before it came: trained again from the snapshot before, no further.
        unique = count_steps(trials).unique
        assert cluster.trained.total() >= unique
        assert len(cluster.trained) == unique


@given(TRIALS, st.integers(1, 3), SEEDS, st.lists(st.integers(0, 30), min_size=2, max_size=2))
@settings(max_examples=60)
def test_a_study_killed_twice_trains_no_more_than_it_lost(
    trials: list[tuple[Trajectory, int]], trainers: int, rng: random.Random, kills: list[int]
) -> None:
    cluster = Trainers(Scheduler(), [f"t{n}" for n in range(trainers)])
    for waiter, (trajectory, step) in enumerate(trials):
        cluster.ask(waiter, trajectory, step)
    cluster.decide()
    lost = 0
    for steps in kills:
        for _ in range(steps):
            if cluster.running:
                cluster.advance(rng.choice(sorted(cluster.running)))
        lost += cluster.unsaved
        cluster.restore(Scheduler())
    cluster.finish(rng)
    assert set(cluster.answers) == set(range(len(trials)))
    assert cluster.trained.total() == count_steps(trials).unique + lost


def test_a_newcomer_gets_a_snapshot_from_work_that_comes_by() -> None:
    cluster = Trainers(Scheduler(), ["t0", "t1"])
    cluster.ask("long", rate((0, 0.1)), 20)
    cluster.decide()
    (work,) = cluster.running
    for _ in range(5):
        cluster.advance(work)
    cluster.ask("parts at 8", rate((0, 0.1), (8, 0.2)), 12)
    cluster.ask("ends at 10", rate((0, 0.1)), 10)
    cluster.decide()
    assert works(cluster) == [("t0", 0, ((20, True), (8, False), (10, True)))]
    cluster.finish(random.Random(0))
    assert set(cluster.trained.values()) == {1}
    assert cluster.trained.total() == 20 + 4


def test_a_newcomer_has_work_evaluate_where_it_saves_anyway() -> None:
    cluster = Trainers(Scheduler(), ["t0"])
    cluster.ask("a", rate((0, 0.1)), 20)
    cluster.ask("b", rate((0, 0.1), (10, 0.2)), 15)
    cluster.decide()
    assert works(cluster) == [("t0", 0, ((10, False), (20, True)))]
    cluster.ask("c", rate((0, 0.1)), 10)
    cluster.decide()
    assert works(cluster) == [("t0", 0, ((10, True), (20, True)))]
    cluster.finish(random.Random(0))
    assert cluster.starts == 2


def test_a_newcomer_too_late_for_its_step_trains_from_the_snapshot_before() -> None:
    cluster = Trainers(Scheduler(), ["t0", "t1"])
    cluster.ask("short", rate((0, 0.1)), 4)
    cluster.ask("long", rate((0, 0.1)), 20)
    cluster.decide()
    (work,) = cluster.running
    for _ in range(9):
        cluster.advance(work)
    cluster.ask("late", rate((0, 0.1)), 8)
    cluster.decide()
    assert works(cluster)[1] == ("t1", 4, ((8, True),))


def test_work_that_has_passed_a_step_says_so() -> None:
    """Its progress was not known when it was told."""
    scheduler = Scheduler()
    scheduler.add("long", rate((0, 0.1)), 20)
    scheduler.trainer("t0")
    (run,) = scheduler.decide()
    assert isinstance(run, Run)
    scheduler.add("late", rate((0, 0.1)), 8)
    scheduler.trainer("t1")
    (save,) = scheduler.decide()
    assert (save.step, save.evaluate) == (8, True)  # type: ignore[union-attr]
    scheduler.missed(run.work, 8)
    (again,) = scheduler.decide()
    assert isinstance(again, Run)
    assert (again.start, again.marks) == (0, ((8, True),))


def test_work_that_nobody_waits_for_is_stopped_and_what_somebody_waits_for_is_not() -> None:
    cluster = Trainers(Scheduler(), ["t0"])
    cluster.ask("a", rate((0, 0.1)), 10)
    cluster.ask("b", rate((0, 0.1)), 20)
    cluster.ask("c", rate((0, 0.1)), 20)
    cluster.decide()
    (work,) = cluster.running
    cluster.advance(work)
    cluster.take_back("b")
    cluster.decide()
    assert works(cluster) == [("t0", 0, ((10, True), (20, True)))]
    cluster.take_back("c")
    cluster.decide()
    assert works(cluster) == [("t0", 0, ((10, True),))]
    cluster.take_back("a")
    cluster.decide()
    assert works(cluster) == []
    cluster.ask("again", rate((0, 0.1)), 10)
    cluster.decide()
    assert works(cluster) == [("t0", 0, ((10, True),))]


def test_work_that_was_told_to_end_earlier_does_not_go_on_for_a_newcomer() -> None:
    cluster = Trainers(Scheduler(), ["t0"])
    cluster.ask("a", rate((0, 0.1)), 10)
    cluster.ask("b", rate((0, 0.1)), 20)
    cluster.decide()
    cluster.take_back("b")
    cluster.decide()
    cluster.ask("c", rate((0, 0.1)), 15)
    cluster.decide()
    assert works(cluster) == [("t0", 0, ((10, True),))]
    cluster.finish(random.Random(0))
    assert set(cluster.answers) == {"a", "c"}
    assert cluster.trained.total() == 15


def test_work_that_is_about_to_stop_is_asked_for_nothing() -> None:
    scheduler = Scheduler()
    scheduler.add("a", rate((0, 0.1)), 20)
    scheduler.trainer("t0")
    scheduler.decide()
    scheduler.remove("a")
    assert [type(told).__name__ for told in scheduler.decide()] == ["Halt"]
    scheduler.add("b", rate((0, 0.1)), 8)
    scheduler.add("c", rate((0, 0.1)), 20)
    scheduler.trainer("t1")
    (run,) = scheduler.decide()
    assert isinstance(run, Run)
    assert (run.trainer, run.start, run.marks) == ("t1", 0, ((8, True), (20, True)))
    # What becomes of the first concerns nobody.
    assert scheduler.failed("work-0", "error", "boom") == []
    assert len(scheduler.plan.wanted) == 2


def test_work_beyond_what_is_wanted_ends_at_once_and_its_model_is_not_counted_on() -> None:
    scheduler = Scheduler()
    scheduler.add("long", rate((0, 0.1)), 20)
    scheduler.add("short", rate((0, 0.1), (10, 0.2)), 15)
    scheduler.trainer("t0")
    (run,) = scheduler.decide()
    assert isinstance(run, Run)
    assert run.marks == ((10, False), (20, True))
    scheduler.progress(run.work, 12)
    scheduler.remove("long")
    assert scheduler.decide() == [Halt(run.work, "t0", None)]
    scheduler.saved(run.work, 10, "s10")
    scheduler.ended(run.work)
    (on,) = scheduler.decide()
    assert isinstance(on, Run)
    assert (on.start, on.snapshot, on.in_memory) == (10, "s10", False)


def test_stage_by_stage_each_model_is_loaded() -> None:
    scheduler = Scheduler(batched=False)
    scheduler.add("a", rate((0, 0.1)), 5)
    scheduler.add("b", rate((0, 0.1)), 9)
    scheduler.trainer("t0")
    (run,) = scheduler.decide()
    assert isinstance(run, Run)
    scheduler.saved(run.work, 5, "s5")
    scheduler.measured(run.work, 5, {})
    scheduler.ended(run.work)
    (on,) = scheduler.decide()
    assert isinstance(on, Run)
    assert (on.start, on.in_memory) == (5, False)


def test_work_goes_on_while_its_last_snapshot_is_being_saved() -> None:
    scheduler = Scheduler()
    scheduler.add("a", rate((0, 0.1)), 10)
    scheduler.trainer("t0")
    (run,) = scheduler.decide()
    assert isinstance(run, Run)
    scheduler.progress(run.work, 10)
    assert len(scheduler.measured(run.work, 10, {})) == 1
    assert scheduler.decide() == []
    scheduler.saved(run.work, 10, "s10")
    scheduler.ended(run.work)
    assert scheduler.plan.nodes[0].snapshots == {10: "s10"}


def test_a_path_is_given_as_a_whole_and_its_branches_to_others() -> None:
    cluster = Trainers(Scheduler(), ["t0", "t1"])
    cluster.ask("long", rate((0, 0.1), (10, 0.2), (20, 0.3)), 40)
    cluster.ask("short", rate((0, 0.1), (10, 0.2)), 25)
    cluster.decide()
    assert works(cluster) == [("t0", 0, ((20, False), (40, True)))]
    (work,) = cluster.running
    for _ in range(20):
        cluster.advance(work)
    assert works(cluster)[1] == ("t1", 20, ((25, True),))


def test_a_trainer_goes_on_with_the_model_that_it_has() -> None:
    scheduler = Scheduler()
    for name in ("t0", "t1"):
        scheduler.trainer(name)
    scheduler.add("a", rate((0, 0.1)), 5)
    scheduler.add("b", rate((0, 0.2)), 5)
    first, second = scheduler.decide()
    assert isinstance(first, Run)
    assert isinstance(second, Run)
    for run in (second, first):
        scheduler.saved(run.work, 5, run.trajectory.key(5))
        scheduler.measured(run.work, 5, {})
        scheduler.ended(run.work)
    scheduler.add("b on", second.trajectory, 9)
    (on,) = scheduler.decide()
    assert isinstance(on, Run)
    assert (on.trainer, on.start, on.in_memory) == (second.trainer, 5, True)


def fail(cluster: Trainers, kind: str, why: str = "boom", trainer: str | None = None) -> None:
    """Have the first running work, or that of a trainer, fail where it is."""
    work = next(work for work, (run, _) in cluster.running.items() if trainer in (None, run.trainer))
    cluster.scheduler.progress(work, cluster.steps[work])
    del cluster.running[work]
    cluster.obey(cluster.scheduler.failed(work, kind, why))  # type: ignore[arg-type]
    cluster.decide()


def test_a_stage_that_fails_fails_what_comes_after_and_nothing_else() -> None:
    cluster = Trainers(Scheduler(), ["t0"])
    cluster.ask("before", rate((0, 0.1)), 5)
    cluster.ask("at", rate((0, 0.1)), 10)
    cluster.ask("after", rate((0, 0.1), (12, 0.2)), 30)
    cluster.ask("branch before", rate((0, 0.1), (5, 0.3)), 8)
    cluster.ask("other", rate((0, 0.5)), 8)
    cluster.decide()
    (work,) = cluster.running
    for _ in range(7):
        cluster.advance(work)
    fail(cluster, "error")
    assert cluster.refused == {"at": "boom", "after": "boom"}
    cluster.finish(random.Random(0))
    assert set(cluster.answers) == {"before", "branch before", "other"}
    cluster.ask("later", rate((0, 0.1), (11, 0.7)), 15)
    assert cluster.refused["later"] == "boom"


def test_an_evaluation_that_fails_fails_its_own_stage() -> None:
    cluster = Trainers(Scheduler(), ["t0"])
    cluster.ask("at 5", rate((0, 0.1)), 5)
    cluster.ask("before", rate((0, 0.1)), 3)
    cluster.decide()
    (work,) = cluster.running
    for _ in range(3):
        cluster.advance(work)
    cluster.scheduler.progress(work, 5)
    cluster.scheduler.saved(work, 5, "s5")
    fail(cluster, "error")
    assert cluster.refused == {"at 5": "boom"}
    assert set(cluster.answers) == {"before"}


def test_a_lost_trainer_s_stage_is_done_again_and_fails_the_second_time() -> None:
    cluster = Trainers(Scheduler(), ["t0"])
    cluster.ask("a", rate((0, 0.1)), 10)
    cluster.ask("b", rate((0, 0.1)), 20)
    cluster.decide()
    cluster.lose("t0")
    assert works(cluster) == [("t0", 0, ((10, True), (20, True)))]
    (work,) = cluster.running
    for _ in range(10):
        cluster.advance(work)
    cluster.lose("t0")
    assert works(cluster) == [("t0", 10, ((20, True),))]
    cluster.lose("t0")
    assert "lost 2 times" in cluster.refused["b"]
    # It may have been the machine: a later request is tried.
    cluster.ask("c", rate((0, 0.1)), 20)
    cluster.finish(random.Random(0))
    assert set(cluster.answers) == {"a", "c"}


def test_out_of_memory_is_tried_once_more_on_a_larger_trainer() -> None:
    cluster = Trainers(Scheduler(), [])
    cluster.scheduler.trainer("large", 16_000)
    cluster.scheduler.trainer("small", 8_000)
    cluster.ask("a", rate((0, 0.1)), 10)
    cluster.ask("b", rate((0, 0.1)), 20)
    cluster.decide()
    assert works(cluster)[0][0] == "small"
    cluster.scheduler.trainer("middle", 12_000)
    fail(cluster, "out of memory")
    assert works(cluster) == [("large", 0, ((10, True), (20, True)))]
    cluster.scheduler.trainer("larger still", 32_000)
    fail(cluster, "out of memory")
    assert set(cluster.refused) == {"a", "b"}
    for figure in ("trainer large", "16,000", "8,000", "steps 0 and 10", "32,000", "boom"):
        assert figure in cluster.refused["a"]
    assert works(cluster) == []


def test_out_of_memory_on_the_largest_trainer_fails_at_once() -> None:
    cluster = Trainers(Scheduler(), [])
    for name in ("one", "two"):
        cluster.scheduler.trainer(name, 8_000)
    cluster.ask("a", rate((0, 0.1)), 10)
    cluster.decide()
    fail(cluster, "out of memory")
    assert "the largest trainer has 8,000" in cluster.refused["a"]


def test_after_out_of_memory_the_largest_is_waited_for_and_not_for_ever() -> None:
    cluster = Trainers(Scheduler(), [])
    cluster.scheduler.trainer("large", 16_000)
    cluster.scheduler.trainer("middle", 12_000)
    cluster.scheduler.trainer("small", 8_000)
    for waiter, value in (("a", 0.1), ("b", 0.2), ("c", 0.3)):
        cluster.ask(waiter, rate((0, value)), 10)
    cluster.decide()
    fail(cluster, "out of memory", trainer="small")
    fail(cluster, "error", trainer="middle")
    # The one that is free has more memory, and another has the most.
    assert {run.trainer for run, _ in cluster.running.values()} == {"large"}
    assert cluster.scheduler.beyond == []
    cluster.running.clear()
    cluster.obey(cluster.scheduler.left("large"))
    cluster.obey(cluster.scheduler.left("middle"))
    cluster.decide()
    (end,) = cluster.scheduler.beyond
    cluster.obey(cluster.scheduler.give_up(end))
    cluster.decide()
    assert cluster.scheduler.beyond == []
    refused = [why for why in cluster.refused.values() if "those with more have gone" in why]
    assert len(refused) == 1
    assert "8,000" in refused[0]


def test_after_a_loss_the_largest_that_is_free_is_tried() -> None:
    cluster = Trainers(Scheduler(), [])
    cluster.scheduler.trainer("large", 16_000)
    cluster.scheduler.trainer("small", 8_000)
    cluster.ask("a", rate((0, 0.1)), 10)
    cluster.decide()
    assert works(cluster)[0][0] == "small"
    fail(cluster, "died")
    assert works(cluster)[0][0] == "large"


def lost_stage(kind: str, times: int, *, copies: bool) -> bool:
    """Lose a stage of 100 steps so many times, after a few steps each, and tell whether it is refused."""
    cluster = Trainers(Scheduler(), ["t0"])
    trajectory = rate((0, 0.1))
    cluster.ask("a", trajectory, 100)
    cluster.decide()
    for number in range(1, times + 1):
        (work,) = cluster.running
        for _ in range(3):
            cluster.advance(work)
        if copies:
            step = cluster.steps[work]
            cluster.store[trajectory.key(step)] = trajectory, step
            cluster.obey(cluster.scheduler.saved(work, step, trajectory.key(step)))
        fail(cluster, kind)
        if cluster.refused:
            assert f"was lost {number} times" in cluster.refused["a"]
            return True
    return False


def test_a_stage_that_stores_copies_may_lose_any_number_of_trainers() -> None:
    assert lost_stage("died", 2, copies=False)
    assert not lost_stage("died", 20, copies=True)


def test_trainers_that_leave_say_less_of_a_stage_than_those_that_die() -> None:
    assert not lost_stage("left", 5, copies=False)
    assert lost_stage("left", 6, copies=False)


def test_lost_connections_and_paused_trainers_say_nothing_of_a_stage() -> None:
    assert not lost_stage("cut off", 20, copies=False)
    assert not lost_stage("paused", 20, copies=False)


def test_a_path_ends_where_its_trainer_has_too_little_memory() -> None:
    cluster = Trainers(Scheduler(), [])
    cluster.scheduler.trainer("small", 8_000)
    cluster.scheduler.trainer("large", 16_000)
    big = rate((0, 0.1), (5, 0.2))
    cluster.ask("b", rate((0, 0.1)), 5)
    cluster.ask("a", big, 10)
    cluster.decide()
    (work,) = cluster.running
    for _ in range(6):
        cluster.advance(work)
    fail(cluster, "out of memory")
    assert works(cluster) == [("large", 5, ((10, True),))]
    cluster.lose("large")
    cluster.scheduler.trainer("large", 16_000)
    cluster.scheduler.gone(big, 5)
    cluster.decide()
    assert works(cluster) == [("small", 0, ((5, False),))]


def test_a_snapshot_that_is_gone_is_made_again() -> None:
    cluster = Trainers(Scheduler(), ["t0"])
    cluster.ask("a", rate((0, 0.1)), 5)
    cluster.finish(random.Random(0))
    cluster.ask("b", rate((0, 0.1)), 8)
    cluster.scheduler.gone(rate((0, 0.1)), 5)
    cluster.decide()
    assert works(cluster) == [("t0", 0, ((8, True),))]


def test_a_snapshot_that_is_gone_while_its_work_goes_on_is_not_waited_for() -> None:
    cluster = Trainers(Scheduler(), ["t0", "t1"])
    cluster.ask("a", rate((0, 0.1)), 5)
    cluster.ask("b", rate((0, 0.1)), 20)
    cluster.decide()
    (work,) = cluster.running
    for _ in range(6):
        cluster.advance(work)
    cluster.scheduler.gone(rate((0, 0.1)), 5)
    cluster.ask("c", rate((0, 0.1), (5, 0.2)), 8)
    cluster.decide()
    assert works(cluster)[1] == ("t1", 0, ((5, False), (8, True)))


def test_two_studies_share_what_they_ask_for() -> None:
    cluster = Trainers(Scheduler(), ["t0"])
    cluster.ask(("one", 7), rate((0, 0.1)), 8)
    cluster.ask(("two", 0), rate((0, 0.1)), 8)
    cluster.finish(random.Random(0))
    assert len(cluster.answers) == 2
    assert cluster.trained.total() == 8


def test_a_trainer_that_is_said_to_be_there_again_keeps_its_work() -> None:
    cluster = Trainers(Scheduler(), ["t0"])
    cluster.ask("a", rate((0, 0.1)), 8)
    cluster.ask("b", rate((0, 0.2)), 8)
    cluster.decide()
    cluster.scheduler.trainer("t0", 8_000)
    assert cluster.scheduler.decide() == []
    assert cluster.scheduler.trainers["t0"].memory_bytes == 8_000


def test_a_snapshot_that_nobody_asked_for_is_used_after_a_loss() -> None:
    """Trainers may save now and then on long stages."""
    cluster = Trainers(Scheduler(), ["t0"])
    cluster.ask("a", rate((0, 0.1)), 20)
    cluster.decide()
    (work,) = cluster.running
    for _ in range(15):
        cluster.advance(work)
    cluster.store["s12"] = (rate((0, 0.1)), 12)
    cluster.obey(cluster.scheduler.saved(work, 12, "s12"))
    cluster.lose("t0")
    assert works(cluster) == [("t0", 12, ((20, True),))]


def test_events_of_work_that_is_over_change_nothing() -> None:
    scheduler = Scheduler()
    scheduler.add("a", rate((0, 0.1)), 5)
    assert scheduler.saved("work-9", 5, "s") == scheduler.measured("work-9", 5, {}) == []
    assert scheduler.failed("work-9", "error", "boom") == scheduler.left("nobody") == []
    scheduler.progress("work-9", 3)
    scheduler.missed("work-9", 3)
    scheduler.ended("work-9")
    assert scheduler.plan.wanted == ((0, 5),)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InvalidInput, match="critical path"):
        Scheduler(policy="random")  # type: ignore[arg-type]
