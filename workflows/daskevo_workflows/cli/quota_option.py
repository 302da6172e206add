"""The option `--quota`, which takes bytes with a unit."""

from __future__ import annotations

import click


def _bytes(context: click.Context, option: click.Parameter, value: str | None) -> int | None:
    """Parse a number of bytes such as ``500GB``."""
    if value is None or context.resilient_parsing:
        return None
    from daskevo.deploy.settings import quota_bytes
    from daskevo.errors import InvalidInput

    try:
        return quota_bytes(value)
    except InvalidInput as error:
        raise click.BadParameter(error.message, context, option) from error


quota_option = click.option(
    "--quota",
    callback=_bytes,
    metavar="BYTES",
    help="Maximum size of all tensors in the repository, such as 500GB.  [default: no limit]",
)
"""Adds the option to a command."""
