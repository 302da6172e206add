"""From a problem's `build` to its candidates: what it raises, what it returns, and what is said of that."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.errors import CandidateRejected, InvalidInput, InvalidProblem
from daskevo.types import Objective
from daskevo_workflows.evaluation.failures import failure_of, say_error, user_code
from daskevo_workflows.problems import load_problem
from daskevo_workflows.problems.building import build_candidate, check_builds, graph_and_key, graph_of, space_of
from tests.logs import said_by_daskevo

FILE = """
import keras
from daskevo_workflows.problems import Data

name, objective, epochs, batch_size = "mine", "max val_accuracy", 1, 8

def build(choose):
    inputs = keras.Input((4,))
    tensor = keras.layers.Dense(choose("units", (2, 3)))(inputs)
    {line}

def data(): return Data((0, 0), (0, 0))
def compile(model): pass
def score(model, data): return {{}}
"""
RETURN = "return keras.Model(inputs, tensor)"


COMPILE = """
import weakref
class Settings: rate = None
RATE, KEPT, BY_MODEL = None, {}, weakref.WeakKeyDictionary()
def compile(model): model.compile(keras.optimizers.SGD((RATE, KEPT, BY_MODEL, build.rate, Settings.rate)[0]), "mse")
"""


def problem_of(folder: Path, line: str, more: str = "") -> Any:
    path = folder / "mine.py"
    path.write_text(FILE.format(line=line) + more)
    return load_problem(path)


def test_a_file_with_build_alone_is_a_problem(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, RETURN)
    space = space_of(problem)
    assert str(space.size) == "2"
    candidate = space.candidate({"units": 3})
    assert build_candidate(problem, candidate).output_shape == (None, 3)
    assert graph_of(problem, candidate).parameters == 15


def test_what_does_not_fit_is_drawn_again_and_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    problem = problem_of(tmp_path, f"keras.layers.Add()([tensor, keras.Input((2,))]); {RETURN}")
    space, rng = space_of(problem), np.random.default_rng(0)
    with caplog.at_level(logging.WARNING):
        drawn = {space.sample(rng) for _ in range(20)}
    assert drawn == {space.candidate({"units": 2})}
    (said,) = said_by_daskevo(caplog)
    assert "drawn again, because build() raised ValueError" in said
    assert "(3,)" in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("keras.layers.Dens(3)", "AttributeError.*Dens"),
        (f"m = keras.Model(inputs, tensor); m.compile('adam', 'mse'); {RETURN}", "uncompiled model"),
    ],
)
def test_a_build_that_never_works_is_one_named_error(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(CandidateRejected, match=f"(?s)100 candidates in a row.*{said}"):
        space_of(problem_of(tmp_path, line)).sample(np.random.default_rng(0))


@pytest.mark.parametrize(("line", "found"), [("pass", "NoneType: does it end"), ("return inputs", "KerasTensor")])
def test_a_build_that_returns_no_model_is_told_so(tmp_path: Path, line: str, found: str) -> None:
    problem = problem_of(tmp_path, line)
    with pytest.raises(InvalidProblem, match=rf"must return a keras\.Model, not {found}"):
        build_candidate(problem, space_of(problem).sample(np.random.default_rng(0)))


def test_options_that_are_no_list_are_named(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, f"choose('layers', 3); {RETURN}")
    with pytest.raises(InvalidInput, match="choice 'layers' needs its options as a tuple"):
        space_of(problem).sample(np.random.default_rng(0))


def test_of_an_error_in_a_graph_the_point_is_said() -> None:
    """TensorFlow lists where the graph was made, a page of it, before it says what is wrong."""
    place = 'File "/usr/lib/keras/trainer.py", line 399, in fit\n\n'
    message = f"Graph execution error:\n\nDetected at node loss defined at (most recent call last):\n{place * 30}"
    error = ValueError(message + "Received a label value of 2 which is outside the valid range of [0, 2).")
    assert say_error(error) == "ValueError: Received a label value of 2 which is outside the valid range of [0, 2)."


def test_of_an_error_in_a_layer_the_point_is_said() -> None:
    """Keras writes for a terminal, and lists all that the layer was given."""
    message = (
        "Exception encountered when calling Functional.call().\n\n\x1b[1mInvalid input shape: (8, 16, 16, 1)\x1b[0m\n\n"
        "Arguments received by Functional.call():\n  • training=True\n  • mask=None"
    )
    words = "Exception encountered when calling Functional.call(). Invalid input shape: (8, 16, 16, 1)"
    assert say_error(ValueError(message)) == f"ValueError: {words}"


def test_where_it_was_raised_is_said(tmp_path: Path) -> None:
    """The line of the problem's own file, not one of a library that it calls; of daskevo's own, none."""
    code = compile("import json\n\ndef score():\n    return json.loads('{')\n", str(tmp_path / "mine.py"), "exec")
    module: dict[str, Any] = {}
    exec(code, module)
    words = r"score\(\) raised JSONDecodeError: .* \(mine\.py, line 4, in score\)$"
    with pytest.raises(InvalidProblem, match=words), user_code("score()"):
        module["score"]()
    with pytest.raises(ValueError, match="Expecting") as caught:
        module["score"]()
    assert failure_of(caught.value).message.endswith(" (mine.py, line 4, in score)")
    with pytest.raises(InvalidInput) as ours:
        Objective.parse("nonsense")
    ours.value.__traceback__ = ours.value.__traceback__.tb_next  # type: ignore[union-attr]
    assert " in parse)" not in failure_of(ours.value).message


def test_a_build_that_always_raises_is_said_with_the_first_cause(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, "raise ValueError(f'no layer of {tensor.shape[1]} units')")
    words = r"the first because build\(\) raised ValueError: no layer of 2 units\. The first has units=2\."
    with pytest.raises(InvalidProblem, match=words) as caught:
        check_builds(problem)
    assert caught.value.choices == {"units": 2}


@pytest.mark.parametrize("line", [RETURN, f"assert tensor.shape[1] == 3; {RETURN}", "return None"])
def test_one_that_builds_something_is_searched(tmp_path: Path, line: str) -> None:
    check_builds(problem_of(tmp_path, line))


def test_a_build_that_exits_ends_nobody(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match="SystemExit: 3"):
        check_builds(problem_of(tmp_path, "raise SystemExit(3)"))


def test_a_candidate_that_is_built_again_has_the_same_key_and_leaves_no_names(tmp_path: Path) -> None:
    import keras

    from daskevo.models.keras_private import names_given_back

    line = "return keras.Model(inputs, keras.ops.relu(tensor) + keras.layers.Dense(2, name='last')(tensor))"
    problem = problem_of(tmp_path, line)
    candidate = space_of(problem).candidate({"units": 2})
    with names_given_back():
        name = keras.layers.Dense(1).name
    keys = {graph_and_key(problem, candidate)[1] for _ in range(3)}
    assert len(keys) == 1
    assert keras.layers.Dense(1).name == name


@pytest.mark.parametrize(
    "left",
    [
        "global RATE; RATE = choose('rate', (0.1, 0.2))",
        "KEPT['rate'] = choose('rate', (0.1, 0.2))",
        "build.rate = choose('rate', (0.1, 0.2))",
        "Settings.rate = choose('rate', (0.1, 0.2))",
        "BY_MODEL[inputs] = choose('rate', (0.1, 0.2))",
    ],
)
def test_candidates_of_a_build_that_leaves_something_to_compile_are_no_duplicates(tmp_path: Path, left: str) -> None:
    problem = problem_of(tmp_path, f"{left}; {RETURN}", COMPILE)
    space = space_of(problem)
    one, other = (space.candidate({"units": 2, "rate": rate}) for rate in (0.1, 0.2))
    keys = [graph_and_key(problem, candidate) for candidate in (one, other, one, other)]
    assert len({graph.ids for graph, _ in keys}) == 1
    assert not {key for _, key in keys[::2]} & {key for _, key in keys[1::2]}


def test_candidates_of_an_object_that_remembers_its_choices_are_no_duplicates() -> None:
    import keras

    class Remembering:
        name, objective, epochs, batch_size = "remembering", "max val_accuracy", 1, 8

        def build(self, choose: Any) -> Any:
            self.rate = choose("rate", (0.1, 0.2))
            inputs = keras.Input((4,))
            return keras.Model(inputs, keras.layers.Dense(2)(inputs))

        def compile(self, model: Any) -> None:
            model.compile(keras.optimizers.SGD(self.rate), "mse")

    problem: Any = Remembering()
    space = space_of(problem)
    keys = {graph_and_key(problem, space.candidate({"rate": rate}))[1] for rate in (0.1, 0.2)}
    assert len(keys) == 2


def test_a_build_that_reads_what_is_there_has_duplicates(tmp_path: Path) -> None:
    # Layers that all candidates have in common, what is worked out once, a choice without effect.
    line = f"choose('none', (1, 2)); tensor = made(2)(common(tensor)); {RETURN}"
    more = """
