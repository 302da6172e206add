"""The page on what stage trees save shows the figures that are kept, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.tuning.arms import kept
from benchmarks.tuning.tables import TABLES

DOCS = Path(__file__).parents[1] / "docs"

MACHINE, ROWS = kept(DOCS / "measured" / "tuning.json")

SHOWN = [table for make in TABLES for table in make(ROWS)]


@pytest.mark.parametrize("table", SHOWN, ids=[table.title for table in SHOWN])
def test_the_page_has_each_table_as_it_is_printed(table: object) -> None:
    page = (DOCS / "tuning-measured.md").read_text()
    assert str(table) in page, "python -m benchmarks.tuning --summary docs/measured/tuning.json"


def test_the_page_has_no_table_more() -> None:
    lines = (DOCS / "tuning-measured.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("|")] == [
        line for table in SHOWN for line in str(table).splitlines() if line.startswith("|")
    ]


def test_the_page_says_the_machine() -> None:
    assert MACHINE in (DOCS / "tuning-measured.md").read_text()
