"""How a problem is named, found, told from another, and taken to a trainer.

A problem is named by one of ours (``flights``), by a Python file (``path/to/moons.py``, or ``path/to/moons.py:NAME``
for the object of that name in it), or is an object. Its
reference says which, with a hash of the content, so that a run is never resumed with a problem that has changed
meanwhile. A file travels as its source: trainers need not see the path.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import linecache
import sys
import textwrap
import threading
import tokenize
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from daskevo.errors import DaskevoError, InvalidName, InvalidProblem, UnknownProblem
from daskevo.types import JSON, check_json, check_name
from daskevo_workflows.failures import user_code
from daskevo_workflows.problems.protocol import Problem, check_parts
from daskevo_workflows.quiet import quietly

BUILT_IN: Mapping[str, tuple[str, str]] = {
    "attn": ("daskevo_workflows.problems.attn", "Attn"),
    "covertype": ("daskevo_workflows.spaces.covertype", "Covertype"),
    "digits": ("daskevo_workflows.problems.digits", "Digits"),
    "fashion-mnist": ("daskevo_workflows.problems.fashion_mnist", "FashionMnist"),
    "flights": ("daskevo_workflows.problems.flights", "Flights"),
    "nas-bench-201": ("daskevo_workflows.spaces.nas_bench_201", "NasBench201"),
    "nasnet": ("daskevo_workflows.spaces.nasnet", "NasNet"),
}
"""Name -> module and class, of problems whose architectures are searched."""

TO_TUNE: Mapping[str, tuple[str, str]] = {"digits-lr": ("daskevo_workflows.problems.digits_lr", "DigitsLr")}
"""The same of problems whose hyper-parameters are tuned."""

PART = ".py:"
"""Between a file and the name of an object in it."""

_syntax_trees = threading.Lock()
"""Held where syntax trees are made: CPython 3.11 counts the depths of all threads together, and raises
SystemError when they mix."""


@dataclass(frozen=True)
class ProblemReference:
    """A problem as it is kept in a run's record and taken to trainers.

    Parameters
    ----------
    name:
        Of the problem.
    kind:
        ``name``, ``file`` or ``object``.
    where:
        The name, the file's path, or the object's class.
    content:
        Hash of what the problem is: its settings, and the source of its file or class.
    settings:
        Arguments of a named problem's class.
    source:
        Of a file.
    part:
        Name of the object in the file; None: ``problem``, or the file itself.
    instance:
        The object itself; it travels pickled, and is not kept in the record.
    """

    name: str
    kind: str
    where: str
    content: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    part: str | None = None
    instance: Problem | None = None

    def to_json(self) -> JSON:
        """Return what tells the problem from another: `where` is left out, since a file may be moved."""
        return {
            "name": self.name,
            "kind": self.kind,
            "content": self.content,
            "settings": _listed(dict(self.settings)),
        }

    def load(self) -> Problem:
        """Return the problem, made once per process.

        Raises
        ------
        InvalidProblem, UnknownProblem
        """
        if self.instance is not None:
            return self.instance
        key = (self.kind, self.where, self.content)
        if key not in _loaded:
            if self.kind == "file":
                assert self.source is not None
                _loaded[key] = _from_source(self.source, Path(self.where), self.part)
            else:
                _loaded[key] = _built_in(self.where, self.settings)
        return _loaded[key]


_loaded: dict[tuple[str, str, str], Problem] = {}
_data: dict[tuple[str, str, str], Any] = {}


def data_of(reference: ProblemReference) -> Any:
    """Return the problem's data, prepared once per process and problem."""
    key = (reference.kind, reference.where, reference.content)
    if key not in _data:
        # One problem's arrays at a time: a trainer that changes problems must not keep both.
        _data.clear()
        _data[key] = reference.load().data()
    return _data[key]


def load_problem(problem: str | Path | Problem, **settings: Any) -> Problem:
    """Return a problem by name or file.

    Parameters
    ----------
    problem:
        A word of `BUILT_IN` or `TO_TUNE`, such as ``flights``, a path that ends in ``.py``, such a path with ``:NAME``
        for one of several problems in the file, or a problem (returned as it is).
    **settings:
        For a named problem: arguments of its class, such as ``rows=10_000``.

    Raises
    ------
    UnknownProblem
        With the names there are.
    InvalidProblem
        If the file can't be run, or lacks parts.
    """
    return refer(problem, **settings).load()


def refer(problem: str | Path | Problem, **settings: Any) -> ProblemReference:
    """Return the reference of a problem; raises as :func:`load_problem` does."""
    if isinstance(problem, ProblemReference):
        return problem
    if isinstance(problem, Path) or (isinstance(problem, str) and (problem.endswith(".py") or PART in problem)):
        if settings:
            raise InvalidProblem(f"settings {sorted(settings)} were given for {problem}: a file has its own")
        named, part = file_and_part(str(problem))
        return _refer_file(Path(named), part)
    if isinstance(problem, str):
        loaded = _built_in(problem, settings)
        content = _hash(problem, repr(sorted(_listed(settings).items())), source_of(type(loaded)))
        return ProblemReference(loaded.name, "name", problem, content, settings)
    check_parts(problem, f"the object {type(problem).__name__}")
    _check_problem_name(problem.name)
    if type(problem) is types.ModuleType:
        source = source_of(problem)
        path = Path(getattr(problem, "__file__", None) or f"{problem.__name__}.py")
        return ProblemReference(problem.name, "file", str(path), _hash(source), source=source)
    settings = _settings_of(problem)
    content = _hash(type(problem).__qualname__, repr(sorted(settings.items())), source_of(type(problem)))
    return ProblemReference(problem.name, "object", type(problem).__qualname__, content, settings, instance=problem)


