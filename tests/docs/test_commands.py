"""Every call of `daskevo` in a page or a script is one that the program takes: commands, options and their values."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from daskevo_workflows.cli import main
from tests.docs.pages import PAGES, ROOT, codes, commands, name_of, spans

SCRIPTS = tuple(sorted([*(ROOT / "examples").rglob("*.*"), *(ROOT / "docs" / "api").glob("*.none")]))

OTHERS = {
    # of Dask, of a batch system, of this project's scripts for measuring and of its tests, of tools
    *("--nthreads", "--resources", "--scheduler-file", "--name", "--protocol", "--parsable", "--dependency"),
    *("--dashboard", "--dashboard-prefix", "--no-dashboard"),
    *("--rules", "--set", "--shards", "--min-", "--part", "--plot", "--minutes", "--every", "--folder", "--quick"),
    *("--lifetime", "--lifetime-stagger", "--lifetime-restart", "--gpus-per-node", "--gpus-per-task"),
}
"""Options of other programs that the pages name."""


NO_CALLS = {"daskevo snapshot 1"}
"""What looks like a call within a text, and is none."""


def _command(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that words lead to, and what is left of them."""
    command: click.Command = main
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name.isupper():  # COMMAND stands for any
            return main, []
        assert name in command.commands, f"there is no command {name!r}"
        command = command.commands[name]
    return command, rest


def check(words: list[str]) -> None:
    """Have click parse a call; arguments may be left out, and words in capitals or with a variable are placeholders.

    Raises
    ------
    AssertionError, click.ClickException
    """
    command, rest = _command(words)
    if any(option in rest for option in ("--help", "-h", "--version")):
        return
    context = click.Context(command, info_name="daskevo", resilient_parsing=True)
    given, left, _ = command.make_parser(context).parse_args([word for word in rest if word != "..."])
    assert left == [], f"{left} is too much"
    for option in command.params:
        value = given.get(option.name) if option.name else None
        values = value if isinstance(value, (list, tuple)) else [value]
        for one in values:
            if isinstance(option, click.Option) and isinstance(one, str) and not re.search(r"[$\[]|^[A-Z|:]+$", one):
                option.type.convert(one, option, context)


def _check_all(place: str, calls: list[list[str]]) -> None:
    for words in calls:
        try:
            check(words)
        except (AssertionError, click.ClickException) as error:
            raise AssertionError(f"{place}: daskevo {' '.join(words)}: {error}") from error


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_calls_in_pages(page: Path) -> None:
    for code in codes(page):
        if code.language in ("", "console", "sh", "bash"):
            _check_all(f"line {code.line}", commands(code.text))
    for line, text in spans(page):
        if text not in NO_CALLS:
            _check_all(f"line {line}", commands(text))


def _known() -> set[str]:
    found = {"--help", "--version"}
    waiting: list[click.Command] = [main]
    while waiting:
        command = waiting.pop()
        if isinstance(command, click.Group):
            waiting += command.commands.values()
        found |= {flag for param in command.params if isinstance(param, click.Option) for flag in param.opts}
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_options_named_in_the_text(page: Path) -> None:
    known = _known() | OTHERS
    named = {
        (line, found)
        for line, text in spans(page)
        if not text.startswith(("python ", "pip ", "sbatch ", "qsub "))
        for found in re.findall(r"^--[a-z-]+|(?<=[ \[/])--[a-z][a-z-]+", text)
    }
    assert sorted((line, found) for line, found in named if found not in known) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_calls_in_examples(script: Path) -> None:
    _check_all(script.name, commands(script.read_text()))


@pytest.mark.parametrize("words", [["nas", "digits", "--evaluation", "3"], ["naz"], ["nas", "a", "--strategy", "luck"]])
def test_what_is_not_there_is_found(words: list[str]) -> None:
    with pytest.raises((AssertionError, click.ClickException)):
        check(words)
