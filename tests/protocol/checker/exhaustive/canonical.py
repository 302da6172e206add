"""Values by number, and how they look when only the order of their ticks counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import GeneratorType
from typing import Any

from daskevo.types import Tick

Form = Any
"""A value as nested tuples: equal for equal values, hashable, ticks still in it."""


def form_of(value: Any) -> Form:
    """Return a value's form; sets and mappings in the order of their items."""
    kind: type[Any] = type(value)
    if value is None or kind is str or kind is int or kind is Tick:
        return value
    if kind is bool:
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        return ("", *map(form_of, value))
    if isinstance(value, Mapping):
        return ("map", *sorted(((form_of(key), form_of(item)) for key, item in value.items()), key=_order))
    if isinstance(value, (set, frozenset)):
        return ("set", *sorted(map(form_of, value), key=_order))
    if is_dataclass(value):
        return (kind.__name__, *(form_of(getattr(value, name)) for name in _fields(kind)))
    if callable(value):
        return str(value.__qualname__)
    if isinstance(value, GeneratorType):
        return tuple(frames_of(value))
    raise TypeError(f"{kind.__name__} has no canonical form")


def frames_of(run: object) -> Iterator[Form]:
    """Yield the frames of a generator and of those that it has handed over to: code, instruction, locals."""
    while isinstance(run, GeneratorType):
        frame = run.gi_frame
        if frame is None:
            yield "ended"
            return
        seen = {name: value for name, value in frame.f_locals.items() if name != "stage"}
        yield run.gi_code.co_qualname, frame.f_lasti, form_of(seen)
        run = run.gi_yieldfrom


class Values:
    """Values that states are made of: equal ones have one number.

    Attributes
    ----------
    values
        The values by number, not to be changed.
    looks
        By number of the value: the number of what it looks like with its ticks renamed by order, and its ticks in
        order. Values whose first parts are equal differ in nothing but the ticks themselves.
    """

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.forms: list[Form] = []
        self.looks: list[tuple[int, tuple[Tick, ...]]] = []
        self._numbers: dict[Form, int] = {}
        self._skeletons: dict[Form, int] = {}

    def add(self, value: object, form: Form = None, look: Form = None) -> int:
        """Return the number of a value. `look`: its form without what no further step depends on."""
        form = form_of(value) if form is None else form
        number = self._numbers.get(form)
        if number is None:
            number = self._numbers[form] = len(self.values)
            self.values.append(value)
            self.forms.append(form)
            look = form if look is None else look
            ticks: set[Tick] = set()
            _collect(look, ticks.add)
            ordered = tuple(sorted(ticks))
            places = {tick: ("tick", place) for place, tick in enumerate(ordered)}
            skeleton = _renamed(look, places)
            self.looks.append((self._skeletons.setdefault(skeleton, len(self._skeletons)), ordered))
        return number


def _fields(kind: type[Any]) -> tuple[str, ...]:
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(field.name for field in fields(kind))
    return _FIELDS[kind]


_FIELDS: dict[type[Any], tuple[str, ...]] = {}
_KINDS: dict[type, int] = {type(None): 0, str: 1, int: 2, Tick: 3, tuple: 4}


def _order(form: Form) -> tuple[Any, ...]:
    """Return what puts forms in an order that depends on ticks by their order alone."""
    kind = type(form)
    if kind is tuple:
        return (4, *map(_order, form))
    return (_KINDS[kind], 0 if form is None else form)


def _collect(form: Form, found: Callable[[Tick], None]) -> None:
    if type(form) is Tick:
        found(form)
    elif type(form) is tuple:
        for part in form:
            _collect(part, found)


def _renamed(form: Form, names: Mapping[Tick, Form]) -> Form:
    if type(form) is Tick:
        return names[form]
    if type(form) is tuple:
        return tuple(_renamed(part, names) for part in form)
    return form
