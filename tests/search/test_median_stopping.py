"""Median stopping: Vizier's rule written out, what is given up under way, exact steps, the best goes all the way."""

from __future__ import annotations

from statistics import fmean, median

from daskevo.search import MedianStopping
from daskevo.space import Candidate
from daskevo.testing.strategies import MAX, MIN
from daskevo.types import Objective
from tests.search.snapshots import Trained, growing, value


def curves(run: Trained) -> dict[Candidate, list[float]]:
    """Qualities of each candidate, in the order of their steps."""
    found: dict[Candidate, list[float]] = {}
    for request, report in run.told:
        if report.quality is not None:
            found.setdefault(request.candidate, []).append(report.quality)
    return found


def bumpy(candidate: Candidate, step: int) -> float:
    return value(candidate) * (0.5 if (candidate.values[0] + step) % 3 == 0 else 1.0)


def test_one_at_a_time_it_stops_as_the_rule_says() -> None:
    run = Trained(MedianStopping(2, 8, least=3), seed=1)
    ended = 0
    for _ in range(150):
        (request,) = run.ask()
        run.train(request, bumpy)
        assert run.strategy.stop() == []
        complete = [curve for curve in curves(run).values() if len(curve) == 4]
        curve = curves(run)[request.candidate]
        is_worse = len(complete) >= 3 and max(curve) < median(fmean(other[: len(curve)]) for other in complete)
        (following,) = run.strategy.ask(view_of(run))
        goes_on = len(curve) < 4 and not is_worse
        assert (following.continues == request.model_id) == goes_on
        ended += not goes_on and len(curve) < 4
    assert ended > 30


def view_of(run: Trained):  # type: ignore[no-untyped-def]
    from daskevo.search import View

    return View(1, len(run.requests), "run", run.asked, list(run.pending))


def test_nobody_is_stopped_until_enough_are_complete() -> None:
    run = Trained(MedianStopping(1, 3, least=100, candidates=20))
    run.finish(growing, at_once=4)
    assert run.trained == 20 * 3
    assert len(run.requests) == 60
    assert run.stop is not None
    assert run.stop.reason == "done"


def test_steps_where_all_after_the_first_are_worse() -> None:
    """The first complete ones are the best: each later one is looked at once."""
    run = Trained(MedianStopping(5, 50, least=2, candidates=30))
    begun: dict[Candidate, int] = {}
    run.finish(lambda candidate, step: -float(begun.setdefault(candidate, len(begun))))
    assert run.trained == 2 * 50 + 28 * 5 - 0
    # Beginning anew at each look would be as many steps as the sums of 5, 10, ..., 50.
    assert run.anew == 2 * sum(range(5, 51, 5)) + 28 * 5


def test_equal_is_not_worse() -> None:
    run = Trained(MedianStopping(1, 4, least=2, candidates=10))
    run.finish(lambda candidate, step: 1.0, at_once=3)
    assert run.trained == 40


def test_the_best_goes_all_the_way_in_both_directions() -> None:
    for objective, sign in ((MAX, 1), (MIN, -1)):
        for seed in range(3):
            run = Trained(MedianStopping(1, 4, candidates=40), objectives=objective, seed=seed)
            run.finish(lambda candidate, step, sign=sign: sign * growing(candidate, step), at_once=4)  # type: ignore[misc]
            begun = [request.candidate for request in run.requests if request.continues is None]
            assert max(begun, key=value) in {request.candidate for request in run.requests if request.until_step == 4}
            assert run.trained < 0.8 * 40 * 4
            assert isinstance(objective, Objective)


def test_what_became_hopeless_under_way_is_given_up_once() -> None:
    run = Trained(MedianStopping(1, 2, least=1))
    slow, good = run.ask(2)
    run.train(slow, lambda candidate, step: 1.0)
    (part,) = run.ask()
    assert part.continues == slow.model_id
    run.train(good, lambda candidate, step: 5.0)
    (rest,) = run.ask()
    assert run.strategy.stop() == []
    run.train(rest, lambda candidate, step: 5.0)
    assert run.strategy.stop() == [part.number]
    assert run.strategy.stop() == []
    assert slow.model_id in run.left
    run.tell(part, None, "failed", "stopped")
    assert all(request.candidate != slow.candidate for request in run.ask(10))


def test_what_ends_before_it_is_given_up_does_not_go_on() -> None:
    run = Trained(MedianStopping(1, 3, least=1))
    slow, good = run.ask(2)
    run.train(slow, lambda candidate, step: 1.0)
    (part,) = run.ask()
    for _ in range(3):
        run.train(good, lambda candidate, step: 5.0)
        (good,) = run.ask()
    run.train(part, lambda candidate, step: 9.0)
    assert run.strategy.stop() == []
    assert part.model_id in run.left
    assert all(request.continues != part.model_id for request in run.ask(10))


def test_a_resumed_run_gives_up_what_is_still_under_way() -> None:
    run = Trained(MedianStopping(1, 2, least=1))
    slow, good = run.ask(2)
    run.train(slow, lambda candidate, step: 1.0)
    (part,) = run.ask()
    run.train(good, lambda candidate, step: 5.0)
    run.train(run.ask()[0], lambda candidate, step: 5.0)
    run.go_on_with(MedianStopping(1, 2, least=1))
    run.ask()
    assert run.strategy.stop() == [part.number]


def test_a_part_that_fails_ends_its_candidate() -> None:
    run = Trained(MedianStopping(1, 3))
    run.train(run.ask()[0], growing)
    (part,) = run.ask()
    run.train(part, lambda candidate, step: None)
    (other,) = run.ask()
    assert other.continues is None
    assert other.candidate != part.candidate