def file_and_part(problem: str) -> tuple[str, str | None]:
    """Return the file and the name in it of ``FILE.py`` or ``FILE.py:NAME``.

    Examples
    --------
    >>> file_and_part("my/moons.py:wide"), file_and_part("my/moons.py")
    (('my/moons.py', 'wide'), ('my/moons.py', None))
    """
    before, found, part = problem.rpartition(PART)
    return (problem, None) if not found or problem.endswith(".py") else (f"{before}.py", part)


def _refer_file(path: Path, part: str | None = None) -> ProblemReference:
    try:
        with tokenize.open(path) as file:  # as Python does: a byte order mark and a coding line are followed
            source = file.read()
    except FileNotFoundError as error:
        raise UnknownProblem(f"there is no problem file {path}", path=str(path)) from error
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise InvalidProblem(f"the problem file {path} can't be read: {error}", path=str(path)) from error
    path = path.resolve()
    problem = _from_source(source, path, part)
    content = _hash(_normal(source, str(path)), *([] if part is None else [part]))
    _loaded["file", str(path), content] = problem
    return ProblemReference(problem.name, "file", str(path), content, source=source, part=part)


def _built_in(name: str, settings: Mapping[str, Any]) -> Problem:
    ours = {**BUILT_IN, **TO_TUNE}
    if name not in ours:
        raise UnknownProblem(
            f"there is no problem {name!r:.80}; there are {', '.join(ours)}, or name a Python file that ends in .py",
            problem=name[:100],
        )
    module, attribute = ours[name]
    make: Callable[..., Problem] = getattr(importlib.import_module(module), attribute)
    try:
        inspect.signature(make).bind(**settings)
    except TypeError as error:
        raise InvalidProblem(
            f"problem {name!r} can't be made with {sorted(settings)}: {error}; it takes {inspect.signature(make)}"
        ) from error
    return make(**settings)


def _from_source(source: str, path: Path, part: str | None = None) -> Problem:
    module = types.ModuleType(f"daskevo_problem_{path.stem}_{_hash(source)[:8]}")
    module.__file__ = str(path)
    # Registered, so that classes defined in the file can be pickled and named; and known to tracebacks.
    sys.modules[module.__name__] = module
    linecache.cache[str(path)] = (len(source), None, source.splitlines(keepends=True), str(path))
    if path.parent.is_dir() and str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        # The user's own code, as in any task.
        with quietly(), user_code(f"the problem file {path} can't be run: it", passing=(), path=str(path)):
            exec(compile(source, str(path), "exec"), module.__dict__)
    except InvalidProblem:
        sys.modules.pop(module.__name__, None)
        raise
    # Its `__getattr__`, or that of the object in it, is user code as well.
    with user_code(f"the parts of the problem file {path} can't be looked at: it", passing=(DaskevoError,)):
        if part is not None and not hasattr(module, part):
            raise UnknownProblem(f"there is no {part!r:.80} in the problem file {path}: name an object that it makes")
        problem = check_parts(getattr(module, part or "problem", module), f"the file {path}")
    _check_problem_name(problem.name)
    return problem


def _check_problem_name(name: str) -> None:
    try:
        check_name(name, "problem's name")
    except InvalidName as error:
        raise InvalidProblem(error.message) from error


def syntax_tree(source: str, path: str) -> ast.Module:
    """Parse a source, in any thread."""
    with _syntax_trees:
        return ast.parse(source, path)


def _normal(source: str, path: str) -> str:
    """Return the source without comments and layout: changing those makes no other problem."""
    with _syntax_trees:
        return ast.unparse(ast.parse(source, path))


def source_of(part: Any) -> str:
    """Return the source of a class or module, without comments and layout; empty where there is none to be had."""
    try:
        with _syntax_trees:
            source = inspect.getsource(part)
        return _normal(textwrap.dedent(source), "<source>")
    except (OSError, TypeError, SyntaxError):
        # Typed into a prompt: nothing to tell one version from another by but its name.
        return ""


def _settings_of(problem: Problem) -> dict[str, Any]:
    """Return the plain attributes of a problem object, which are what its settings became."""
    settings: dict[str, Any] = {}
    for name, value in sorted(getattr(problem, "__dict__", {}).items()):
        try:
            settings[name] = check_json(_listed(value), name)
        except ValueError:
            settings[name] = type(value).__qualname__
    return settings


def _listed(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_listed(part) for part in value]
    if isinstance(value, dict):
        return {str(key): _listed(part) for key, part in value.items()}
    return str(value) if isinstance(value, Path) else value


def _hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]
