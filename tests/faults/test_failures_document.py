"""The table of docs/failures.md names a test for each kind of failure: those are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = (1, 3, 4, 7, 8, 10, 12, 14, 16, 17, 19, 22, 23, 25, 26, 29, 30, 32, 34, 36, 38, 39, 41)


def test_each_kind_has_a_row_and_every_test_that_it_names_is_there() -> None:
    text = (ROOT / "docs" / "failures.md").read_text()
    rows = re.findall(r"^\| (\d\d) \|(.*)$", text, re.MULTILINE)
    assert tuple(dict.fromkeys(int(number) for number, _ in rows)) == KINDS
    for number, row in rows:
        named = re.findall(r"`([\w/]+/test_\w+\.py)(?:::(test_\w+))?`", row)
        assert named, f"kind {number} names no test"
        for file, test in named:
            found = (ROOT / "tests" / file).read_text()
            assert not test or re.search(rf"def {test}\b", found), f"{file} has no {test}"
