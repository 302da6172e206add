"""Walk through all that an object is made of, code and values, in an order that is the same in every process."""

from __future__ import annotations

import collections
import enum
import functools
import hashlib
import importlib
import logging
import os
import random
import re
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from daskevo.code_identity.installed import installed_name, is_installed, is_installed_at, is_of_c_code
from daskevo.code_identity.keras_parts import BOOKS_OF_KERAS, config_of, is_keras
from daskevo.code_identity.made import Made
from daskevo.code_identity.reading_code import codes_of, reads_of, stores_of, wrapped_by
from daskevo.code_identity.values import (
    BY_TEXT,
    BY_TEXT_FROM,
    CONTAINERS,
    SHOWN_IN_FULL,
    array_of,
    frames_of,
    is_in_memory,
    is_member,
    is_plain,
    order_of,
    reduced_of,
    slots_of,
)

_PLACE_OF_CLASS = (
    "__dict__ __weakref__ __module__ __doc__ __qualname__ __firstlineno__ __static_attributes__ __annotations__ "
    "__annotate__ __annotate_func__ __annotations_cache__ __abstractmethods__ _abc_impl __slotnames__"
)

_PLACE_OF_MODULE = "__name__ __file__ __cached__ __loader__ __spec__ __package__ __path__ __builtins__"

_NO_CONTENT = frozenset([*_PLACE_OF_CLASS.split(), *_PLACE_OF_MODULE.split()])
"""Attributes that say where a class or module stands, and what Python adds to it."""

_WITHOUT_CONTENT: tuple[Any, ...] = (
    logging.Logger,
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Condition,
    threading.Event,
    type(vars(collections.namedtuple("_Pair", "first"))["first"]),
)
"""They change nothing of what is computed, or say nothing that their place doesn't."""

_MAPPED = 64 * 2**20
"""Bytes from which only the first and the last MiB of a file that is mapped as an array count."""


