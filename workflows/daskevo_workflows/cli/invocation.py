"""The command as it was typed, so that hints name commands as this user types them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

PROGRAM = "DASKEVO_PROGRAM"
"""Environment variable: how the program was called (shell text), where it is not by its own name; set by start.py."""

AGAIN = "DASKEVO_AGAIN"
"""Environment variable: the whole command that was typed (shell text), where its arguments are not those seen here."""

_KEY = "daskevo_workflows.typed"
_WHOLE = "daskevo_workflows.typed_whole"


def program() -> str | None:
    """Return what the program was called by, as shell text; None: by its own name."""
    return os.environ.get(PROGRAM)


def keep_typed(context: click.Context, words: Sequence[str]) -> None:
    """Remember the command that `context` was made for: its path and the words after it."""
    context.meta[_KEY] = context.command_path, list(words)


def keep_whole(context: click.Context) -> None:
    """Remember that what was typed has a run's folder of its own: it takes neither --run nor a run's options."""
    context.meta[_WHOLE] = True


def is_whole() -> bool:
    """Return whether the command as it was typed takes no options of a run."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_WHOLE))


def command(*words: str | Path) -> str:
    """Return a command of daskevo as shell text, by the name it goes by here: daskevo, dask evo, python3 start.py."""
    path, _ = click.get_current_context().meta[_KEY]
    return f"{path} {shlex.join(map(str, words))}"


def same_command(folder: Path) -> str:
    """Return what was typed as shell text, with the run's folder if it wasn't named."""
    # start.py without arguments chooses a command itself: the user has typed no more than its name.
    again = os.environ.get(AGAIN)
    if again:
        return again
    _, words = click.get_current_context().meta[_KEY]
    named = is_whole() or any(word == "--run" or word.startswith("--run=") for word in words)
    return command(*words, *([] if named else ["--run", str(folder)]))
