"""The option `--quota`: bytes as people write them."""

from __future__ import annotations

import click


def _bytes(context: click.Context, option: click.Parameter, value: str | None) -> int | None:
    """Return the bytes of a text such as ``500GB``."""
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
    help="Most that all tensors of the repository may take, such as 500GB.  [default: no limit]",
)
"""Adds the option to a command."""
