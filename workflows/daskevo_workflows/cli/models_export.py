"""The command `daskevo models export`: write models as files that load without daskevo, with model cards."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from daskevo_workflows.cli.invocation import command
from daskevo_workflows.cli.json_lines import AS_JSON
from daskevo_workflows.cli.models_arguments import CUSTOM, ROOT, named, opened, record_of

if TYPE_CHECKING:
    from daskevo.repository import Repository
    from daskevo_workflows.exporting.origins import Origins

SUFFIXES = (".keras", ".weights.h5", ".safetensors")
"""Suffixes of :data:`daskevo_workflows.exporting.FORMATS`; importing it would slow `--help` down."""

SHOWN = 3
"""Models named in the error when none of the best is in the repository, at most."""

NOT_ALL = 1
"""Exit code if some of the best are retired and the others were written."""


class Wanted(NamedTuple):
    """A model, and the file to write it to."""

    model_id: str
    path: Path


@click.command(short_help="Write the best, or a given model, as a file with a model card.")
@ROOT
@click.argument("model_id", required=False)
@click.argument("output", type=click.Path(path_type=Path), required=False)
@click.option(
    "--best", type=click.IntRange(min=1), metavar="K", help="Write the K best models of the run into the folder OUTPUT."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(SUFFIXES),
    help="Format, if OUTPUT names no file.  [default: .keras]",
)
@click.option("--overwrite", is_flag=True, help="Replace existing files.")
@CUSTOM
@click.option(
    "--data", "with_data", is_flag=True, help="Load the problem's data, and add their shapes and digest to the card."
)
@AS_JSON
def export(
    root: Path,
    model_id: str | None,
    output: Path | None,
    best: int | None,
    kind: str | None,
    overwrite: bool,
    problem: str | None,
    with_data: bool,
    as_json: bool,
) -> None:
    """Write a model with its weights as a file, with a model card (OUTPUT.card.md) next to it.

    \b
    The best model of a run, a given one, and the best three:
        daskevo models export runs/digits-seed0 best.keras
        daskevo models export runs/digits-seed0 MODEL_ID model.safetensors
        daskevo models export runs/digits-seed0 --best 3 winners

    The suffix of OUTPUT sets the format; by default OUTPUT is MODEL_ID.keras in the current folder.

    \b
    .keras        for keras.saving.load_model
    .weights.h5   weights only; the architecture is in OUTPUT.config.json
    .safetensors  both in one file; needs: pip install safetensors

    The card describes the model: space and choices, lineage, data, metric, steps, versions, and how to load it.
    --data adds shapes and a digest of the problem's data, which a run doesn't record.

    Exit code 0: everything was written; 1: some of the best K are retired, the others were written; 2: nothing done.
    """
    from daskevo.errors import InvalidInput
    from daskevo.types import check_name
    from daskevo_workflows.exporting.export import check_place, export_model
    from daskevo_workflows.exporting.origins import Origins
    from daskevo_workflows.exporting.safetensors_files import check_installed

    if kind == ".safetensors":
        # Before a folder is made for the best K; of a single file its place is checked first.
        check_installed()
    if best is not None and output is not None:
        raise InvalidInput("--best K takes the run and a folder, and no model: leave the model out")
    # One word after ROOT may be either: it is the file if it ends like one, or if --best needs no model.
    if model_id is not None and output is None and (best is not None or model_id.endswith(SUFFIXES)):
        output, model_id = Path(model_id), None
    if model_id is not None:
        check_name(model_id)
        check_place(_file(model_id, output, kind), overwrite=overwrite)
    elif best is None and output is not None:
        check_place(output, overwrite=overwrite)
    repository, origins = opened(root), Origins.at(root)
    gone: list[str] = []
    if best is not None:
        wanted, gone = _best(repository, root, origins, best, output, kind or SUFFIXES[0])
    elif model_id is None:
        (found,) = _ranked(repository, root, origins, 1)
        wanted = [Wanted(found, _file(found, output, kind))]
    else:
        record_of(repository, root, model_id)  # before Keras is loaded, which takes seconds
        wanted = [Wanted(model_id, _file(model_id, output, kind))]
    # All places before the first model is loaded: nothing is written if one of them can't be used.
    for _, path in wanted:
        if best is not None:
            _make(path.parent)
        check_place(path, overwrite=overwrite)
    data = _problem_data(problem, origins, with_data)
    written = []
    for name, path in wanted:
        with named(repository, root, name):
            done = export_model(repository, name, path, run=origins, overwrite=overwrite, data=data)
        written.append({"model": name, "files": [str(file) for file in done.files]})
        if not as_json:
            click.echo(str(path))
    # What the record names and the repository has never heard of is damage, not a retirement.
    lost = [name for name in gone if repository.status(name).state == "unknown"]
    gone = [name for name in gone if name not in lost]
    if as_json:
        click.echo(json.dumps({"exported": written, "retired": gone}))
    if gone:
        words = f"{len(written)} of the {best} best are written; the others have been retired: {', '.join(gone)}. A run"
        click.echo(f"{words} keeps its best (keep_best of nas.search, 5 unless said) and its population", err=True)
    if lost:
        words = f"In the repository there is no {', no '.join(lost)}, which the run's record names: it looks damaged"
        click.echo(f"{words}. What is lost says\n    {command('verify', root)}", err=True)
    if gone or lost:
        sys.exit(NOT_ALL)


def _file(model_id: str, output: Path | None, kind: str | None) -> Path:
    from daskevo.errors import InvalidInput

    if output is None:
        return Path(f"{model_id}{kind or SUFFIXES[0]}")
    if kind is not None and not output.name.endswith(kind):
        raise InvalidInput(f"{output} is no name of a {kind} file: leave --format out, or name it so", path=str(output))
    return output


def _best(
    repository: Repository, root: Path, origins: Origins | None, k: int, output: Path | None, kind: str
) -> tuple[list[Wanted], list[str]]:
    """Return the best models with their files, and separately those that are retired."""
    from daskevo.errors import InvalidInput

    names = _ranked(repository, root, origins, k)
    folder = Path("best") if output is None else output
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file: name a folder for the best {k}", path=str(folder))
    living = [name for name in names if repository.status(name).state == "published"]
    # Leading zeros, so that a listing of the folder is in the order of quality.
    width = len(str(k))
    wanted = [
        Wanted(name, folder / f"{place:0{width}}-{name}{kind}") for place, name in enumerate(names, 1) if name in living
    ]
    return wanted, [name for name in names if name not in living]


def _ranked(repository: Repository, root: Path, origins: Origins | None, k: int) -> Sequence[str]:
    """Return the ids of the best models, best first, of a run or of a repository with a single scope.

    Raises
    ------
    RunError
        If no evaluation has finished.
    InvalidInput
        If the repository has several scopes, whose qualities can't be compared.
    """
    from daskevo.errors import InvalidInput, RunError, UnknownModel
    from daskevo_workflows.reports.study_reader import is_study

    if origins is not None:
        names = origins.best(k)
        if not is_study(root):
            if names and all(repository.status(name).state == "unknown" for name in names):
                raise UnknownModel(
                    f"the best of the run in {root}, {', '.join(names[:SHOWN])}, are not in its repository: it is "
                    f"damaged, or another one. {command('verify', root)} says what is lost",
                    model_id=names[0],
                )
            if names:
                return names
            raise RunError(f"no evaluation of the run in {root} has finished", path=str(root))
        # A study's trials are not models but snapshots, under names of their own.
        label = origins.info.label
        scope = str(origins.info.about.get("scope"))
        ranked = _by_quality(repository, scope, k, lambda labels: any(one.endswith(f":{label}") for one in labels))
        if not ranked:
            raise RunError(f"no evaluation of the run in {root} has finished", path=str(root))
        return ranked
    scopes = sorted({summary.scope for summary in repository.models()})
    if len(scopes) != 1:
        raise InvalidInput(
            f"{root} has {'no model' if not scopes else 'models of the scopes ' + ', '.join(scopes)}: name one model. "
            f"These are there: {command('models', 'ls', root)}",
            path=str(root),
        )
    return _by_quality(repository, scopes[0], k, lambda labels: True)


def _by_quality(repository: Repository, scope: str, k: int, mine: Any) -> Sequence[str]:
    """Return the best models of a scope (for a study, snapshots) by quality."""
    from daskevo.types import Objective

    ours = [one for one in repository.models(scope, snapshots=True) if mine(one.labels)]
    scored = [(one.quality, one.model_id) for one in ours if one.quality is not None]
    if not scored:
        return [one.model_id for one in ours][:k]
    objective = repository.record(scored[0][1]).objective
    rank = Objective.parse(objective).rank if objective else float
    return [model_id for _, model_id in sorted(scored, key=lambda one: -rank(one[0]))][:k]


def _problem_data(problem: str | None, origins: Origins | None, with_data: bool) -> Any:
    """Load a problem, whose file registers custom layers, and return its data if asked for.

    Raises
    ------
    InvalidInput
        If the run's record does not say how to load the problem.
    """
    from daskevo.errors import InvalidInput
    from daskevo_workflows.problems import load_problem

    if problem is not None:
        loaded = load_problem(problem)
        return loaded.data() if with_data else None
    if not with_data:
        return None
    recorded = None if origins is None else origins.info.identity.get("problem")
    match recorded:
        case {"kind": "name", "name": str(name), "settings": dict(settings)}:
            return load_problem(name, **settings).data()
    raise InvalidInput("--data needs the problem: name it, or its file, with --problem")


def _make(folder: Path) -> None:
    from daskevo.errors import InvalidInput

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"the folder {folder} can't be made: {error.strerror or error}; name another place", path=str(folder)
        ) from error
