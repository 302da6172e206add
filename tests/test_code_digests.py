"""Digests are those of what is there: not of hash seeds, addresses, places or names, and nothing is read for them."""

from __future__ import annotations

import array
import functools
import operator
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.code_identity import digest_of, made_of

SETS = """
import dataclasses
from daskevo.code_identity import made_of
@dataclasses.dataclass(frozen=True)
class Op:
    inputs: frozenset
several = [frozenset(letter + str(number) for letter in "abcd") for number in range(6)]
KEYS = {("conv", one): number for number, one in enumerate(several)}
SETS = {*several}
OPS = {Op(one) for one in several}
WORDS = {word for one in several for word in one}
KINDS = {Op, int, str, max, len}
def data():
    return KEYS, SETS, KINDS, OPS, WORDS
made = made_of(data)
print(made.digest, made.unknown)
for values in (KEYS, SETS, OPS):
    print([number for text in sorted(map(repr, values)) for number in "012345" if f"a{number}'" in text])
print([*WORDS])
"""


def test_hash_seeds_dont_count() -> None:
    """Orders that seeds do change, by which a digest once went: by text, and as sets are walked through."""
    said = []
    for seed in ("1", "2", "3", "4"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = [sys.executable, "-c", SETS]
        said.append(
            subprocess.run(run, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()
        )
    digests, *orders = zip(*said, strict=True)
    assert len({*digests}) == 1
    assert digests[0].endswith(" ()")
    assert min(len({*order}) for order in orders) > 1


def test_sets_that_only_addresses_order_are_unknown() -> None:
    class Op:
        pass

    assert made_of({Op()}).unknown == ()
    assert len(made_of({Op(), Op(), Op()}).unknown) == 1
    assert made_of({Op(): 1, Op(): 2}).unknown == (), "dictionaries have an order of their own"
    assert digest_of({Op(): 1, Op(): 2}) != digest_of({Op(): 2, Op(): 1})


@functools.singledispatch
def shown(value: Any) -> str:
    return str(value)


@shown.register
def _(value: int) -> str:
    return hex(value)


@pytest.mark.parametrize(
    ("make", "other"),
    [
        (lambda: operator.itemgetter(1), lambda: operator.itemgetter(2)),
        (lambda: array.array("i", [1, 2]), lambda: array.array("i", [1, 3])),
        (lambda: ValueError("one"), lambda: ValueError("other")),
        (lambda: shown, lambda: functools.singledispatch(str)),
        (lambda: np.array([(1, 2.0)], "i1,f8"), lambda: np.array([(1, 3.0)], "i1,f8")),
    ],
)
def test_usual_values_of_c_code_are_known(make: Callable[[], Any], other: Callable[[], Any]) -> None:
    assert digest_of(make()) == digest_of(make()) is not None
    assert digest_of(make()) != digest_of(other()) is not None


def test_what_a_dispatched_function_has_looked_up_doesnt_count() -> None:
    before = digest_of(shown)
    shown(True)
    assert digest_of(shown) == before


def test_values_of_tensorflow_and_fitted_trees_are_known() -> None:
    import tensorflow as tf
    from sklearn.ensemble import RandomForestClassifier

    def cast(values: Any, dtype: Any = tf.float32) -> Any:
        return tf.cast(values, dtype)

    def fitted(seed: int) -> Any:
        rows = np.arange(20.0).reshape(10, 2)
        return RandomForestClassifier(2, random_state=seed).fit(rows, [0, 1] * 5)

    assert digest_of(cast) is not None
    assert digest_of(tf.float32) != digest_of(tf.float16)
    features = [tf.io.FixedLenFeature([], kind) for kind in (tf.int64, tf.string)]
    assert None is not digest_of(features[0]) != digest_of(features[1])
    assert digest_of(tf.TensorSpec((1,))) == digest_of(tf.TensorSpec((1,))) != digest_of(tf.TensorSpec((2,)))
    assert digest_of(fitted(1)) == digest_of(fitted(1)) != digest_of(fitted(2))
    assert digest_of(tf.data.Dataset.range(3)) is None
    assert digest_of(iter([1])) is None


class Elsewhere:
    """Rows that have to be read from somewhere."""

    __module__ = "h5py"
    shape = (3,)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("nothing is read")


def test_arrays_that_are_not_in_memory_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["rows"] = np.arange(5)
        monkeypatch.setattr(h5py.Dataset, "__array__", Elsewhere.__array__)
        assert len(made_of([file["rows"]]).unknown) == 1
    assert made_of([Elsewhere()]).unknown == ("value[0] (of h5py.Elsewhere)",)


def test_of_large_mapped_files_the_ends_count(tmp_path: Path) -> None:
    def digest(at: int | None) -> str | None:
        rows = np.lib.format.open_memmap(tmp_path / "rows.npy", "w+", "f8", (1100, 8192))
        if at is not None:
            rows[at] = 1
        return digest_of(rows)

    assert digest(None) == digest(500)
    assert len({digest(None), digest(0), digest(-1)}) == 3


PLACED = """
import os
from pathlib import Path
HERE = Path(__file__).parent
TABLE = HERE / "table.csv"
TEXT = os.path.join(os.path.dirname(__file__), "table.csv")
def problem():
    return Path(__file__).parent, __name__, HERE, TABLE, TEXT
"""


def test_where_a_file_stands_and_what_it_is_called_doesnt_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest(folder: str, table: str = "table.csv") -> str:
        module = types.ModuleType(f"problem_of_{folder}")
        module.__file__ = str(tmp_path / folder / "mine.py")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(PLACED.replace("table.csv", table), vars(module))
        return made_of(module.problem, home=module.__name__).digest

    assert digest("one") == digest("other") != digest("one", "rows.csv")


def test_what_decorators_hold_counts() -> None:
    class Scaled:
        def __init__(self, function: Any, by: int) -> None:
            functools.update_wrapper(self, function)
            self.by = by

    def double(x: int) -> int:
        return 2 * x

    def triple(x: int) -> int:
        return 3 * x

    digests = [digest_of(Scaled(*parts)) for parts in ((double, 2), (double, 3), (triple, 2))]
    assert len({*digests}) == 3
    assert digest_of(Scaled(double, 2)) == digests[0] is not None


def test_attributes_of_arrays_of_ones_own_count() -> None:
    class Measured(np.ndarray[Any, Any]):
        unit = ""

    def of(unit: str) -> Any:
        rows = np.arange(3.0).view(Measured)
        rows.unit = unit
        return rows

    assert digest_of(of("m")) == digest_of(of("m")) != digest_of(of("km"))


def test_layers_and_metrics_of_ones_own_are_the_same_when_they_are_made_again() -> None:
    import keras

    class Noise(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self, rate: float) -> None:
            super().__init__()
            self.rate = rate
            self.inner = keras.layers.Dense(3)

    class Sum(keras.metrics.Metric):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.total = self.add_variable((), "zeros", name="total")

    first = digest_of(Noise(0.1))
    assert digest_of(Noise(0.1)) == first != digest_of(Noise(0.2))
    assert first is not None
    assert digest_of(Sum()) == digest_of(Sum()) is not None
