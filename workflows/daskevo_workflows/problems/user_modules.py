"""Send the user's own modules with a problem, as source, and import them again if they have changed.

A process imports a module only once, and a trainer outlives many edits of a problem, so an imported module may be out
of date. Therefore a problem carries the sources of the modules that it uses, and a process that has imported other
sources imports them again.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import linecache
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from daskevo.code_identity import is_installed
from daskevo.code_identity.installed import OURS, is_installed_at
from daskevo_workflows.evaluation.failures import user_code
from daskevo_workflows.evaluation.quiet_import import quietly
from daskevo_workflows.problems.syntax import imported


@dataclass(frozen=True)
class Source:
    """A module's file and its text."""

    file: str
    text: str


def sources_of(modules: Iterable[str]) -> dict[str, Source]:
    """Return the sources of the user's own modules that have a file, by name; packages before their submodules."""
    found = {}
    for name in sorted({part for module in modules for part in _with_packages(module)}):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is None or not file.endswith(".py") or name == "__main__" or is_installed(name):
            continue
        if (text := _text(file)) is not None:
            found[name] = Source(file, text)
    return found


def sources_with_imports(modules: Iterable[str], source: str | None = None) -> dict[str, Source]:
    """Return the sources of modules, and of all modules that they import at their top level.

    Parameters
    ----------
    source:
        Another source that imports modules: that of a problem's file.
    """
    found: dict[str, Source] = {}
    wanted = {*modules, *imported(source or "")}
    while wanted:
        new = {name: module for name, module in sources_of(wanted).items() if name not in found}
        found.update(new)
        wanted = {part for name, module in new.items() for part in imported(module.text, _package(name, module))}
    return dict(sorted(found.items()))


def _package(name: str, module: Source) -> str:
    return name if Path(module.file).name == "__init__.py" else name.rpartition(".")[0]


def _with_packages(module: str) -> Iterator[str]:
    parts = module.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _text(file: str) -> str | None:
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None


_imported: dict[str, str] = {}
"""The user's modules imported by problems in this process -> the source they were loaded from."""
_folders: list[str] = []
"""Folders of problem files that ran in this process, latest first; they are on the import path."""
_lock = threading.RLock()


def forget_changed(wanted: Mapping[str, Source] | None = None, folder: Path | None = None) -> None:
    """Forget all modules that problems imported, so that they are imported again, if one of them has changed.

    Parameters
    ----------
    wanted:
        Their wanted sources; None: those in their files.
    folder:
        Folder of a problem, which should import modules from there before those of the same name elsewhere.
    """
    with _lock:
        if folder is not None:
            _put_first(str(folder))
        changed = any(_now(name, wanted or {}, folder) not in (None, text) for name, text in _imported.items())
        if not changed and not any(name in sys.modules and name not in _imported for name in wanted or ()):
            return
        # All of them: those that haven't changed hold functions and classes that they took from those that have.
        for name in {*_imported, *(wanted or ())}:
            sys.modules.pop(name, None)
        _imported.clear()
        # Python's finders remember what is in folders, and linecache the lines that tracebacks show.
        importlib.invalidate_caches()
        linecache.checkcache()


def _now(name: str, wanted: Mapping[str, Source], folder: Path | None) -> str | None:
    """Return the source from which a module would be loaded; None if there is none."""
    if name in wanted:
        return wanted[name].text
    if folder is not None and (beside := _text(str(folder.joinpath(*name.split(".")).with_suffix(".py")))) is not None:
        return beside
    file = getattr(sys.modules.get(name), "__file__", None)
    return None if file is None else _text(file)


def _put_first(folder: str) -> None:
    """Put a problem's folder on the import path, after the original entries and before other problems' folders."""
    # A folder that the user put on the path stays where it is.
    if not Path(folder).is_dir() or (folder in sys.path and folder not in _folders):
        return
    _folders[:] = [folder, *(other for other in _folders if other != folder)]
    sys.path[:] = [*(place for place in sys.path if place not in _folders), *_folders]


@contextmanager
def importing(sources: Mapping[str, Source] | None = None) -> Iterator[None]:
    """Record which user modules are imported in this block; load them from `sources` if these have them."""
    with _lock:
        before = set(sys.modules)
        finder = _Finder(sources or {})
        sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
            new = [name for name in sys.modules if name not in before]
            _imported.update({name: source.text for name, source in sources_of(new).items()})
            _imported.update({name: source.text for name, source in (sources or {}).items() if name in new})


def import_all(modules: Iterable[str]) -> None:
    """Import user modules now, inside `importing`, so that functions that import later get the same ones."""
    for name in modules:
        with quietly(), user_code(f"the module {name} of a problem can't be imported: it", passing=()):
            importlib.import_module(name)


class _Finder:
    """Import finder for the user's modules: those that were sent as source, and those in files beside a problem."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if (source := self._sources.get(name)) is None:
            return _spec_without_bytecode(name, path)
        places = [str(Path(source.file).parent)] if Path(source.file).name == "__init__.py" else None
        loader = _Loader(name, source)
        return importlib.util.spec_from_file_location(
            name, source.file, loader=loader, submodule_search_locations=places
        )


def _spec_without_bytecode(name: str, path: Sequence[str] | None) -> importlib.machinery.ModuleSpec | None:
    """Return the spec of a module of the user's that is loaded from its text; None for any other.

    Bytecode counts as up to date if the file has the size and the second of change that it had: after a quick edit
    other code would run than the text says that is compared and kept.
    """
    top = name.partition(".")[0]
    if top in OURS or top in sys.stdlib_module_names:
        return None
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader or spec.origin is None:
        return None
    if is_installed_at(spec.origin) or (text := _text(spec.origin)) is None:
        return None
    spec.loader = _Loader(name, Source(spec.origin, text))
    return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from the given source, not from its file; writes no bytecode."""

    def __init__(self, name: str, source: Source) -> None:
        super().__init__(name, source.file)
        self._text = source.text

    def path_stats(self, path: str) -> Mapping[str, Any]:
        # Without the file's time, Python's loader neither reads bytecode nor writes any.
        raise OSError(f"{path} is of no interest")

    def get_data(self, path: str) -> bytes:
        # Other files are what the module reads with it, by pkgutil.get_data.
        return self._text.encode() if path == self.path else super().get_data(path)
