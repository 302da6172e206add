"""What code and values are made of: one digest for functions, classes and objects, through what they call and read.

Two functions are the same if their code, constants, defaults, closures and the globals that they read are, whatever
they are called and wherever they stand; arrays go by their bytes. What is installed (Python, Keras, numpy, ...) goes by
its name. What can't be looked into (an open file, a connection) is *unknown*: it is not known to equal anything, and
:attr:`Made.unknown` names it. What code reads in ways that nobody sees (``globals()[name]``, files) doesn't count.

Digests are those of one version of Python: code is compared as it runs, and each version compiles it differently.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import dis
import enum
import functools
import hashlib
import importlib
import importlib.util
import logging
import os
import pathlib
import random
import re
import sys
import sysconfig
import threading
import types
import typing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

OURS = frozenset({"daskevo", "daskevo_plugins", "daskevo_workflows"})
_INSTALLED_AT = tuple({str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "purelib", "platlib")})
_PLACE_OF_CLASS = (
    "__dict__ __weakref__ __module__ __doc__ __qualname__ __firstlineno__ __static_attributes__ __annotations__ "
    "__annotate__ __annotate_func__ __annotations_cache__ __abstractmethods__ _abc_impl __slotnames__"
)
_PLACE_OF_MODULE = "__name__ __file__ __cached__ __loader__ __spec__ __package__ __path__ __builtins__"
_NO_CONTENT = frozenset([*_PLACE_OF_CLASS.split(), *_PLACE_OF_MODULE.split()])
"""Attributes that say where a class or module stands, and what Python adds to it."""
_BY_TEXT = (pathlib.PurePath, range, slice, np.dtype, types.GenericAlias, types.UnionType, typing.TypeVar)
_BY_TEXT_FROM = frozenset({"datetime", "decimal", "fractions", "uuid", "zoneinfo", "typing"})
_WITHOUT_CONTENT: tuple[Any, ...] = (
    logging.Logger,
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Condition,
    threading.Event,
    type(vars(collections.namedtuple("_Pair", "first"))["first"]),
)
"""They change nothing of what is computed, or say nothing that their place doesn't."""
_BOOKS_OF_KERAS = frozenset({"name", "_name", "path", "_path", "_parent_path", "_inbound_nodes", "_outbound_nodes"})
"""Attributes of layers, metrics and the like that depend on what else a process has made, and where they were used."""
_SHOWN_IN_FULL = frozenset({bool, int, float, complex, str, type(None)})
_CONTAINERS = (bool, int, float, complex, str, bytes, bytearray, memoryview, list, tuple, set, frozenset, dict)
_IN_MEMORY = frozenset({"numpy", "pandas", "polars", "keras", "tensorflow", "jax", "jaxlib", "torch"})
"""Packages whose arrays are in memory. Those of others, such as h5py, zarr and Dask, may be larger than that."""
_MAPPED = 64 * 2**20
"""Bytes from which only the first and the last MiB of a file that is mapped as an array count."""
_WRAPPED = ("__wrapped__", "python_function", "py_func")
"""Where a compiled or cached function (functools, JAX, TensorFlow, numba) keeps the one that it was made of."""


@dataclasses.dataclass(frozen=True)
class Made:
    """What something is made of.

    Parameters
    ----------
    digest:
        32 hexadecimal digits: equal for what is made of the same. Where something is unknown, it is of the rest.
    parts:
        Name -> short digest, of each function, class, global and object that was met: for people, who are told which
        changed.
    unknown:
        What couldn't be looked into, in words.
    modules:
        Modules of the user's whose code or values were met, by name.
    files:
        Where code of the user's was compiled from: files, or what a notebook calls its cells.
    """

    digest: str
    parts: Mapping[str, str]
    unknown: tuple[str, ...]
    modules: tuple[str, ...]
    files: tuple[str, ...]


def made_of(*values: Any, names: Iterable[str] = (), home: str | None = None) -> Made:
    """Return what functions, classes, modules or other values are made of, all together.

    Parameters
    ----------
    names:
        What to call them in `parts`; by default what they call themselves.
    home:
        Module whose name is left out in `parts`.

    Examples
    --------
    >>> made_of(lambda x: x + 1).digest == made_of(lambda x: x + 1).digest
    True
    >>> made_of(lambda x: x + 1).digest == made_of(lambda x: x + 2).digest
    False
    """
    walk = _Walk(home)
    given = iter(names)
    roots = [walk.part(value, next(given, None) or _name(value) or "value") for value in values]
    return walk.result(roots)


