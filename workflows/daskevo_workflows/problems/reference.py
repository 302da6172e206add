"""References to problems: find a problem, identify it, and send it to trainers.

A problem is given as a built-in name (``flights``), a Python file (``path/to/moons.py``, or ``path/to/moons.py:NAME``
for an object in it), or an object. Its reference records which, and its content
(:mod:`daskevo_workflows.problems.content`), so that a run is never resumed with a problem that has changed. A file is
sent as its source, and so are the user's own modules that it uses, so trainers need no access to the path.

A process keeps a problem's module and data for one reference only. A new reference loads them again, because files that
the problem reads, such as a table on disk, may have changed without changing any key.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import linecache
import sys
import textwrap
import tokenize
import types
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from daskevo.code_identity import digest_of
from daskevo.errors import DaskevoError, InvalidName, InvalidProblem, UnknownProblem
from daskevo.types import JSON, check_json, check_name
from daskevo_workflows.evaluation.failures import user_code
from daskevo_workflows.evaluation.quiet_import import quietly
from daskevo_workflows.problems import syntax
from daskevo_workflows.problems.content import VERSION, Content, content_of, version_of
from daskevo_workflows.problems.protocol import Data, Problem, check_parts
from daskevo_workflows.problems.user_modules import forget_changed, import_all, importing

BUILT_IN: Mapping[str, tuple[str, str]] = {
    "attn": ("daskevo_workflows.problems.attn", "Attn"),
    "covertype": ("daskevo_workflows.spaces.covertype", "Covertype"),
    "digits": ("daskevo_workflows.problems.digits", "Digits"),
    "fashion-mnist": ("daskevo_workflows.problems.fashion_mnist", "FashionMnist"),
    "flights": ("daskevo_workflows.problems.flights", "Flights"),
    "nas-bench-201": ("daskevo_workflows.spaces.nas_bench_201", "NasBench201"),
    "nasnet": ("daskevo_workflows.spaces.nasnet", "NasNet"),
}
"""Name -> module and class of built-in problems for searches."""

TO_TUNE: Mapping[str, tuple[str, str]] = {"digits-lr": ("daskevo_workflows.problems.digits_lr", "DigitsLr")}
"""Name -> module and class of built-in problems for studies."""

PART = ".py:"
"""Separates a file from the name of an object in it."""


@dataclass(frozen=True)
class ProblemReference:
    """A problem, as stored in a run's record and sent to trainers.

    Parameters
    ----------
    name:
        Of the problem.
    kind:
        ``name``, ``file`` or ``object``.
    where:
        The name, the file's path, or the object's class.
    content:
        Hash of its settings and of the source of its file or class; older records compare only these.
    settings:
        Arguments of a named problem's class.
    source:
        Source text, if it is a file.
    part:
        Name of the object in the file; None: ``problem``, or the file itself.
    instance:
        The object itself; sent pickled, not stored in the record.
    made:
        Digest of everything that the problem consists of.
    nonce:
        Random id of this reference and its copies on trainers.
    """

    name: str
    kind: str
    where: str
    content: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    part: str | None = None
    instance: Problem | None = None
    made: Content = field(default_factory=lambda: Content(""))
    nonce: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False)

    @property
    def key(self) -> str:
        """The *problem key*: equal for equal problems; one that can't be inspected equals no other."""
        return _hash(self.content, self.made.digest, self.nonce if self.made.unknown else "")

    @property
    def _here(self) -> tuple[str, str, str, str]:
        """Key under which a process keeps this reference's module and data."""
        return (self.kind, self.where, self.key, self.nonce)

    def to_trainers(self) -> ProblemReference:
        """Return a smaller copy for trainers, without the object (see :func:`adopt`) and parts only for messages."""
        return replace(self, instance=None, made=replace(self.made, parts={}, sources=()))

    def to_json(self) -> JSON:
        """Return the problem's identity as JSON; `where` is left out, since a file may be moved."""
        return {
            "name": self.name,
            "kind": self.kind,
            "content": self.content,
            "settings": _listed(dict(self.settings)),
        }

    def load(self) -> Problem:
        """Return the problem, loaded once per process.

        Raises
        ------
        InvalidProblem, UnknownProblem
        """
        if self.instance is not None:
            return self.instance
        if (known := _loaded.get(self._here)) is not None:
            return known
        if self.kind == "file":
            assert self.source is not None
            # Before its code runs: what it imports must be what the client compared and sent.
            forget_changed(self.made.modules, Path(self.where).parent)
            with importing(self.made.modules):
                import_all(self.made.modules)
                problem = _from_source(self.source, Path(self.where), self.part)
        elif self.kind == "name":
            problem = _built_in(self.where, self.settings)
        else:
            raise InvalidProblem(
                f"the problem {self.name!r} is an object, and it did not come with its evaluation: give the same call "
                "again"
            )
        _keep(self, problem)
        return problem


LOADED = 8
"""Maximum number of problems kept in a process."""

_loaded: OrderedDict[tuple[str, str, str, str], Problem] = OrderedDict()
_data: dict[tuple[str, str, str, str], Data] = {}


def _keep(reference: ProblemReference, problem: Problem) -> None:
    _loaded[reference._here] = problem
    while len(_loaded) > LOADED:
        _loaded.popitem(last=False)


