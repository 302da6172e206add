"""Costs: nothing without a source, nothing that can't be; written and read again; fitted from reports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.search import Report
from daskevo.types import ModelId
from daskevo_workflows.simulate.costs import MeasuredCosts, Phase, figures
from daskevo_workflows.simulate.fitting import fitted, phase, settled
from tests.simulate.costs import FREE, costs


def test_a_file_of_costs_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = costs(build=Phase(0.5, 1e-6, 0.25, 0.1), graph_s=0.066)
    made.save(tmp_path / "costs.json")
    assert MeasuredCosts.load(tmp_path / "costs.json") == made


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"machine": "x"}', "nonsense"])
def test_anything_else_is_no_file_of_costs(tmp_path: Path, text: str) -> None:
    (tmp_path / "costs.json").write_text(text)
    with pytest.raises(CorruptRecord):
        MeasuredCosts.load(tmp_path / "costs.json")


def test_a_figure_without_a_source_is_refused() -> None:
    sources = {name: "a test" for name in figures() if name != "graph_s"}
    with pytest.raises(InvalidInput, match="graph_s"):
        MeasuredCosts(machine="x", sources=sources, **FREE)


@pytest.mark.parametrize("changes", [{"task_s": -1.0}, {"task_s": float("nan")}, {"bytes_per_s": 0.0}])
def test_what_can_be_no_cost_is_refused(changes: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(changes))):
        costs(**changes)


def test_another_cost_says_where_it_comes_from() -> None:
    other = costs().but("somebody said so", graph_s=1.0)
    assert (other.graph_s, other.sources["graph_s"]) == (1.0, "somebody said so")
    with pytest.raises(InvalidInput, match="coffee_s"):
        costs().but("nobody", coffee_s=1.0)


def _reports(seconds: dict[str, Phase], count: int = 60) -> list[Report]:
    rng = np.random.default_rng(0)
    made = []
    for number in range(count):
        parameters, frozen = int(rng.integers(1000, 100_000)), float(rng.random()) * 0.8
        spent = {name: each.seconds(parameters, frozen) for name, each in seconds.items()}
        made.append(
            Report(
                number,
                ModelId(f"m-{number}"),
                "finished",
                step=45,
                seconds=spent,
                frozen_share=frozen,
                parameters=parameters,
                worker=str(number % 2),
                started=float(number),
            )
        )
    return made


def test_a_fit_finds_what_made_the_seconds() -> None:
    made = Phase(0.8, 0.0, 0.4)
    found = phase(_reports({"training": made}), "training")
    assert found.seconds(50_000, 0.5) == pytest.approx(made.seconds(50_000, 0.5), rel=0.01)
    assert found.saving == pytest.approx(0.4, rel=0.05)
    assert found.spread < 0.02
    by_size = phase(_reports({"training": Phase(0.2, 1e-5)}), "training")
    assert by_size.seconds(80_000, 0.0) == pytest.approx(1.0, rel=0.01)


def test_a_phase_that_nobody_had_costs_nothing() -> None:
    assert phase(_reports({}), "training") == Phase(0.0)


def test_what_chance_makes_cheaper_is_no_gain_of_size() -> None:
    reports = [
        Report(n, ModelId(f"m-{n}"), "finished", seconds={"build": 1.0 - n / 100}, parameters=1000 * n, worker="0")
        for n in range(20)
    ]
    assert phase(reports, "build").per_parameter_s == 0.0


def test_the_first_evaluation_of_each_trainer_is_left_out_but_for_what_it_prepares() -> None:
    reports = _reports({"prepare": Phase(3.0), "training": Phase(1.0)}, 20)
    assert len(settled(reports)) == 18
    found = fitted(costs(), reports, "a run")
    assert (found.prepare_s, found.steps, found.training.fixed_s) == (3.0, 45, pytest.approx(1.0))
    assert found.sources["training"] == "a run"
    # Trainers that had prepared before, in another run: it still takes what it took.
    again = fitted(costs(prepare_s=4.0), _reports({"prepare": Phase(2e-5), "training": Phase(1.0)}, 20), "a later run")
    assert (again.prepare_s, again.sources["prepare_s"]) == (4.0, costs().sources["prepare_s"])
    with pytest.raises(InvalidInput):
        settled(reports[:1])


def test_a_draw_leaves_the_mean_as_it_is() -> None:
    varied = Phase(2.0, spread=0.5)
    drawn = [varied.seconds(0, 0.0, float(draw)) for draw in np.random.default_rng(1).standard_normal(20_000)]
    assert np.mean(drawn) == pytest.approx(2.0, rel=0.02)