import functools
common = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2), keras.layers.Dropout(0.5)])
common.trainable = False
@functools.cache
def size(units): return units
def made(units): return keras.layers.Dense(size(units))
def compile(model): model.compile("sgd", "mse")
"""
    problem = problem_of(tmp_path, line, more)
    space = space_of(problem)
    keys = {graph_and_key(problem, space.candidate({"units": 2, "none": none}))[1] for none in (1, 2)}
    assert len(keys) == 1


LOADED = """
import numpy as np
def load(layer, kind):
    shapes = [weight.shape for weight in layer.weights]
    if kind == "file": layer.set_weights([np.full(shape, 0.5) for shape in shapes])
    if kind == "draw": layer.set_weights([np.random.normal(size=shape) for shape in shapes])
"""


def test_weights_that_build_loads_are_told_from_those_that_it_draws(tmp_path: Path) -> None:
    line = "d = keras.layers.Dense(3); tensor = d(tensor); load(d, choose('kind', ('fresh', 'file', 'draw')))"
    problem = problem_of(tmp_path, f"{line}; {RETURN}", LOADED)
    space = space_of(problem)
    found = {
        (units, kind): graph_and_key(problem, space.candidate({"units": units, "kind": kind}))[0]
        for units in (2, 3)
        for kind in ("fresh", "file", "draw")
    }
    assert [list(graph.starts) for graph in found.values()] == [[], [2], []] * 2
    assert found[2, "fresh"].ids == found[2, "draw"].ids != found[2, "file"].ids
    assert graph_of(problem, space.candidate({"units": 2, "kind": "file"})) == found[2, "file"]
