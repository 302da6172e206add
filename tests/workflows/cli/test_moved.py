"""Commands of the last release that are elsewhere now name their successor."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from daskevo_workflows.cli import main


@pytest.mark.parametrize(
    ("words", "successor"),
    [
        ("bench prefix --quick --json", "python -m benchmarks.prefix"),
        ("bench nas", "python -m benchmarks.nas"),
        ("bench", "python -m benchmarks.prefix"),
        ("chaos --minutes 30 --seed 1 --json", "python -m tests.chaos"),
        ("chaos --help", "python -m tests.chaos"),
    ],
)
def test_a_command_that_moved_names_its_successor(words: str, successor: str) -> None:
    done = CliRunner().invoke(main, words.split())
    assert done.exit_code == 2
    assert successor in done.stderr


def test_it_is_not_listed() -> None:
    said = CliRunner().invoke(main, ["--help"]).stdout
    assert "chaos" not in said
    assert "bench" not in said
