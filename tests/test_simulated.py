"""The page on the simulator shows the figures that are kept, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.simulated_tables import TABLES, error, kept
from daskevo_workflows.simulate import MeasuredCosts

DOCS = Path(__file__).parents[1] / "docs"

MACHINE, ROWS = kept(DOCS / "measured" / "simulation.json")

SHOWN = [table for table in (make(ROWS) for make in TABLES) if table.rows]


@pytest.mark.parametrize("table", SHOWN, ids=[table.title for table in SHOWN])
def test_the_page_has_each_table_as_it_is_printed(table: object) -> None:
    page = (DOCS / "simulation.md").read_text()
    assert str(table) in page, "python -m benchmarks.simulated_tables docs/measured/simulation.json"


def test_the_page_has_no_table_more() -> None:
    lines = (DOCS / "simulation.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("|")] == [
        line for table in SHOWN for line in str(table).splitlines() if line.startswith("|")
    ]


def test_the_page_says_the_machine() -> None:
    assert MACHINE in (DOCS / "simulation.md").read_text()


def _words(page: str) -> str:
    return " ".join((DOCS / page).read_text().split())


def test_pages_say_the_same_of_what_holds_up_a_large_cluster() -> None:
    """Both take it from the figures that are kept: how many evaluations a second the search's process gives out."""
    most = {
        row["trainers"]: load["most_per_s"]
        for row in ROWS
        if row["part"] == "figures 8 and 9" and (row["length"], row["arm"]) == ("as measured", "daskevo")
        for load in row["loads"]
        if load["name"] == "search's process"
    }
    assert max(most.values()) < 1.02 * min(most.values())
    figure = f"{min(most.values()):.0f}"
    assert f"no more than {figure} evaluations a second" in _words("simulation.md")
    assert f"gives out {figure} candidates a second" in _words("simulation.md")
    costs = _words("costs.md")
    assert f"that is {figure} evaluations per second for all trainers together" in costs
    shortest = [f"{trainers / most[trainers]:.0f} s" for trainers in (128, 512)]
    assert f"128 trainers should take {shortest[0]} and more for each evaluation, 512 some {shortest[1]}," in costs


def test_pages_say_the_seconds_of_the_costs_that_are_kept() -> None:
    costs = MeasuredCosts.load(DOCS / "measured" / "costs-flights.json")
    for page in ("costs.md", "simulation.md"):
        assert f"{1000 * costs.graph_s:.0f} ms" in _words(page)
    # Keras and the data take seconds; trainers that had them before took none.
    assert costs.prepare_s > 1
    assert f"takes {costs.prepare_s:.1f} s" in _words("costs.md")


def test_an_error_is_told_by_what_was_found() -> None:
    assert [error(50.0, 55.0), error(50.0, 45.0), error(0.0, 0.0), error(0.0, 1.0)] == ["+10 %", "-10 %", "0 %", "–"]
