"""The contract of problems: ours keep it, and each promise can be broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import InvalidProblem, UnknownProblem
from daskevo_workflows.problems import check_problem
from tests.workflows import tiny

GOOD = Path(tiny.__file__).read_text()


@pytest.mark.parametrize("name", ["tiny", "digits", "attn"])
def test_ours_keep_the_contract(name: str) -> None:
    if name == "tiny":
        assert check_problem(tiny.__file__, candidates=2).name == "tiny"
        return
    settings: dict[str, Any] = {"samples": 256, "features": 96, "widths": (50, 75)} if name == "attn" else {}
    assert check_problem(name, candidates=1, batches=1, **settings).name == name


START = '    import keras\n\n    if FAULTS.get(choices["second"]) == "build"'
END = '    return keras.Model(inputs, keras.layers.Dense(2, "softmax")(tensor))\n'
SCORE = 'return {"val_accuracy": float(np'
COMPILE = "    model.compile("
LOST = '    model.layers[2].bias.assign([float("nan")] * model.layers[2].units)\n'
BROKEN = {
    "compiled": (END, END.replace("return", "m =") + "    m.compile()\n    return m\n", "uncompiled"),
    "another architecture": ('choices["first"], choices', "next(SIZES), choices", "same architecture"),
    "no model": (END, "    return str(tensor)\n", "keras.Model, not str"),
    "raises in build": (START, "    import keras\n\n    if True", "build() raised"),
    "raises in data": ('if DATA == "no data"', "if True", "data() raised FileNotFoundError"),
    "other data": ('if DATA == "other data"', "if True", "must return Data, not dict"),
    "unequal": ("Data((x[:64], y[:64])", "Data((x[:64], y[:63])", "as many samples"),
    "nothing to score with": ("(x[64:], y[64:]))", "(x[96:], y[96:]))", "no samples"),
    "gaps": ("Data((x[:64], y[:64])", "Data((x[:64] * np.nan, y[:64])", "the loss is nan at the end of training"),
    "other metrics": (SCORE, 'return {"accuracy": float(np', "must return 'val_accuracy'"),
    "no number": (SCORE, 'return {"val_accuracy": str(np', "must be a number"),
    "thaws": (COMPILE, "    model.layers[1].trainable = True\n" + COMPILE, "leave frozen layers frozen"),
    "nan": (SCORE, 'return {"val_accuracy": float("nan") or (np', "must be finite, not nan"),
    "inf": (SCORE, 'return {"val_accuracy": float("-inf") or (np', "must be finite, not -inf"),
    "beyond a float": (SCORE, 'return {"val_accuracy": 10**400 or (np', "must be finite, not 1000"),
    "too long to be shown": (SCORE, 'return {"val_accuracy": 10**5000 or (np', "type int that can't be shown"),
    "nan weights": (
        "    x, y = data.validation\n",
        LOST + "    x, y = data.validation\n",
        "hold values that are no numbers",
    ),
    "a name that is no text": (
        SCORE,
        'return {"\\ud800": 1.0, "val_accuracy": float(np',
        "can't be stored: the names of",
    ),
    "a name that can't be read": (
        SCORE,
        'return {Unnamed(): 1.0, "val_accuracy": float(np',
        "reading them raised ArithmeticError",
    ),
    "state that is neither weight nor setting": (
        'keras.layers.Dense(2, "softmax")(tensor)',
        'Counting(2, activation="softmax")(tensor)',
        "must predict what it did",
    ),
    "state saved by a hook": (
        'keras.layers.Dense(2, "softmax")(tensor)',
        'Hooked(2, activation="softmax")(tensor)',
        "saves 'seen' (save_own_variables)",
    ),
    "not compiled": (COMPILE, "    (lambda *a, **k: None)(", "compile(), fit() or score() raised"),
}
"""What is broken -> words of a good problem, what stands in their place, what is said."""


UNNAMED = """
import keras
import numpy as np
import tensorflow as tf


@keras.saving.register_keras_serializable("test_problem_contract")
class Counting(keras.layers.Dense):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.calls = tf.Variable(0.0, trainable=False)

    def call(self, x, training=False):
        if training:
            self.calls.assign_add(1.0)
        return super().call(x) + self.calls


@keras.saving.register_keras_serializable("test_problem_contract")
class Hooked(keras.layers.Dense):
    def save_own_variables(self, store):
        super().save_own_variables(store)
        store["seen"] = np.ones(3)

class Unnamed:
    def __str__(self):
        raise ArithmeticError("no name")
"""


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_promise_is_named(fault: str, tmp_path: Path) -> None:
    old, new, said = BROKEN[fault]
    assert GOOD.count(old) == 1, old
    source = GOOD.replace(old, new) + "\nimport itertools\nSIZES = itertools.count(3)\n" + UNNAMED
    (tmp_path / "broken.py").write_text(source)
    with pytest.raises(InvalidProblem) as caught:
        check_problem(tmp_path / "broken.py", candidates=1)
    assert said in str(caught.value)


def test_a_score_that_needs_more_samples_is_that_of_all(tmp_path: Path) -> None:
    """As an AUC is nan where a few samples are all of one class."""
    old = "    x, y = data.validation\n"
    source = GOOD.replace(old, old + '    if len(y) < 32:\n        return {"val_accuracy": float("nan")}\n')
    (tmp_path / "few.py").write_text(source)
    check_problem(tmp_path / "few.py", candidates=1, batches=1)


def test_what_is_no_problem() -> None:
    with pytest.raises(UnknownProblem):
        check_problem("nowhere.py")
    with pytest.raises(InvalidProblem, match="missing or wrong"):
        check_problem(object())  # type: ignore[arg-type]
