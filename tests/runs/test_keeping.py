"""Whose states a study keeps, against counting anew: never fewer than what is pending, not left, or among the best."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from daskevo.runs import Keeping
from daskevo.search import Failure, Report, Request, model_id
from daskevo.space import Candidate
from daskevo.types import Objective

QUALITIES = st.one_of(st.none(), st.integers(0, 9).map(float))


@given(
    st.lists(st.tuples(st.sampled_from(["run-s0", "run-s1", "run"]), QUALITIES, st.booleans()), max_size=12),
    st.integers(0, 12),
    st.integers(1, 3),
)
def test_kept_is_what_is_pending_what_did_not_leave_and_the_best(
    asked: list[tuple[str, float | None, bool]], answered: int, best: int
) -> None:
    """A quality of None: it failed; at the end, whether it leaves."""
    keeping = Keeping(Objective.parse("min loss"), best)
    expected = set()
    for number, (whose, quality, leaves) in enumerate(asked):
        name = model_id(whose, number)
        keeping.ask(Request(number, name, Candidate((number,)), until_step=1))
        if number >= answered:
            expected.add(number)
            continue
        if quality is None:
            keeping.report(Report(number, name, "failed", failure=Failure("error", "why")))
            continue
        keeping.report(Report(number, name, "finished", step=1, quality=quality))
        if leaves:
            assert keeping.leave([name, name]) == [name]
            assert keeping.leave([name]) == []
        else:
            expected.add(number)
    for strategy in {whose for whose, _, _ in asked}:
        ranks = [(q, n) for n, (whose, q, _) in enumerate(asked[:answered]) if whose == strategy and q is not None]
        expected.update(number for _, number in sorted(ranks)[:best])
    assert keeping.kept == sorted(expected)
