"""What code is made of: equal for equal code wherever it stands, another for whatever it calls or reads."""

from __future__ import annotations

import functools
import math
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.code_identity import digest_of, is_installed, made_of

SOURCE = """
import math
import numpy as np
import helper
WIDTH = 8
TABLE = np.arange(4)
def doubled(x):
    return 2 * x
class Base:
    rate = 0.1
    def scale(self, x):
        return doubled(x) * self.rate
class Problem(Base):
    def __init__(self):
        self.weights = np.zeros(3)
    def build(self, choices):
        from helper import depth
        return [WIDTH, TABLE, helper.units(), depth, math.sqrt(2), (lambda x: x + 1)(2)]
problem = Problem()
"""
HELPER = """
def units():
    return UNITS
UNITS = 4
depth = 2
unused = 1
"""


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def made(source: str = SOURCE, helper: str = HELPER) -> Any:
        beside, module = types.ModuleType("helper"), types.ModuleType("own")
        exec(helper, vars(beside))
        monkeypatch.setitem(sys.modules, "helper", beside)
        exec(source, vars(module))
        return module.problem

    return made


def test_the_same_code_made_again_is_the_same(load: Callable[..., Any]) -> None:
    assert digest_of(load()) == digest_of(load()) is not None
    moved = "# moved down, and commented\n\n\n" + SOURCE.replace("    return 2", "    # twice\n    return 2")
    assert digest_of(load(moved)) == digest_of(load())


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("WIDTH = 8", "WIDTH = 16", "WIDTH"),
        ("np.arange(4)", "np.arange(4.0)", "TABLE"),
        ("np.arange(4)", "np.array([0, 1, 2, 4])", "TABLE"),
        ("2 * x", "3 * x", "doubled"),
        ("rate = 0.1", "rate = 0.2", "Base"),
        ("np.zeros(3)", "np.ones(3)", "value.weights"),
        ("x + 1", "x + 2", "Problem.build"),
        ("math.sqrt(2)", "math.log(2)", "Problem.build"),
    ],
)
def test_what_it_calls_and_reads_counts(load: Callable[..., Any], old: str, new: str, name: str) -> None:
    before, after = made_of(load(), home="own"), made_of(load(SOURCE.replace(old, new)), home="own")
    assert before.digest != after.digest
    assert next(part for part in before.parts if before.parts[part] != after.parts.get(part)) == name


@pytest.mark.parametrize(("old", "new"), [("UNITS = 4", "UNITS = 5"), ("return UNITS", "return 4"), ("h = 2", "h = 3")])
def test_modules_of_ones_own_count_as_far_as_they_are_used(load: Callable[..., Any], old: str, new: str) -> None:
    before = made_of(load())
    assert before.digest != made_of(load(helper=HELPER.replace(old, new))).digest
    assert before.digest == made_of(load(helper=HELPER.replace("unused = 1", "unused = 2"))).digest
    assert "helper" in before.modules


def closure(value: Any) -> Callable[[], Any]:
    return lambda: value


def test_closures_and_defaults_count_and_names_dont() -> None:
    def one(x: int = 1) -> int:
        return x

    def other(x: int = 1) -> int:
        return x

    def default(x: int = 2) -> int:
        return x

    assert digest_of(one) == digest_of(other) != digest_of(default)
    assert digest_of(closure(1)) == digest_of(closure(1)) != digest_of(closure(2))
    assert digest_of(closure(True)) != digest_of(closure(1)), "equal in Python, and not the same"
    assert digest_of(functools.partial(one, x=3)) != digest_of(functools.partial(one, x=4))
    assert digest_of(functools.lru_cache(one)) != digest_of(functools.lru_cache(default))


def test_what_runs_itself_or_holds_itself_ends() -> None:
    def even(n: int) -> bool:
        return n == 0 or odd(n - 1)

    def odd(n: int) -> bool:
        return n != 0 and even(n - 1)

    inside: list[Any] = [1]
    inside.append(inside)
    again: list[Any] = [1]
    again.append(again)
    assert digest_of(even) is not None
    assert digest_of(inside) == digest_of(again) is not None


def test_what_a_function_rebinds_is_no_part_of_it() -> None:
    scope: dict[str, Any] = {"__name__": "own"}
    exec("calls = 0\ndef count():\n    global calls\n    calls += 1\n    return calls", scope)
    before = digest_of(scope["count"])
    scope["count"]()
    assert digest_of(scope["count"]) == before


@pytest.mark.parametrize("value", [abs, math.sqrt, np.tanh, np.concatenate, np.dtype("f4"), Path("x"), len, "x".upper])
def test_what_is_installed_goes_by_its_name(value: Any) -> None:
    assert digest_of(value) is not None
    assert digest_of(value) != digest_of(np.sin)


def test_what_cant_be_looked_into_is_said(tmp_path: Path) -> None:
    with (tmp_path / "table").open("w") as file:
        made = made_of(closure([file]))
        assert made.unknown == ("value of closure.<lambda>[0] (of _io.TextIOWrapper)",)
        assert digest_of(file) is None


def test_masks_types_and_order_of_arrays_count() -> None:
    values = np.arange(6.0).reshape(2, 3)
    found = [values, values.T, values.astype("f4"), values.reshape(3, 2), np.ma.masked_equal(values, 1)]
    digests = [digest_of(one) for one in [*found, np.ma.masked_equal(values, 2)]]
    assert len({*digests}) == len(digests)
    assert digest_of(np.asfortranarray(values)) == digests[0]


def test_installed_and_own_modules_are_told_apart() -> None:
    assert all(map(is_installed, ["json", "numpy.linalg", "keras.src.layers", "daskevo.types", "sys", "hypothesis"]))
    assert not any(map(is_installed, ["__main__", "nowhere_at_all", __name__]))
