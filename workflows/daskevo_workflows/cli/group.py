"""The command group: errors raised on purpose end a command with exit code 2 and say what to do on stderr.

Others end it with a code of their own, so that 1 means what each command says of it.
"""

from __future__ import annotations

import errno
import traceback
from typing import Any

import click

from daskevo.errors import DaskevoError
from daskevo_workflows.cli.typed import keep_typed, program

UNFORESEEN = 70
"""Exit code after an error that nobody meant: EX_SOFTWARE of sysexits.h."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


class Commands(click.Group):
    """A group that says an error's kind and message, what to do included, and leaves the traceback out.

    An error that nobody meant keeps it.
    """

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
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # nobody reads on, which click knows
            click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
            click.echo("daskevo did not foresee this error: please report it with the lines above.", err=True)
            ctx.exit(UNFORESEEN)


class Refused(click.ClickException):
    """A :class:`DaskevoError` on its way to the terminal."""

    exit_code = 2

    def __init__(self, error: DaskevoError, then: str = "") -> None:
        super().__init__(f"{type(error).__name__}: {_safe(str(error))}" + (then and f"\n{then}"))


def _safe(text: str) -> str:
    """Return text that can't steer a terminal: a message may quote what came from users or broken files."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)
