"""Options of `daskevo nas` for the transfer policy, declared once for help, parsing and resuming."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from daskevo.errors import InvalidInput
from daskevo.freeze_policy import FreezePolicy

if TYPE_CHECKING:
    from daskevo_workflows.evaluation.transfer import Transfer


def _freeze(value: Any) -> Any:
    """Return ``prefix``, ``none``, a share, or ``steps:K``."""
    try:
        return FreezePolicy.parse(value).rule
    except InvalidInput:
        return click.FloatRange(0, 1).convert(value, None, None)


@dataclass(frozen=True)
class TransferOption:
    """An option that sets a field of :class:`daskevo_workflows.evaluation.transfer.Transfer`.

    Parameters
    ----------
    field, default:
        Field of the policy and its default, copied because importing the class would slow `--help` down.
    flag, type, help, metavar:
        As for click.
    """

    field: str
    default: Any
    flag: str
    type: Any
    help: str
    metavar: str | None = None


TRANSFER_OPTIONS = (
    TransferOption(
        "source",
        "best match",
        "--inherit-from",
        click.Choice(["best match", "parent"]),
        "Where weights come from: the model that shares most, or only the model whose candidate was mutated.",
    ),
    TransferOption(
        "freeze",
        "steps:300",
        "--freeze",
        _freeze,
        "Inherited layers that are frozen while the rest trains: those trained for K steps, all, none, or a share from "
        "0 to 1, counted from the inputs.",
        "steps:K|prefix|none|SHARE",
    ),
    TransferOption(
        "minimum_layers",
        0,
        "--minimum-layers",
        click.IntRange(min=0),
        "Inherit nothing if fewer layers with weights are shared.",
        "N",
    ),
    TransferOption(
        "unfreeze_epochs",
        0,
        "--unfreeze-epochs",
        click.IntRange(min=0),
        "Additional epochs at the end with nothing frozen.",
        "N",
    ),
    TransferOption(
        "stretch",
        0.0,
        "--stretch",
        click.FloatRange(0, 100),
        "Train models longer that inherit less: epochs are multiplied by 1 + X times the share of layers not "
        "inherited.",
        "X",
    ),
)

FLAGS: Mapping[str, str] = {
    "policy.transfer": "--no-transfer",
    **{f"policy.{option.field}": option.flag for option in TRANSFER_OPTIONS},
}
"""Part of a run's identity -> the option that sets it."""


def transfer_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, and `--no-transfer`."""
    for option in reversed(TRANSFER_OPTIONS):
        command = click.option(
            option.flag,
            option.field,
            type=option.type,
            default=option.default,
            show_default=True,
            metavar=option.metavar,
            help=option.help,
        )(command)
    return click.option("--no-transfer", is_flag=True, help="Train each candidate from scratch: the baseline.")(command)


def typed_transfer(options: Mapping[str, Any]) -> Transfer:
    """Return the transfer policy from all options, including defaults."""
    from daskevo_workflows.evaluation.transfer import Transfer

    return changed_transfer(Transfer(), options, options.keys())


def changed_transfer(transfer: Transfer, options: Mapping[str, Any], given: Collection[str]) -> Transfer:
    """Return a policy changed by the options given on the command line."""
    transfer = replace(transfer, **{one.field: options[one.field] for one in TRANSFER_OPTIONS if one.field in given})
    # Last: --no-transfer overrules --inherit-from.
    return replace(transfer, source="none") if "no_transfer" in given and options["no_transfer"] else transfer