class Walk:
    """Visits parts in the order in which they are met; each gets a digest of its own, in which others are numbers.

    So cycles need nothing special, and names count nowhere.
    """

    def __init__(
        self, home: str | None, *, state: bool = False, left_out: Mapping[int, Set[str]] | None = None
    ) -> None:
        self._home = home
        self._state = state
        self._left_out = left_out
        self.assigned: dict[int, set[str]] = {}
        """Globals that the code that was met assigns, by the id of their module's dictionary."""
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
                # Ended by a zero, so that two tokens never read as one.
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
            case _ if is_plain(value):
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
        if self._state and (held := vars(function)):
            yield from self.value(held, name)
        home = str(function.__globals__.get("__name__", ""))
        if is_installed_at(function.__code__.co_filename) or is_installed(home):
            return
        self._files[function.__code__.co_filename] = None
        if home:
            self._modules[home] = None
        if stored := stores_of(function.__code__):
            self.assigned.setdefault(id(function.__globals__), set()).update(stored)
            self._kept.append(function.__globals__)
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
        for chain in reads_of(code):
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
        elif is_plain(value):
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

    def _rebound_in(self, scope: dict[str, Any]) -> Set[str]:
        """Return the globals that functions of a module assign while they run: state of a process, not its program."""
        if self._state:
            return frozenset()
        if self._left_out is not None:
            return self._left_out.get(id(scope), frozenset())
        if id(scope) not in self._rebound:
            codes = [code for value in [*scope.values()] for code in codes_of(value)]
            self._rebound[id(scope)] = frozenset(name for code in codes for name in stores_of(code))
            self._kept.append(scope)
        return self._rebound[id(scope)]

    def _class(self, made: type, name: str) -> Iterator[Any]:
        yield "class"
        self._modules[made.__module__] = None
        yield from self.value(type(made), name)
        # Not the whole __mro__: each base is a part that names its own bases.
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
        if kind in SHOWN_IN_FULL or value is Ellipsis or value is NotImplemented:
            yield f"{kind.__name__} {value!r}"
            return
        if isinstance(value, types.FunctionType | type | types.ModuleType):
            if (found := installed_name(value)) is not None:
                yield found
            else:
                yield self.part(value, self._own_name(value, name))
            return
        if is_plain(value):
            if id(value) in self._inside:
                # A container inside itself: it is named by how many levels further out it stands.
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
                yield next(kind.__repr__(value) for kind in CONTAINERS if isinstance(value, kind))
            case bytes() | bytearray() | memoryview():
                yield from frames_of(bytes(value))
            case Mapping():
                yield len(value)
                for key, inside in sorted(value.items(), key=lambda item: order_of(item[0])):
                    yield from self.value(key, name)
                    yield from self.value(inside, f"{name}[{key!r:.40}]")
            case Set():
                yield len(value)
                ordered = sorted((order_of(inside), number, inside) for number, inside in enumerate(value))
                for (order, _, inside), (before, *_) in zip(ordered, [("",), *ordered], strict=False):
                    if order == before:
                        # Which of the two comes first, an address decides.
                        self._not_known(inside, f"the order of {name}")
                    yield from self.value(inside, name)
            case list() | tuple() if {type(inside) for inside in value} <= SHOWN_IN_FULL:
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
        if (found := installed_name(value)) is not None:
            yield found
            return
        if isinstance(value, types.BuiltinFunctionType) or is_member(value):
            yield from self._compiled(value, name)
            return
        yield from self.value(kind, kind.__qualname__)
        # A layer's tracker knows what the layer holds by addresses.
        if isinstance(value, _WITHOUT_CONTENT) or (kind.__name__ == "Tracker" and is_keras(kind)):
            return
        if isinstance(value, enum.Enum):
            yield value.name
        elif isinstance(value, Path):
            yield self._placed(str(value))
        elif isinstance(value, BY_TEXT) or kind.__module__.partition(".")[0] in BY_TEXT_FROM:
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
        elif (array := array_of(value)) is not None:
            yield from self._of_array(array, name)
            if not is_installed(kind.__module__) and isinstance(value, np.ndarray):
                yield from self._held(value, name)
            if kind.__module__.partition(".")[0] == "pandas":
                yield from self.value([getattr(value, part, None) for part in ("index", "columns", "name")], name)
        elif hasattr(value, "__array__") and is_installed(kind.__module__) and not is_in_memory(kind):
            # Arrays on disk or in a cluster (h5py, zarr, Dask): reading them could take hours.
            yield str((getattr(value, "shape", None), getattr(value, "dtype", None)))
            self._not_known(value, name)
        elif is_installed(kind.__module__) and (function := wrapped_by(value)) is not None:
            yield from self.value(function, name)
        elif (config := config_of(value)) is not None:
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
        if isinstance(value, (*CONTAINERS, collections.deque)):
            yield from self._inside_of(value, name)
        elif any(is_of_c_code(base) for base in kind.__mro__[:-1]):
            if (reduced := reduced_of(value)) is None:
                self._not_known(value, name)
            else:
                yield from self.value(reduced, name)
        yield from self._held(value, name)

    def _held(self, value: Any, name: str) -> Iterator[Any]:
        kind = type(value)
        attributes = dict(getattr(value, "__dict__", {}))
        for slot in (slot for base in kind.__mro__ for slot in slots_of(base)):
            if hasattr(value, slot):
                attributes[slot] = getattr(value, slot)
        left_out = _NO_CONTENT | BOOKS_OF_KERAS if is_keras(kind) else _NO_CONTENT
        # Attributes of daskevo's own objects that only remember what they were asked, as `Builder` declares them.
        left_out |= getattr(kind, "__daskevo_remembers__", frozenset())
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
        own = own_name(value)
        return name if own is None else own if isinstance(value, types.ModuleType) else self._say(value.__module__, own)

    def _say(self, module: str | None, name: str) -> str:
        return name if module in (None, "", "__main__", self._home) else f"{module}.{name}"


def own_name(value: Any) -> str | None:
    found = getattr(value, "__qualname__", None) or (
        getattr(value, "__name__", None) if isinstance(value, types.ModuleType) else None
    )
    return found.replace("<locals>.", "") if isinstance(found, str) else None