def adopt(reference: ProblemReference, instance: Problem) -> None:
    """Keep the object of a reference that came without it."""
    # The first one stays: its data may be prepared already, and it equals this one.
    if reference._here not in _loaded:
        _keep(reference, instance)


def data_of(reference: ProblemReference) -> Data:
    """Return the problem's data, prepared once per process and reference.

    Not once per problem key: files that `data` reads, such as a table, are not part of the key.
    """
    key = reference._here
    if key not in _data:
        # Keep one problem's arrays only: a trainer that changes problems must not hold both in memory.
        _data.clear()
        _data[key] = reference.load().data()
    return _data[key]


def data_digest_of(reference: ProblemReference) -> str | None:
    """Return the *data key* of the problem's data, computed once; None if a part of them can't be inspected."""
    key, data = reference._here, data_of(reference)
    if key not in _data_digests:
        _data_digests.clear()
        _data_digests[key] = digest_of(data)
    return _data_digests[key]


_data_digests: dict[tuple[str, str, str, str], str | None] = {}


def load_problem(problem: str | Path | Problem, **settings: Any) -> Problem:
    """Return a problem by name or file.

    Parameters
    ----------
    problem:
        A key of `BUILT_IN` or `TO_TUNE`, such as ``flights``; a path that ends in ``.py``, or in ``.py:NAME`` for one
        of several problems in the file; or a problem, which is returned unchanged.
    **settings:
        For a named problem: arguments of its class, such as ``rows=10_000``.

    Raises
    ------
    UnknownProblem
        The message lists the names there are.
    InvalidProblem
        If the file can't be run, or parts are missing.
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
        # Installed code is identified by its name and settings.
        return ProblemReference(loaded.name, "name", problem, content, settings)
    check_parts(problem, f"the object {type(problem).__name__}")
    _check_problem_name(problem.name)
    if type(problem) is types.ModuleType:
        source = source_of(problem)
        path = Path(getattr(problem, "__file__", None) or f"{problem.__name__}.py")
        made = content_of(problem, source)
        return ProblemReference(problem.name, "file", str(path), _content(problem, source), source=source, made=made)
    where, settings = type(problem).__qualname__, {} if version_of(problem) else _settings_of(problem)
    content = _content(problem, where, repr(sorted(settings.items())), source_of(type(problem)))
    return ProblemReference(
        problem.name, "object", where, content, settings, instance=problem, made=content_of(problem)
    )


def _content(problem: Problem, *texts: str) -> str:
    """Return the hash of a problem's source and settings, or of its stated version."""
    version = version_of(problem)
    return _hash(*texts) if version is None else _hash(VERSION, version)


def file_and_part(problem: str) -> tuple[str, str | None]:
    """Split ``FILE.py`` or ``FILE.py:NAME`` into file and name.

    Examples
    --------
    >>> file_and_part("my/moons.py:wide"), file_and_part("my/moons.py")
    (('my/moons.py', 'wide'), ('my/moons.py', None))
    """
    before, found, part = problem.rpartition(PART)
    return (problem, None) if not found or problem.endswith(".py") else (f"{before}.py", part)


def _refer_file(path: Path, part: str | None = None) -> ProblemReference:
    try:
        with tokenize.open(path) as file:  # like Python, honours a byte order mark and a coding line
            source = file.read()
    except FileNotFoundError as error:
        raise UnknownProblem(f"there is no problem file {path}", path=str(path)) from error
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise InvalidProblem(f"the problem file {path} can't be read: {error}", path=str(path)) from error
    path = path.resolve()
    forget_changed(folder=path.parent)
    with importing():
        problem = _from_source(source, path, part)
    content = _content(problem, syntax.normal(source, str(path)), *([] if part is None else [part]))
    made = content_of(problem, source)
    reference = ProblemReference(problem.name, "file", str(path), content, source=source, part=part, made=made)
    _keep(reference, problem)
    return reference


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
    # Registered so that its classes can be pickled, and in linecache so that tracebacks show its lines.
    sys.modules[module.__name__] = module
    linecache.cache[str(path)] = (len(source), None, source.splitlines(keepends=True), str(path))
    try:
        # This runs the user's code, as any Dask task does.
        with quietly(), user_code(f"the problem file {path} can't be run: it", passing=(), path=str(path)):
            exec(compile(source, str(path), "exec"), module.__dict__)
    except InvalidProblem:
        # Half a module must not be found by its name.
        sys.modules.pop(module.__name__, None)
        raise
    # Looking at its parts may run user code too, in `__getattr__`.
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


def source_of(part: Any) -> str:
    """Return the source of a class or module without comments and layout; empty if there is no source."""
    try:
        # For a class, inspect parses its file.
        with syntax.LOCK:
            source = inspect.getsource(part)
        return syntax.normal(textwrap.dedent(source), "<source>")
    except (OSError, TypeError, SyntaxError):
        # Typed into a prompt: versions can't be told apart.
        return ""


def _settings_of(problem: Problem) -> dict[str, Any]:
    """Return the JSON-compatible attributes of a problem object as its settings."""
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
    # A zero between them: otherwise two texts could be cut at another place.
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]
