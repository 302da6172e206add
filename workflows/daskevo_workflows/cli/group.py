"""The command group, which turns exceptions into exit codes and messages.

A DaskevoError ends the command with exit code 2 and says what to do; an unexpected exception ends it with 70. So 1 is
left for each command's own use.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import click

from daskevo.errors import DaskevoError, LayerCodeChanged
from daskevo_workflows.cli.interrupts import INTERRUPTED, heard
from daskevo_workflows.cli.invocation import keep_typed, program

UNFORESEEN = 70
"""Exit code after an unexpected exception: EX_SOFTWARE of sysexits.h."""


class Commands(click.Group):
    """A group that prints type and message of a DaskevoError, and a traceback only for unexpected exceptions."""

    def __call__(self, *args: Any, **options: Any) -> NoReturn:
        """Run the program; Ctrl-C never prints a traceback, however often pressed, even while Python shuts down."""
        # What is exited with if Ctrl-C cuts `main` off before it sets a code.
        code: Any = INTERRUPTED
        # While shutting down Python restores default signal handlers, except for ignored signals. Handlers registered
        # first are called last.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
        with heard(signal.SIGINT) as interrupts:
            try:
                try:
                    self.main(*args, **options)
                except SystemExit as ending:
                    # click exits with 1 if a second Ctrl-C arrives while it handles the first.
                    code = INTERRUPTED if interrupts.presses.count and ending.code == 1 else ending.code
                interrupts.leave(code if isinstance(code, int) else 0)
            except KeyboardInterrupt:  # Ctrl-C just before `leave` took effect
                interrupts.leave(code if isinstance(code, int) else 0)
        if code == INTERRUPTED:
            # A cluster interrupted while starting raises when Python closes it at the end.
            sys.unraisablehook = lambda _: None
        sys.exit(code)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> click.Context:
        words = list(args)  # click takes them from the list as it reads them
        if not extra.get("resilient_parsing"):
            _check_texts(words)
        # Only the outermost name is replaced: commands below have their own.
        name = info_name if parent is not None else program() or info_name
        try:
            context = super().make_context(name, args, parent, **extra)
        except OSError as error:  # of a --help
            if (full := _full(error)) is None:
                raise
            raise full from error
        keep_typed(context, words)
        return context

    def invoke(self, ctx: click.Context) -> Any:
        with heard(signal.SIGINT) as interrupts, _said_plainly():
            try:
                return super().invoke(ctx)
            except (KeyboardInterrupt, Exception) as error:
                # Code interrupted by Ctrl-C may raise an exception of its own.
                if isinstance(error, KeyboardInterrupt) or (interrupts.presses.count and not _is_exit(error)):
                    click.echo("Interrupted.", err=True)
                    # Not raised on: click would print `Aborted!` and exit with 1.
                    ctx.exit(INTERRUPTED)
                if isinstance(error, DaskevoError):
                    raise RefusedCommand(error) from error
                if isinstance(error, ModuleNotFoundError) and (extra := _missing(error)) is not None:
                    raise RefusedCommand(extra) from error
                # click prints these itself, with their own exit codes.
                if isinstance(error, click.ClickException) or _is_exit(error):
                    raise
                # As of `daskevo models ls | head`.
                if isinstance(error, OSError) and error.errno == errno.EPIPE:
                    raise  # click ends quietly with exit code 1
                if isinstance(error, OSError) and (full := _full(error)) is not None:
                    raise full from error
                click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
                click.echo("daskevo did not foresee this error: please report it with the lines above.", err=True)
                ctx.exit(UNFORESEEN)


@contextlib.contextmanager
def _said_plainly() -> Iterator[None]:
    """Say warnings that are meant for people as a line on stderr, without the place in daskevo's code."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, LayerCodeChanged):
            click.echo(f"Warning: {message}", err=True)
        else:
            usual(message, category, *place, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = usual


def _check_texts(words: Sequence[str]) -> None:
    """Refuse paths that are not valid text: records can't hold them."""
    found = [*words]
    if words and not {"--help", "-h"}.intersection(words):
        with contextlib.suppress(FileNotFoundError):  # code that needs the removed folder reports it
            found.append(os.getcwd())
    try:
        "".join(found).encode()
    except UnicodeEncodeError:
        from daskevo.types import check_path

        try:
            for word in found:
                check_path(word)
        except DaskevoError as error:
            raise RefusedCommand(error) from error


def _full(error: OSError) -> click.ClickException | None:
    """Return the error for a write that failed because the disk is full; None for other errors."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    try:
        sys.stdout.flush()
    except OSError:  # Python would fail to flush again at exit, and print a traceback
        with contextlib.suppress(OSError, ValueError):
            # What sys.stdout has buffered is written to nowhere at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return NoSpace(
        f"{_safe(error.strerror or str(error))}: not all could be written to "
        f"{_safe(str(error.filename or 'stdout, or to a disk'))}. Make room, and give the same command again"
    )


def _missing(error: ModuleNotFoundError) -> DaskevoError | None:
    """Return the error for a missing package that belongs to an extra; None for other packages."""
    from daskevo.extras import EXTRA_OF, without

    module = (error.name or "").partition(".")[0]
    return without("this command", [module]) if module in EXTRA_OF else None


def _is_exit(error: BaseException) -> bool:
    return isinstance(error, (click.exceptions.Exit, click.Abort))


class NoSpace(click.ClickException):
    """Some output did not fit on the disk."""

    exit_code = 2


class RefusedCommand(click.ClickException):
    """A :class:`DaskevoError`, printed without a traceback."""

    exit_code = 2

    def __init__(self, error: DaskevoError, then: str = "") -> None:
        super().__init__(f"{type(error).__name__}: {_safe(str(error))}" + (then and f"\n{then}"))


def _safe(text: str) -> str:
    """Escape control characters: a message may quote text from users or damaged files."""
    # A file's name with escape sequences could rewrite what the terminal shows.
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)
