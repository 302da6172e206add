"""Simulated studies: exact step counts, shared and not, the paper's kinds of studies, policies against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.errors import InvalidInput
from daskevo.tuning import (
    AllAtOnce,
    Configuration,
    Constant,
    Cosine,
    Machine,
    Outcome,
    Policy,
    Trajectory,
    Trial,
    concatenate,
    count_steps,
    simulate,
    warmup,
)
from tests.tuning.drawn import CONFIGURATIONS
from tests.tuning.studies import AsynchronousHalving, Halving, loss, paper_grid, trials_of

TRIALS = st.lists(st.tuples(CONFIGURATIONS, st.integers(1, 14)), min_size=1, max_size=10).map(
    lambda some: tuple(Trial(f"trial-{number}", *each) for number, each in enumerate(some))
)
MACHINES = st.builds(
    lambda seconds, start_s, evaluate_s: Machine(
        lambda configuration, step: seconds * configuration.at(step)["batch_size"] / 32, start_s, evaluate_s
    ),
    st.sampled_from([1.0, 0.3]),
    st.sampled_from([0.0, 2.0]),
    st.sampled_from([0.0, 0.5]),
)


def trained(outcome: Outcome) -> Counter[str]:
    return Counter(
        trajectory.key(step) for trajectory, start, stop in outcome.spans for step in range(start + 1, stop + 1)
    )


def counted(trials: Sequence[Trial]) -> tuple[int, int]:
    return count_steps((Trajectory("m", trial.configuration), trial.until) for trial in trials)


@given(
    TRIALS,
    MACHINES,
    st.integers(1, 4),
    st.sampled_from(["critical path", "breadth first", "most children"]),
    st.booleans(),
)
@settings(max_examples=80)
def test_shared_trials_train_unique_steps_and_others_all(
    trials: tuple[Trial, ...], machine: Machine, trainers: int, policy: Policy, queued: bool
) -> None:
    total, unique = counted(trials)
    shared = simulate(AllAtOnce(trials), trainers, machine, policy=policy, queued=queued)
    assert (shared.total_steps, shared.trained_steps) == (total, unique)
    assert set(trained(shared).values()) == {1}
    alone = simulate(AllAtOnce(trials), trainers, machine, policy=policy, shared=False)
    assert alone.trained_steps == alone.total_steps == total
    assert alone.starts == len(trials)
    assert {answer: metrics for answer, (metrics, _) in shared.answers.items()} == {
        answer: metrics for answer, (metrics, _) in alone.answers.items()
    }
    assert set(shared.answers) == {("study", trial.name, trial.until) for trial in trials}


@given(TRIALS, MACHINES)
@settings(max_examples=40)
def test_one_trainer_is_busy_until_the_end(trials: tuple[Trial, ...], machine: Machine) -> None:
    alone = simulate(AllAtOnce(trials), 1, machine, shared=False)
    expected = sum(
        machine.start_s
        + machine.evaluate_s
        + sum(machine.step_s(trial.configuration, step) for step in range(trial.until))
        for trial in trials
    )
    assert alone.busy_s == pytest.approx(expected)
    assert alone.makespan_s == pytest.approx(expected)


def test_a_simulation_is_the_same_each_time() -> None:
    trials = trials_of(paper_grid(), 60)[:20]
    one, two = (simulate(Halving([trial.configuration for trial in trials], (5, 20), 4), 3, LOSSES) for _ in range(2))
    assert one == two


LOSSES = Machine(metrics=loss)


def test_a_grid_of_the_paper_s_kind() -> None:
    """The merge rate says what is saved, exactly; and it is the one of all steps written out."""
    trials = trials_of(paper_grid(), 60)
    total, unique = counted(trials)
    written = {trial.configuration.key(step) for trial in trials for step in range(1, trial.until + 1)}
    assert unique == len(written)
    assert total == 48 * 60
    assert round(total / unique, 2) == 1.94
    outcome, alone = (simulate(AllAtOnce(tuple(trials)), 8, shared=shared) for shared in (True, False))
    assert outcome.trained_steps == outcome.busy_s == unique
    assert alone.trained_steps == alone.busy_s == total
    assert outcome.makespan_s < 0.6 * alone.makespan_s


def test_equal_trials_have_a_merge_rate_of_their_number() -> None:
    """The paper's own example (chapter 6): N identical trials merge N times."""
    one = Configuration({"lr": warmup(0.0, 5, Cosine(0.1, 0.0, 30))})
    assert count_steps([(Trajectory("m", one), 35)] * 7).merge_rate == 7.0
    trials = tuple(Trial(f"trial-{number}", one, 35) for number in range(7))
    outcome = simulate(AllAtOnce(trials), 3)
    assert (outcome.total_steps, outcome.trained_steps, outcome.evaluations, outcome.starts) == (245, 35, 1, 1)


