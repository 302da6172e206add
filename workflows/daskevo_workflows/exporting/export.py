"""Exporting a model: its file, what its format needs besides, and its card, each written in one step."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daskevo.errors import InvalidInput
from daskevo.extras import other_backend, versions_of
from daskevo.graph.attached import detach, is_snapshot
from daskevo.store.files import FULL, free_bytes
from daskevo.types import JSON
from daskevo_workflows.evaluation.quiet_import import import_keras
from daskevo_workflows.exporting.card import Card
from daskevo_workflows.exporting.data_facts import data_facts
from daskevo_workflows.exporting.facts import Known, facts_of, kind_of, said_time
from daskevo_workflows.exporting.formats import companions, format_of, how_to_load
from daskevo_workflows.exporting.model_files import write_model
from daskevo_workflows.exporting.origins import Origins
from daskevo_workflows.exporting.safetensors_files import check_installed
from daskevo_workflows.results.atomic_files import in_place_of

if TYPE_CHECKING:
    from daskevo.repository import Repository

PACKAGES = ("daskevo", "keras", "tensorflow", "jax", "torch", "numpy")


@dataclass(frozen=True)
class Exported:
    """What was written.

    Parameters
    ----------
    path, card:
        The file, and its card.
    files:
        All of it: with the architecture that ``.weights.h5`` needs.
    facts:
        Those of the card.
    """

    path: Path
    card: Path
    files: tuple[Path, ...]
    facts: Mapping[str, JSON]


def export_model(
    repository: Repository,
    model_id: str,
    path: str | Path,
    *,
    run: str | Path | Origins | None = None,
    overwrite: bool = False,
    custom_objects: Mapping[str, Any] | None = None,
    data: Any = None,
) -> Exported:
    """Write a model as a file that others load without daskevo, with its card beside it.

    Parameters
    ----------
    repository:
        That has the model; a look without a cluster will do.
    model_id:
        A model, or a snapshot of a training.
    path:
        Whose end says the format: ``.keras``, ``.weights.h5`` (with the architecture in PATH.config.json) or
        ``.safetensors`` (needs the package). The card is PATH.card.md.
    run:
        The folder of the run that it came of, for the card; None: the card says what it doesn't know.
    overwrite:
        Whether files that are there may be replaced.
    custom_objects:
        Name -> class or function, for layers that aren't registered.
    data:
        The problem's data, as its ``data()`` returns them, for the card: shapes, and a digest.

    Returns
    -------
    Exported

    Raises
    ------
    InvalidInput
        If the path says no format, is there already, or can't be written; if safetensors is asked for and isn't
        installed. What was there is as it was.
    UnknownModel, ModelRetired, ModelLost, CannotRebuild
        If the model can't be had.

    Warns
    -----
    LayerCodeChanged
        As `Repository.load`; the card says it, too.
    """
    path = Path(path)
    kind = check_place(path, overwrite=overwrite)
    origins = run if isinstance(run, Origins) or run is None else Origins(Path(run))
    known = know(repository, model_id)
    # Before the weights are read, which takes far longer. The file is at least as large as they are.
    free = free_bytes(path.parent)
    if free is not None and free < known.graph.nbytes:
        raise _unwritable(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), known.graph.nbytes)
    import_keras()
    model = repository.load(model_id, custom_objects=custom_objects)
    # Loading only warns of such layers; the card tells those who get the file.
    changed = _changed_layers(known, model)
    facts = _facts(known, origins, data)
    files = (path, *companions(path))
    try:
        with in_place_of(*files) as beside:
            write_model(model, known.graph, kind, beside)
            # After the file: the card has its size and digest.
            card = Card({**facts, "file": _file_facts(path, beside[0], known, changed)})
            beside[-1].write_text(str(card), encoding="utf-8")
            os.chmod(beside[0], beside[-1].stat().st_mode)  # safetensors makes files for their owner alone
    except OSError as error:
        raise _unwritable(path, error, known.graph.nbytes) from error
    return Exported(path, files[-1], files, card.facts)


def model_card(
    repository: Repository, model_id: str, *, run: str | Path | Origins | None = None, data: Any = None
) -> Card:
    """Return the card of a model that nobody has exported: as `export_model` writes it, without a file.

    Raises
    ------
    UnknownModel, ModelRetired
    """
    origins = run if isinstance(run, Origins) or run is None else Origins(Path(run))
    return Card(_facts(know(repository, model_id), origins, data))


def check_place(path: Path, *, overwrite: bool) -> str:
    """Return the format of a file that may be written; raises InvalidInput, with what to do, if it may not."""
    kind = format_of(path)
    if kind == ".safetensors":
        check_installed()
    if not path.parent.is_dir():
        raise InvalidInput(f"{path.parent} is no folder: make it, or name another place", path=str(path))
    # Asked now: writing comes after Keras and the weights have been loaded.
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InvalidInput(f"{path.parent} may not be written to: name another place", path=str(path))
    # A link to nowhere is there, too: writing would replace it.
    there = [file for file in (path, *companions(path)) if os.path.lexists(file)]
    if folder := next((file for file in there if file.is_dir()), None):
        raise InvalidInput(f"{folder} is a folder: name another file", path=str(path))
    if there and not overwrite:
        raise InvalidInput(
            f"{there[0]} is there already: name another file, or add --overwrite (overwrite=True)", path=str(path)
        )
    return kind


def know(repository: Repository, model_id: str) -> Known:
    """Return what a repository knows of a model; raises as `Repository.record` does."""
    record = repository.record(model_id)
    graph = record.architecture
    # A snapshot's graph has the optimizer's and other state attached, which an export leaves out.
    if is_snapshot(graph):
        graph = detach(graph).graph or graph
    lineage = [(one, repository.status(one.model_id).state) for one in repository.lineage(model_id)]
    return Known(
        record,
        graph,
        lineage,
        repository.contributors(model_id),
        tuple(repository.status(model_id).labels),
        str(repository.stats()["repository_id"]),
    )


def _facts(known: Known, origins: Origins | None, data: Any) -> dict[str, JSON]:
    facts = facts_of(known, origins, None if data is None else data_facts(data))
    return {**facts, "versions": {**versions_of(PACKAGES), **other_backend()}}


def _changed_layers(known: Known, model: Any) -> list[JSON]:
    """Return the names of layers whose code is another here than when the model was stored."""
    from daskevo.models import flatten
    from daskevo.models.stored_code import changed_code

    return [*changed_code(known.graph, flatten(model).graph).layers]


def _file_facts(path: Path, written: Path, known: Known, changed: list[JSON]) -> dict[str, JSON]:
    with open(written, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "name": path.name,
        "format": format_of(path),
        "bytes": written.stat().st_size,
        "sha256": digest,
        "written": said_time(time.time()),
        "load": how_to_load(path, {kind_of(layer.config) for layer in known.graph.layers}),
        "custom": _custom(known),
        "changed_code": changed,
    }


def _custom(known: Known) -> list[str]:
    """Return the registered names of layers that aren't Keras' own."""
    found = []
    for layer in known.graph.layers:
        match layer.config:
            case {"registered_name": str(name), "module": module} if str(module).partition(".")[0] != "keras":
                found.append(name)
    return list(dict.fromkeys(found))


def _unwritable(path: Path, error: OSError, needed_bytes: int) -> InvalidInput:
    free = free_bytes(path.parent)
    # Only for a full disk: with other errors the figures would mislead.
    full = error.errno in FULL and free is not None
    room = f" ({needed_bytes:,} bytes and more are needed, {free:,} are free there)" if full else ""
    return InvalidInput(
        f"{path} can't be written: {error.strerror or error}{room}; what was there is as it was. Make room, or name "
        "another place",
        path=str(path),
        needed_bytes=needed_bytes,
        free_bytes=free,
    )
