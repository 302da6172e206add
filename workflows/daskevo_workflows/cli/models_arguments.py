"""What the commands of `daskevo models` have in common: the look at a repository, its arguments, columns."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from daskevo_workflows.cli.completion import FOLDER
from daskevo_workflows.cli.invocation import command
from daskevo_workflows.cli.paths import repository_root
from daskevo_workflows.measurements.tables import padded

if TYPE_CHECKING:
    from daskevo.protocol.model_record import ModelRecord
    from daskevo.repository import ModelSummary, Repository

ROOT = click.argument("root", type=FOLDER)
MODEL = click.argument("model_id")
CLOSE = 3
"""Models that are suggested in place of one that is not there."""
CUSTOM = click.option("--problem", help="Problem whose file registers the model's custom layers.")


def opened(root: Path) -> Repository:
    """Return a look at the repository in a place; raises as `repository_root` and `daskevo.open` do."""
    import daskevo

    repository: Repository = daskevo.open(repository_root(root))
    return repository


def is_damaged(repository: Repository) -> bool:
    """Tell whether what is said of a repository may lack models: opening it has said so on stderr."""
    from daskevo.offline.root import OfflineConnection

    return isinstance(repository.connection, OfflineConnection) and bool(repository.connection.damage)


@contextlib.contextmanager
def named(repository: Repository, root: Path, model_id: str) -> Iterator[None]:
    """Say how to find a model that is not there in words of the command line.

    Raises
    ------
    UnknownModel, ModelRetired
    """
    from daskevo.errors import ModelRetired, UnknownModel

    try:
        yield
    except UnknownModel as error:
        # A listing reads all shards; it is worth that only once the id has turned out to be wrong.
        names = [str(summary.model_id) for summary in repository.models()]
        meant = difflib.get_close_matches(model_id, names, CLOSE) or [name for name in names if model_id in name]
        guess = f"did you mean {' or '.join(meant[:CLOSE])}? These" if meant else "these"
        damaged = f"\nIt looks damaged: {command('verify', root)}" if is_damaged(repository) else ""
        raise UnknownModel(
            f"there is no model {model_id!r} in {root}; {guess} are there: {command('models', 'ls', root)}{damaged}",
            model_id=model_id,
        ) from error
    except ModelRetired as error:
        raise ModelRetired(
            f"{model_id!r} has been retired: its last label was released, and its weights may be gone. Its lineage is "
            f"still there: {command('models', 'lineage', root, model_id)}\nModels that are not retired: "
            f"{command('models', 'ls', root)}",
            model_id=model_id,
        ) from error


def record_of(repository: Repository, root: Path, model_id: str) -> ModelRecord:
    """Return a model's record; raises as :func:`named`."""
    with named(repository, root, model_id):
        return repository.record(model_id)


def facts_of(model: ModelRecord | ModelSummary) -> dict[str, Any]:
    """Return what every line for programs says of a model."""
    return {
        "model": model.model_id,
        "scope": model.scope,
        "quality": model.quality,
        "step": model.step,
        "own_bytes": model.own_bytes,
    }


def print_columns(rows: Sequence[tuple[str, ...]], right: Collection[int] = ()) -> None:
    """Print rows in columns as wide as their widest cell; columns in `right` are aligned to the right.

    rich would cut ids at 80 columns, also in a file or a pipe, from which they are copied.
    """
    for cells in padded(rows, right):
        click.echo("  ".join(cells).rstrip())
