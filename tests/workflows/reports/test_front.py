"""The front of several objectives on the page: who is on it, drawn and listed; nothing of it with one objective."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from daskevo.types import Objective
from daskevo_workflows.reports.figures.front import front
from daskevo_workflows.reports.page import render
from daskevo_workflows.reports.series import RunSeries
from daskevo_workflows.reports.tables import FRONT_SHOWN, front_models

ACCURACY = (0.9, 0.8, 0.8, 0.95, 0.5)
PARAMETERS = (1000, 100, 90, 20_000, 95)


def several(run: RunSeries, **figures: Sequence[float]) -> RunSeries:
    """Return the run with these further objectives, "min" of each."""
    rows = tuple(
        replace(e, metrics={name: float(values[e.number % len(values)]) for name, values in figures.items()})
        for e in run.evaluations
    )
    return replace(run, evaluations=rows, others=tuple(Objective("min", name) for name in figures))


@pytest.fixture
def five(make_run: Any) -> RunSeries:
    run = several(make_run(5, failures=0), parameters=PARAMETERS)
    rows = sorted(run.evaluations, key=lambda e: e.number)
    return replace(run, evaluations=tuple(replace(e, quality=value) for e, value in zip(rows, ACCURACY, strict=True)))


def test_who_is_on_the_front(five: RunSeries, make_run: Any) -> None:
    assert [e.number for e in five.front] == [3, 0, 2]
    assert [e.number for e in replace(five, others=(Objective("max", "parameters"),)).front] == [3]
    assert make_run(5).front == []


def test_it_is_drawn_and_listed(five: RunSeries) -> None:
    text = render([five], version="1")
    table = front_models(five)
    assert table is not None
    assert [row[3] for row in table.rows] == ["20,000", "1,000", "90"]
    assert table.heads[2:4] == ("val_auc (max)", "parameters (min)")
    for words in ("The front", "The models of the front", "parameters (smaller is better), logarithmic"):
        assert words in text
    assert "3 models on the front, val_auc from 0.95 with parameters 20,000 to 0.8 with parameters 90." in text


def test_one_objective_has_none(make_run: Any) -> None:
    text = render([make_run(20)], version="1")
    assert "front" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL).lower()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_any_number_of_objectives_and_two_runs_are_drawn(make_run: Any, count: int) -> None:
    figures = {f"metric {number}": (number + 1, 30 * number + 2, 3) for number in range(count)}
    runs = [several(make_run(40, seed=seed, label=f"run {seed}"), **figures) for seed in range(2)]
    drawn = front(runs)
    assert drawn is not None
    assert all(f"the front, run {seed}" in drawn.svg for seed in range(2))
    assert drawn.svg.count("is better") == 1 + min(count, 3)
    assert ("Of 4 further objectives the first 3 are drawn." in drawn.caption) == (count == 4)


def test_runs_of_other_further_objectives_share_no_picture(make_run: Any) -> None:
    assert front([several(make_run(9), a=(1, 2)), several(make_run(9), b=(1, 2))]) is None
    assert front([several(make_run(9), a=(1, 2)), make_run(9)]) is None


def test_a_long_front_is_cut_and_says_so(make_run: Any) -> None:
    run = make_run(80, failures=0)
    rows = [replace(e, quality=float(e.number), metrics={"depth": float(e.number)}) for e in run.evaluations]
    run = replace(run, evaluations=tuple(rows), others=(Objective("min", "depth"),))
    table = front_models(run)
    assert table is not None
    assert len(table.rows) == FRONT_SHOWN
    assert f"{80 - FRONT_SHOWN} more are on the front." in render([run], version="1")
