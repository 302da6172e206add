"""What a problem consists of: the *problem key*, by which problems, their modules and their data are told apart.

All counts that its parts call and read: code, constants, closures, globals, modules beside it, arrays that it holds. A
problem may say ``problem_version = "..."`` instead: then that is what counts, and nothing is looked into.
"""

from __future__ import annotations

import linecache
import shutil
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from daskevo.code_identity import made_of
from daskevo.types import JSON
from daskevo_workflows.evaluation.quiet_import import quietly
from daskevo_workflows.problems.user_modules import Source, importing, sources_with_imports

SOURCES, MAKING = "problem", "problem.making"
"""Folders in a run's folder: with the problem's sources, and with those that are being written."""

VERSION = "problem_version"
"""Optional attribute of a problem: a version that replaces all comparisons of its content."""

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

SHOWN_PARTS = 1000
"""Maximum number of digests of parts in a record, the first ones; they only serve to name what has changed."""

PARTS = (
    *("name", "objective", "epochs", "batch_size", "space", "build", "data", "compile", "score", "callbacks", "fit"),
    *("batch", "training_loop"),
)
"""Parts of a problem that is a module, which are inspected."""


@dataclass(frozen=True)
class Content:
    """The content of a problem.

    Parameters
    ----------
    digest:
        Digest of everything; equal for equal problems if nothing is unknown.
    parts:
        Name -> short digest of each function, class, value and object in it.
    unknown:
        Names of parts that can't be inspected; such a problem counts as different from all others.
    modules:
        Sources of the user's own modules that it uses, by name.
    sources:
        All its sources, including notebook cells.
    """

    digest: str
    parts: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    modules: Mapping[str, Source] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()

    def to_json(self) -> dict[str, JSON]:
        """Return the content for a run's record; digests of code are valid for one version of Python."""
        found: dict[str, JSON] = {
            "python": PYTHON,
            "digest": self.digest,
            "parts": dict(islice(self.parts.items(), SHOWN_PARTS)),
        }
        return {**found, "unknown": list(self.unknown)} if self.unknown else found


def content_of(problem: Any, source: str | None = None) -> Content:
    """Determine the content of a problem.

    Parameters
    ----------
    source:
        Source text, if it is a file.
    """
    version = version_of(problem)
    home, names, values = _parts_of(problem)
    with quietly(), importing():
        made = made_of(*([version] if version is not None else values), names=names, home=home)
    # Cells of a notebook are in linecache too, under names that are no files.
    sources = {file: text for file in made.files if (text := "".join(linecache.getlines(file)))}
    # What a file was run as is no module that anybody imports.
    modules = sources_with_imports((name for name in made.modules if name != home or source is None), source)
    sources.update({module.file: module.text for module in modules.values()})
    if source is not None and (file := getattr(sys.modules.get(home), "__file__", None)) is not None:
        # The text that ran: the file may have been edited meanwhile.
        sources[file] = source
    kept = tuple(Source(file, text) for file, text in sorted(sources.items()))
    parts = {} if version is not None else made.parts
    return Content(made.digest, parts, made.unknown, modules, kept)


def state_of(problem: Any) -> str:
    """Return a digest of a problem's current content, including state that its functions changed."""
    _, names, values = _parts_of(problem)
    with quietly(), importing():
        return made_of(*values, names=names, state=True).digest


def _parts_of(problem: Any) -> tuple[str, list[str], list[Any]]:
    """Return the module of a problem, and its parts to inspect, by name."""
    if isinstance(problem, types.ModuleType):
        names = [name for name in PARTS if hasattr(problem, name)]
        return problem.__name__, names, [getattr(problem, name) for name in names]
    return type(problem).__module__, ["problem"], [problem]


def version_of(problem: Any) -> str | None:
    """Return the version that a problem states, or None."""
    version = getattr(problem, VERSION, None)
    return None if version is None else str(version)


def keep_sources(folder: Path, content: Content) -> None:
    """Write a problem's sources into a run's folder, if not there yet, so that the code that ran stays readable."""
    place = folder / SOURCES
    # A run that is resumed keeps the sources that it began with.
    if place.exists() or not content.sources:
        return
    # Renamed once it is whole: a process that is killed here must not leave a part of them for good.
    making = folder / MAKING
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    taken: set[str] = set()
    for source in content.sources:
        stem = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in Path(source.file).stem)
        name, number = f"{stem}.py", 2
        while name in taken:
            name, number = f"{stem}-{number}.py", number + 1
        taken.add(name)
        (making / name).write_text(source.text, encoding="utf-8", errors="replace")
    making.rename(place)
