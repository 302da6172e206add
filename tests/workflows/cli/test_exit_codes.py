"""Every command ends with the codes of one table, which the program and the page show."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from daskevo.errors import InvalidInput
from daskevo_workflows.cli import main
from daskevo_workflows.cli.exit_codes import MEANINGS, STOPPED_FOR_TIME

PAGE = Path(__file__).parents[3] / "docs" / "command-line.md"


def _leaves(group: click.Group, *above: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _leaves(command, *above, name)
        elif not command.hidden:
            yield (*above, name)


LEAVES = list(_leaves(main))


def _leaf(path: tuple[str, ...]) -> click.Command:
    found: click.Command = main
    for name in path:
        assert isinstance(found, click.Group)
        found = found.commands[name]
    return found


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, 0),
        (InvalidInput("not so: do it otherwise"), 2),
        (click.UsageError("no such thing"), 2),
        (RuntimeError("a bug"), 70),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else type(value).__name__,
)
def test_every_command(
    path: tuple[str, ...], error: BaseException | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**options: Any) -> None:
        if error is not None:
            raise error

    leaf = _leaf(path)
    monkeypatch.setattr(leaf, "callback", fail)
    monkeypatch.setattr(leaf, "params", [])
    done = CliRunner().invoke(main, list(path))
    assert done.exit_code == code
    assert done.stdout == ""
    assert bool(done.stderr) == bool(code)
    assert ("Traceback" in done.stderr) == (code == 70)


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_words_that_are_no_option(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*path, "--no-such-option"])
    assert done.exit_code == 2
    assert "--no-such-option" in done.stderr


def test_what_a_command_says_of_itself_is_1() -> None:
    # Modules that the package has commands of the same name for.
    said = {
        "run_frame": "FAILED",
        "check": "UNSOUND",
        "verify": "DIFFERENT",
        "models_retire": "STILL_HELD",
    }
    said |= {"models_list": "MAYBE_MORE", "models_export": "NOT_ALL"}
    assert {getattr(sys.modules[f"daskevo_workflows.cli.{name}"], word) for name, word in said.items()} == {1}


def test_the_codes() -> None:
    assert list(MEANINGS) == [0, 1, 2, 70, 75, 130]
    assert STOPPED_FOR_TIME == 75


def test_the_help_and_the_page_have_the_table() -> None:
    shown = " ".join(CliRunner().invoke(main, ["--help"]).stdout.split())
    for code, words in MEANINGS.items():
        assert f" {code} {words}" in shown
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", PAGE.read_text(), re.M)
    assert {int(code): words for code, words in rows} == MEANINGS
