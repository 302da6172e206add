"""The page on the simulator shows the figures that are kept, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.simulated_tables import TABLES, error, kept

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


def test_an_error_is_told_by_what_was_found() -> None:
    assert [error(50.0, 55.0), error(50.0, 45.0), error(0.0, 0.0), error(0.0, 1.0)] == ["+10 %", "-10 %", "0 %", "–"]
