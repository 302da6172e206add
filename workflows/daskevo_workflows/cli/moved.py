"""Commands of the last release that are no part of the installed program any more: each names its successor."""

from __future__ import annotations

import click

from daskevo.errors import InvalidInput

_ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@click.command(hidden=True, context_settings=_ANYTHING)
@click.argument("words", nargs=-1)
def bench(words: tuple[str, ...]) -> None:
    """Say where the benchmarks are."""
    which = words[0] if words and words[0] in ("prefix", "store", "nas") else "prefix"
    raise _moved("bench", f"python -m benchmarks.{which}", "prefix, store and nas")


@click.command(hidden=True, context_settings=_ANYTHING)
@click.argument("words", nargs=-1)
def chaos(words: tuple[str, ...]) -> None:
    """Say where the trial under random faults is."""
    raise _moved("chaos", "python -m tests.chaos", "the same options")


def _moved(name: str, successor: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"`daskevo {name}` is no part of the installed program any more: in a checkout of daskevo, say "
        f"`{successor}` ({what})",
        found=name,
    )
