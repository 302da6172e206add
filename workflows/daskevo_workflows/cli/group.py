"""The command group: errors raised on purpose end a command with exit code 2 and say what to do on stderr."""

from __future__ import annotations

from typing import Any

import click

from daskevo.errors import DaskevoError
from daskevo_workflows.cli.typed import keep_typed, program


class Commands(click.Group):
    """A group that says an error's kind and message, what to do included, and leaves the traceback out."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> click.Context:
        words = list(args)  # click takes them from the list as it reads them
        name = info_name if parent is not None else program() or info_name
        context = super().make_context(name, args, parent, **extra)
        keep_typed(context, words)
        return context

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DaskevoError as error:
            raise Refused(error) from error


class Refused(click.ClickException):
    """A :class:`DaskevoError` on its way to the terminal."""

    exit_code = 2

    def __init__(self, error: DaskevoError, then: str = "") -> None:
        super().__init__(f"{type(error).__name__}: {_safe(str(error))}" + (then and f"\n{then}"))


def _safe(text: str) -> str:
    """Return text that can't steer a terminal: a message may quote what came from users or broken files."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)