def test_halving_continues_what_it_promotes() -> None:
    trials = trials_of(paper_grid(), 60)
    configurations = [trial.configuration for trial in trials]
    shared, alone = (simulate(Halving(configurations, (4, 15, 60), 4), 4, LOSSES, shared=way) for way in (True, False))
    # Each trial is trained to its last rung once, never anew.
    assert alone.total_steps == 36 * 4 + 9 * 15 + 3 * 60 == alone.trained_steps
    assert set(trained(shared).values()) == {1}
    # What is stopped early shares more than the space as a whole, as the paper found.
    total, unique = counted(trials)
    assert alone.trained_steps / shared.trained_steps > 1.2 * total / unique


def test_asynchronous_halving_continues_what_it_promotes() -> None:
    configurations = [trial.configuration for trial in trials_of(paper_grid(), 60)]
    alone, shared = (
        simulate(AsynchronousHalving(configurations, (4, 15, 60), 4), 4, LOSSES, shared=way) for way in (False, True)
    )
    assert alone.trained_steps == alone.total_steps
    assert len(alone.answers) >= 48 + 12
    assert len(trained(shared)) <= shared.trained_steps < alone.trained_steps


def test_studies_at_once_share_with_each_other() -> None:
    trials = trials_of(paper_grid(), 60)
    studies = {"even": AllAtOnce(tuple(trials[::2])), "odd": AllAtOnce(tuple(trials[1::2]))}
    together = simulate(studies, 4)
    assert together.trained_steps == counted(trials)[1]
    assert together.trained_steps < sum(simulate(study, 4).trained_steps for study in studies.values())
    assert {study for study, _, _ in together.answers} == {"even", "odd"}


def test_the_longest_path_first_ends_sooner() -> None:
    """One long trial among short ones that part before it: breadth first begins it last."""
    long = Trial("long", Configuration({"lr": concatenate(Constant(0.1), (10, Constant(1.0)))}), 60)
    short = [
        Trial(f"short-{number}", Configuration({"lr": concatenate(Constant(0.1), (at, Constant(2.0 + number)))}), 20)
        for number, at in enumerate([2, 3, 4, 5, 6, 7, 8, 9] * 2)
    ]
    study = AllAtOnce((*short, long))
    spans = {
        policy: simulate(study, 2, policy=policy, batched=False).makespan_s
        for policy in ("critical path", "breadth first", "most children")
    }
    assert spans["critical path"] < spans["breadth first"]
    assert spans["critical path"] < spans["most children"]


def test_paths_as_a_whole_load_less() -> None:
    study = AllAtOnce(tuple(trials_of(paper_grid(), 60)))
    machine = Machine(start_s=5.0)
    whole, single = (simulate(study, 4, machine, batched=batched) for batched in (True, False))
    assert whole.trained_steps == single.trained_steps
    assert whole.starts < single.starts
    assert whole.makespan_s < single.makespan_s


def test_nobody_to_train_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one"):
        simulate(AllAtOnce(()), 0)