def digest_of(value: Any) -> str | None:
    """Return the digest of one value; None if something in it is unknown: then it is not known to equal anything."""
    made = made_of(value)
    return None if made.unknown else made.digest


def is_installed(module: str) -> bool:
    """Whether a module belongs to Python or to an installed package, whose code goes by its name."""
    top = module.partition(".")[0]
    if top in OURS or top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return True
    found = sys.modules.get(module) or sys.modules.get(top)
    if found is not None:
        return _is_installed_at(getattr(found, "__file__", None))
    try:
        spec = importlib.util.find_spec(top) if top else None
    except (ImportError, ValueError):
        return False
    return spec is not None and _is_installed_at(spec.origin)


@functools.lru_cache(maxsize=4096)
def _is_installed_at(file: str | None) -> bool:
    if file is None or file.startswith("<"):
        return False
    path = Path(file).resolve()
    return any(part in ("site-packages", "dist-packages") for part in path.parts) or any(
        path.is_relative_to(place) for place in _INSTALLED_AT
    )


class _Walk:
    """Visits parts in the order in which they are met; each gets a digest of its own, in which others are numbers.

    So cycles need nothing special, and names count nowhere.
    """

    def __init__(self, home: str | None) -> None:
        self._home = home
        file = getattr(sys.modules.get(home or ""), "__file__", None)
        self._folder = None if file is None else str(Path(file).parent)
        self._numbers: dict[Any, int] = {}
        self._waiting: deque[tuple[str, Callable[[], Iterator[Any]]]] = deque()
        # Kept, so that no other object gets the id of one that was met.
        self._kept: list[Any] = []
        self._inside: list[int] = []
        self._unknown: dict[str, None] = {}
        self._modules: dict[str, None] = {}
        self._files: dict[str, None] = {}
        self._rebound: dict[int, frozenset[str]] = {}

    def result(self, roots: list[int]) -> Made:
        digests: list[bytes] = []
        parts: dict[str, str] = {}
        while self._waiting:
            name, content = self._waiting.popleft()
            digest = hashlib.blake2b(digest_size=16)
            for token in content():
                digest.update(token if isinstance(token, bytes) else f"{token}\0".encode())
            digests.append(digest.digest())
            parts[self._free_name(name, parts)] = digest.hexdigest()[:8]
        whole = hashlib.blake2b(repr(roots).encode(), digest_size=16)
        for one in digests:
            whole.update(one)
        return Made(whole.hexdigest(), parts, tuple(self._unknown), tuple(self._modules), tuple(self._files))

    @staticmethod
    def _free_name(name: str, taken: Mapping[str, str]) -> str:
        number = 2
        free = name
        while free in taken:
            free, number = f"{name} #{number}", number + 1
        return free

    def part(self, value: Any, name: str) -> int:
        """Return the number of a part, which is looked at later if it is new."""
        return self._numbered(id(value), value, name, lambda: self._content(value, name))

    def _numbered(self, key: Any, keep: Any, name: str, content: Callable[[], Iterator[Any]]) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._kept.append(keep)
            self._waiting.append((name, content))
        return self._numbers[key]

    # Parts

    def _content(self, value: Any, name: str) -> Iterator[Any]:
        match value:
            case types.FunctionType():
                yield from self._function(value, name)
            case type():
                yield from self._class(value, name)
            case types.ModuleType():
                self._modules[value.__name__] = None
                yield "module"
                for attribute, inside in sorted(vars(value).items()):
                    if attribute not in _NO_CONTENT:
                        yield attribute
                        yield from self.value(inside, f"{name}.{attribute}")
            case _ if _is_plain(value):
                yield from self.value(value, name)
            case _:
                yield from self._object(value, name)

    def _function(self, function: types.FunctionType, name: str) -> Iterator[Any]:
        yield "function"
        if function.__code__.co_filename == functools.__file__ and hasattr(function, "registry"):
            # Of functools.singledispatch: what it has looked up so far says nothing.
            yield from self.value({**function.registry}, name)
            return
        yield from self._code(function.__code__, name)
        for values in (function.__defaults__, function.__kwdefaults__):
            yield from self.value(values, f"{name}'s defaults")
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                inside = cell.cell_contents
            except ValueError:
                yield "nothing yet"
                continue
            yield from self.value(inside, f"{variable} of {name}")
        home = str(function.__globals__.get("__name__", ""))
        if _is_installed_at(function.__code__.co_filename) or is_installed(home):
            return
        self._files[function.__code__.co_filename] = None
        if home:
            self._modules[home] = None
        yield from self._read(function.__code__, function.__globals__)

    def _code(self, code: types.CodeType, name: str) -> Iterator[Any]:
        yield (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        yield (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        yield code.co_code
        yield code.co_exceptiontable
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from self._code(constant, name)
            else:
                yield from self.value(constant, name)

    def _read(self, code: types.CodeType, scope: dict[str, Any]) -> Iterator[Any]:
        """Yield the globals that code reads, and those of modules as far as it names them."""
        for chain in _reads(code):
            if chain[0] in _NO_CONTENT:
                continue
            if chain[0].startswith("import "):
                yield from self._imported(chain, scope)
            elif chain[0] in scope and chain[0] not in self._rebound_in(scope):
                yield from self._global(scope[chain[0]], chain, scope)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from self._read(constant, scope)

    def _global(self, value: Any, chain: tuple[str, ...], scope: dict[str, Any]) -> Iterator[Any]:
        if isinstance(value, types.ModuleType):
            yield from self._of_module(value, chain[1:])
        elif _is_plain(value):
            # A part of its own, so that it has a name when it changes; its place is what tells it from others.
            name = self._say(str(scope.get("__name__", "")), chain[0])
            yield self._numbered((id(scope), chain[0]), value, name, lambda: self.value(value, name))
        else:
            yield from self.value(value, self._say(str(scope.get("__name__", "")), chain[0]))

    def _of_module(self, module: types.ModuleType, attributes: tuple[str, ...]) -> Iterator[Any]:
        """Yield what is read of a module: an attribute, one of its submodules', or all of it."""
        if is_installed(module.__name__):
            yield f"{module.__name__}.{'.'.join(attributes)}"
        elif not attributes:
            yield from self.value(module, module.__name__)
        elif attributes[0] not in vars(module):
            yield f"no {attributes[0]}"
        elif attributes[0] not in self._rebound_in(vars(module)):
            self._modules[module.__name__] = None
            yield from self._global(vars(module)[attributes[0]], attributes, vars(module))

    def _imported(self, chain: tuple[str, ...], scope: dict[str, Any]) -> Iterator[Any]:
        """Yield what a function imports itself."""
        name = chain[0].removeprefix("import ")
        dots = len(name) - len(name.lstrip("."))
        yield chain
        package = str(scope.get("__package__") or "")
        if not dots and is_installed(name):
            return
        try:
            module = importlib.import_module(name, package if dots else None)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's; code that never runs may name anything
            yield f"{type(error).__name__}"
            return
        if is_installed(module.__name__):
            return
        if len(chain) == 1:
            yield from self.value(module, module.__name__)
        for attribute in chain[1:]:
            yield from self._of_module(module, (attribute,))

    def _rebound_in(self, scope: dict[str, Any]) -> frozenset[str]:
        """Return the globals that functions of a module assign while they run: state of a process, not its program."""
        if id(scope) not in self._rebound:
            codes = [code for value in [*scope.values()] for code in _codes_of(value)]
            self._rebound[id(scope)] = frozenset(name for code in codes for name in _stores(code))
            self._kept.append(scope)
        return self._rebound[id(scope)]

    def _class(self, made: type, name: str) -> Iterator[Any]:
        yield "class"
        self._modules[made.__module__] = None
        yield from self.value(type(made), name)
        for base in made.__bases__:
            yield from self.value(base, name)
        for attribute, inside in sorted(vars(made).items()):
            if attribute not in _NO_CONTENT:
                yield attribute
                yield from self.value(inside, f"{name}.{attribute}")

    # Values

    def value(self, value: Any, name: str) -> Iterator[Any]:
        """Yield what tells a value from others: text, bytes, and numbers of parts."""
        kind = type(value)
        if kind is str and self._folder is not None and value.startswith(self._folder):
            value = self._placed(value)
        if kind in _SHOWN_IN_FULL or value is Ellipsis or value is NotImplemented:
            yield f"{kind.__name__} {value!r}"
            return
        if isinstance(value, types.FunctionType | type | types.ModuleType):
            if (found := _installed_name(value)) is not None:
                yield found
            else:
                yield self.part(value, self._own_name(value, name))
            return
        if _is_plain(value):
            if id(value) in self._inside:
                yield f"again {len(self._inside) - self._inside.index(id(value))}"
                return
            self._inside.append(id(value))
            yield kind.__name__
            yield from self._inside_of(value, name)
            self._inside.pop()
            return
        yield self.part(value, name)

    def _placed(self, path: str) -> str:
        """Return a path without the folder of the code that is looked at, where it lies within: that may be moved."""
        folder = self._folder
        return f".{path[len(folder) :]}" if folder and (path == folder or path.startswith(folder + os.sep)) else path

    def _inside_of(self, value: Any, name: str) -> Iterator[Any]:
        match value:
            case bool() | int() | float() | complex() | str():
                yield next(kind.__repr__(value) for kind in _CONTAINERS if isinstance(value, kind))
            case bytes() | bytearray() | memoryview():
                yield from _frames(bytes(value))
            case Mapping():
                yield len(value)
                for key, inside in sorted(value.items(), key=lambda item: _order(item[0])):
                    yield from self.value(key, name)
                    yield from self.value(inside, f"{name}[{key!r:.40}]")
            case Set():
                yield len(value)
                ordered = sorted((_order(inside), number, inside) for number, inside in enumerate(value))
                for (order, _, inside), (before, *_) in zip(ordered, [("",), *ordered], strict=False):
                    if order == before:
                        # Which of the two comes first, an address decides.
                        self._not_known(inside, f"the order of {name}")
                    yield from self.value(inside, name)
            case list() | tuple() if {type(inside) for inside in value} <= _SHOWN_IN_FULL:
                yield list.__repr__([*value])
            case _:
                yield len(value)
                for number, inside in enumerate(value):
                    yield from self.value(inside, f"{name}[{number}]")

    def _object(self, value: Any, name: str) -> Iterator[Any]:
        """Yield what an object is made of: its class, and all that it holds."""
        kind = type(value)
        if isinstance(value, types.MethodType):
            yield "method"
            yield from self.value(value.__func__, name)
            yield from self.value(value.__self__, f"{name}'s object")
            return
        if (found := _installed_name(value)) is not None:
            yield found
            return
        if isinstance(value, types.BuiltinFunctionType) or _is_member(value):
            yield from self._compiled(value, name)
            return
        yield from self.value(kind, kind.__qualname__)
        # A layer's tracker knows what the layer holds by addresses.
        if isinstance(value, _WITHOUT_CONTENT) or (kind.__name__ == "Tracker" and _is_keras(kind)):
            return
        if isinstance(value, enum.Enum):
            yield value.name
        elif isinstance(value, Path):
            yield self._placed(str(value))
        elif isinstance(value, _BY_TEXT) or kind.__module__.partition(".")[0] in _BY_TEXT_FROM:
            yield repr(value)
        elif isinstance(value, re.Pattern):
            yield from self.value((value.pattern, value.flags), name)
        elif isinstance(value, property):
            yield from self.value((value.fget, value.fset, value.fdel), name)
        elif isinstance(value, staticmethod | classmethod):
            yield from self.value(value.__func__, name)
        elif isinstance(value, functools.partial):
            yield from self.value((value.func, value.args, value.keywords), name)
        elif isinstance(value, random.Random):
            yield from self.value(value.getstate(), name)
        elif isinstance(value, np.random.Generator | np.random.RandomState):
            state = getattr(value, "bit_generator", None)
            yield from self.value(value.get_state(legacy=False) if state is None else state.state, name)  # type: ignore[union-attr]
        elif isinstance(value, np.ma.MaskedArray):
            yield from self.value((value.data, np.ma.getmaskarray(value)), name)
        elif isinstance(value, np.memmap) and value.nbytes > _MAPPED:
            rows = max(1, 2**20 // max(1, value[0].nbytes))
            yield value.shape
            yield from self.value((np.asarray(value[:rows]), np.asarray(value[-rows:])), name)
        elif (array := _array(value)) is not None:
            yield from self._of_array(array, name)
            if not is_installed(kind.__module__) and isinstance(value, np.ndarray):
                yield from self._held(value, name)
            if kind.__module__.partition(".")[0] == "pandas":
                yield from self.value([getattr(value, part, None) for part in ("index", "columns", "name")], name)
        elif hasattr(value, "__array__") and is_installed(kind.__module__) and not _is_in_memory(kind):
            yield str((getattr(value, "shape", None), getattr(value, "dtype", None)))
            self._not_known(value, name)
        elif is_installed(kind.__module__) and (function := _wrapped(value)) is not None:
            yield from self.value(function, name)
        elif (config := _config(value)) is not None:
            yield from self.value(config, name)
        else:
            yield from self._attributes(value, name)

    def _of_array(self, array: np.ndarray[Any, Any], name: str) -> Iterator[Any]:
        yield (array.dtype.str if array.dtype.names is None else repr(array.dtype), array.shape)
        if array.dtype.names is not None:
            # Not what lies between the fields.
            for field in array.dtype.names:
                yield from self._of_array(array[field], name)
        elif array.dtype.hasobject:
            yield from self.value(array.reshape(-1).tolist(), name)
        else:
            yield xxhash.xxh3_128(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).digest()

    def _compiled(self, value: Any, name: str) -> Iterator[Any]:
        """Yield the name of C code, if it is installed under that name."""
        bound = getattr(value, "__self__", None)
        owner = bound if isinstance(bound, types.ModuleType | type) else getattr(value, "__objclass__", None)
        if owner is not None:
            yield from self.value(owner, name)
            yield str(value.__name__)
        elif bound is not None:
            yield str(value.__name__)
            yield from self.value(bound, name)
        else:
            self._not_known(value, name)

    def _attributes(self, value: Any, name: str) -> Iterator[Any]:
        kind = type(value)
        if isinstance(value, (*_CONTAINERS, collections.deque)):
            yield from self._inside_of(value, name)
        elif any(_is_of_c_code(base) for base in kind.__mro__[:-1]):
            if (reduced := _reduced(value)) is None:
                self._not_known(value, name)
            else:
                yield from self.value(reduced, name)
        yield from self._held(value, name)

    def _held(self, value: Any, name: str) -> Iterator[Any]:
        kind = type(value)
        attributes = dict(getattr(value, "__dict__", {}))
        for slot in (slot for base in kind.__mro__ for slot in _slots(base)):
            if hasattr(value, slot):
                attributes[slot] = getattr(value, slot)
        left_out = _NO_CONTENT | _BOOKS_OF_KERAS if _is_keras(kind) else _NO_CONTENT
        for attribute, inside in sorted(attributes.items()):
            # What is worked out at first use says nothing that its source doesn't.
            worked_out = isinstance(getattr(kind, attribute, None), functools.cached_property)
            if not worked_out and attribute not in left_out:
                yield attribute
                yield from self.value(inside, f"{name}.{attribute}")

    def _not_known(self, value: Any, name: str) -> None:
        kind = type(value)
        self._unknown[f"{name} (of {kind.__module__}.{kind.__qualname__})"] = None

    # Names

    def _own_name(self, value: Any, name: str) -> str:
        own = _name(value)
        return name if own is None else own if isinstance(value, types.ModuleType) else self._say(value.__module__, own)

    def _say(self, module: str | None, name: str) -> str:
        return name if module in (None, "", "__main__", self._home) else f"{module}.{name}"


def _is_plain(value: Any) -> bool:
    return type(value) in (*_CONTAINERS, type(None), type(Ellipsis), type(NotImplemented), types.MappingProxyType)


def _is_of_c_code(kind: type) -> bool:
    """Whether a class was made by C code, whose objects may hold what no attribute tells."""
    if kind in (types.SimpleNamespace, Exception, BaseException):
        return False
    written = types.WrapperDescriptorType | types.MethodDescriptorType | types.BuiltinFunctionType
    return not kind.__flags__ & 1 << 9 or any(isinstance(inside, written) for inside in vars(kind).values())


def _name(value: Any) -> str | None:
    found = getattr(value, "__qualname__", None) or (
        getattr(value, "__name__", None) if isinstance(value, types.ModuleType) else None
    )
    return found.replace("<locals>.", "") if isinstance(found, str) else None


def _installed_name(value: Any) -> str | None:
    """Return the name by which an installed module, class or function is found; None if it isn't."""
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}" if is_installed(value.__name__) else None
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", getattr(value, "__name__", None))
    if isinstance(value, np.ufunc):
        module = "numpy"
    if not isinstance(module, str) or not isinstance(name, str) or not is_installed(module):
        return None
    if isinstance(value, type) and _is_of_c_code(value):
        return f"{module}.{name}"
    found: Any = sys.modules.get(module)
    for attribute in name.split("."):
        found = getattr(found, attribute, None)
    return f"{module}.{name}" if found is value else None


def _reads(code: types.CodeType) -> Iterator[tuple[str, ...]]:
    """Yield the globals that code reads, each once, with the attributes that it takes of them, and what it imports."""
    found: dict[tuple[str, ...], None] = {}
    chain: list[str] = []
    level = 0
    imported: list[str] | None = None

    def end() -> None:
        if chain:
            found[tuple(chain)] = None
            chain.clear()

    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            end()
            chain.append(str(instruction.argval))
        elif name in ("LOAD_ATTR", "LOAD_METHOD") and chain:
            chain.append(str(instruction.argval))
        elif name not in ("CACHE", "PRECALL", "PUSH_NULL", "EXTENDED_ARG", "NOP"):
            end()
        if name == "IMPORT_NAME":
            imported = [f"import {'.' * level}{instruction.argval}"]
            found[tuple(imported)] = None
        elif name == "IMPORT_FROM" and imported is not None:
            found.pop(tuple(imported), None)
            imported.append(str(instruction.argval))
            found[tuple(imported)] = None
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT") and type(instruction.argval) is int:
            level = instruction.argval
    end()
    yield from found


def _stores(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname == "STORE_GLOBAL":
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _stores(constant)


def _codes_of(value: Any) -> Iterator[types.CodeType]:
    """Yield the code of a function, or of the methods of a class."""
    if isinstance(value, types.ModuleType):
        return
    value = _wrapped(value) or value
    if isinstance(value, types.FunctionType):
        yield value.__code__
    elif isinstance(value, type) and not is_installed(value.__module__):
        for inside in vars(value).values():
            function = getattr(inside, "__func__", getattr(inside, "fget", inside))
            if isinstance(function, types.FunctionType):
                yield function.__code__


def _wrapped(value: Any) -> types.FunctionType | None:
    if isinstance(value, types.FunctionType | type):
        return None
    for attribute in _WRAPPED:
        with contextlib.suppress(Exception):  # somebody else's `__getattr__`
            found = getattr(value, attribute, None)
            if isinstance(found, types.FunctionType):
                return found
    return None


def _config(value: Any) -> Any:
    """Return the configuration, and weights, of what is as Keras' objects are; None if it has none."""
    if not is_installed(type(value).__module__) or not callable(getattr(value, "get_config", None)):
        return None
    try:
        # Weights, and what text layers have learnt, are in no configuration.
        learnt = [getattr(value, name)() for name in ("get_weights", "get_vocabulary") if hasattr(value, name)]
        return with_names_numbered(value.get_config(), type(value).__name__), learnt
    except Exception:  # noqa: BLE001 - somebody else's; then its attributes are looked at
        return None


def with_names_numbered(config: Any, kind: str = "") -> Any:
    """Return a configuration of Keras' with numbers for names of layers, which depend on what else a process has made.

    Parameters
    ----------
    config:
        What `get_config` returns, with what is nested in it.
    kind:
        Name of its class. Of dtype policies the name is what they are, so it stays.
    """
    names: dict[str, str] = {}

    def objects(part: Any, named: bool) -> Iterator[Mapping[str, Any]]:
        """Yield the mappings whose `name` is one of a layer or the like."""
        if isinstance(part, Mapping):
            of_class = part.get("class_name")
            own = isinstance(of_class, str) and not _is_dtype_policy(of_class)
            if named or own:
                yield part
            for key, inside in part.items():
                yield from objects(inside, own and key == "config")
        elif isinstance(part, list | tuple):
            for inside in part:
                yield from objects(inside, False)

    def replaced(part: Any, in_links: bool) -> Any:
        if isinstance(part, Mapping):
            found = {key: replaced(inside, in_links or key in _LINKS) for key, inside in part.items()}
            return found if id(part) not in named else {**found, "name": names[part["name"]]}
        if isinstance(part, list | tuple):
            is_link = in_links and len(part) > 2 and isinstance(part[0], str) and type(part[1]) is type(part[2]) is int
            first = [names.get(part[0], part[0])] if is_link else []
            return first + [replaced(inside, in_links) for inside in part[len(first) :]]
        return part

    named = {id(part) for part in objects(config, not _is_dtype_policy(kind)) if _take_name(part, names)}
    return replaced(config, False)


_LINKS = frozenset({"input_layers", "output_layers", "inbound_nodes"})
"""Where a configuration says what a tensor comes from: ``[name of the layer, call, output]``."""


def _is_dtype_policy(kind: str) -> bool:
    return "DTypePolicy" in kind


def _take_name(part: Mapping[str, Any], names: dict[str, str]) -> bool:
    if not isinstance(name := part.get("name"), str):
        return False
    names.setdefault(name, f"name {len(names)}")
    return True


def _array(value: Any) -> Any:
    """Return what is in memory as an array; None if it is none, or would have to be read from somewhere."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if not hasattr(value, "__array__") or not _is_in_memory(type(value)):
        return None
    try:
        return np.asarray(value)
    except Exception:  # noqa: BLE001 - somebody else's, on another device for instance
        return None


def _is_in_memory(kind: type) -> bool:
    return any(base.__module__.partition(".")[0] in _IN_MEMORY for base in kind.__mro__)


def _reduced(value: Any) -> Any:
    """Return what pickle would make an object of C code again from; None if it can't, or if reading it changes it."""
    if isinstance(value, Iterator):
        return None
    try:
        found = value.__reduce_ex__(2)
        return found if isinstance(found, str) else [[*part] if isinstance(part, Iterator) else part for part in found]
    except Exception:  # noqa: BLE001 - somebody else's
        return None


def _is_keras(kind: type) -> bool:
    return any(base.__module__.partition(".")[0] == "keras" for base in kind.__mro__)


def _is_member(value: Any) -> bool:
    return isinstance(
        value,
        types.MemberDescriptorType
        | types.GetSetDescriptorType
        | types.MethodDescriptorType
        | types.MethodWrapperType
        | types.ClassMethodDescriptorType,
    )


def _slots(base: type) -> Iterable[str]:
    slots = vars(base).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else slots
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _order(value: Any) -> str:
    """Return a text to sort values by, the same in any process: no address, nor an order that hashes give, is in it.

    Objects whose text says less than they hold stand behind their kind's name alone.
    """
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return f"{name} {value.__module__}.{value.__qualname__}"
    if isinstance(value, enum.Enum):
        return f"{name} {value.name}"
    if isinstance(value, Mapping):
        return f"{name} {sorted((_order(key), _order(inside)) for key, inside in value.items())}"
    if isinstance(value, Set):
        return f"{name} {sorted(map(_order, value))}"
    if isinstance(value, list | tuple):
        return f"{name} {[*map(_order, value)]}"
    if dataclasses.is_dataclass(value):
        return f"{name} {[_order(getattr(value, field.name, None)) for field in dataclasses.fields(value)]}"
    if isinstance(value, (*_CONTAINERS, np.generic, type(None), *_BY_TEXT)) or kind.__module__ in _BY_TEXT_FROM:
        return f"{name} {value!r}"
    return name


def _frames(data: bytes) -> Iterator[bytes]:
    yield f"{len(data)} ".encode()
    yield data
