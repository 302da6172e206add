"""The promises of docs/durability.md name the tests that hold them: those are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_document_names_is_there() -> None:
    text = (ROOT / "docs" / "durability.md").read_text()
    named = re.findall(r"`(\w+/test_\w+\.py)(?:::(test_\w+))?`", text)
    assert len(named) > 10
    for file, test in named:
        found = (ROOT / "tests" / file).read_text()
        assert not test or re.search(rf"def {test}\b", found), f"{file} has no {test}"
