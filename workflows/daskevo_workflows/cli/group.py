"""The command group: errors raised on purpose end a command with exit code 2 and say what to do on stderr.

Others end it with a code of their own, so that 1 means what each command says of it.
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
"""Exit code after an error that nobody meant: EX_SOFTWARE of sysexits.h."""


class Commands(click.Group):
    """A group that says an error's kind and message, what to do included, and leaves the traceback out.

    An error that nobody meant keeps it.
    """

    def __call__(self, *args: Any, **options: Any) -> NoReturn:
        """Be the program: however often Ctrl-C is pressed, and be it while Python ends, there is no traceback."""
        code: Any = INTERRUPTED
        # At its very end Python gives signals back what they do by themselves, but for those that are ignored. What is
        # registered first is done last.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
        with heard(signal.SIGINT) as interrupts:
            try:
                try:
                    self.main(*args, **options)
                except SystemExit as ending:
                    # click says 1 of one that comes while the first is answered.
                    code = INTERRUPTED if interrupts.presses.count and ending.code == 1 else ending.code
                interrupts.leave(code if isinstance(code, int) else 0)
            except KeyboardInterrupt:  # it may come on the way to `leave`, too
                interrupts.leave(code if isinstance(code, int) else 0)
        if code == INTERRUPTED:
            # A cluster that was broken off while it started fails to be closed at Python's end.
            sys.unraisablehook = lambda _: None
        sys.exit(code)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> click.Context:
        words = list(args)  # click takes them from the list as it reads them
        if not extra.get("resilient_parsing"):
            _check_texts(words)
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
                # What Ctrl-C has broken off may say so in its own way.
                if isinstance(error, KeyboardInterrupt) or (interrupts.presses.count and not _is_exit(error)):
                    click.echo("Interrupted.", err=True)
                    ctx.exit(INTERRUPTED)
                if isinstance(error, DaskevoError):
                    raise RefusedCommand(error) from error
                if isinstance(error, ModuleNotFoundError) and (extra := _missing(error)) is not None:
                    raise RefusedCommand(extra) from error
                if isinstance(error, click.ClickException) or _is_exit(error):
                    raise
                if isinstance(error, OSError) and error.errno == errno.EPIPE:
                    raise  # nobody reads on, which click knows
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
    """Refuse paths that no record can carry: they are bytes, which need be no text."""
    found = [*words]
    if words and not {"--help", "-h"}.intersection(words):
        with contextlib.suppress(FileNotFoundError):  # whoever needs a folder that was removed says so
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
    """Return what is said where something could not be written for want of space; None: that isn't it."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    try:
        sys.stdout.flush()
    except OSError:  # nor could it be at the very end, of which Python makes a traceback
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return NoSpace(
        f"{_safe(error.strerror or str(error))}: not all could be written to "
        f"{_safe(str(error.filename or 'stdout, or to a disk'))}. Make room, and give the same command again"
    )


def _missing(error: ModuleNotFoundError) -> DaskevoError | None:
    """Return what is said where a package is missing that an extra brings; None: it is none of those."""
    from daskevo.extras import EXTRA_OF, without

    module = (error.name or "").partition(".")[0]
    return without("this command", [module]) if module in EXTRA_OF else None


def _is_exit(error: BaseException) -> bool:
    return isinstance(error, (click.exceptions.Exit, click.Abort))


class NoSpace(click.ClickException):
    """Of what was to be written, some did not fit."""

    exit_code = 2


class RefusedCommand(click.ClickException):
    """A :class:`DaskevoError` on its way to the terminal."""

    exit_code = 2

    def __init__(self, error: DaskevoError, then: str = "") -> None:
        super().__init__(f"{type(error).__name__}: {_safe(str(error))}" + (then and f"\n{then}"))


def _safe(text: str) -> str:
    """Return text that can't steer a terminal: a message may quote what came from users or broken files."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)
