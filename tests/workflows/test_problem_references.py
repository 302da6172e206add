"""Naming, finding and telling problems apart; files of one's own; bad files."""

from __future__ import annotations

import gc
import pickle
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import InvalidProblem, UnknownProblem
from daskevo.space import Choice, Space
from daskevo_workflows.problems import BUILT_IN, Data, Problem, load_problem, refer
from daskevo_workflows.problems.reference import data_of

GOOD = """
from daskevo.space import Choice, Space
from daskevo_workflows.problems import Data

name = "mine"
objective = "min val_loss"
epochs, batch_size = 2, 8

def space():
    return Space("mine", (Choice("units", (1, 2)),))

def build(choices):
    raise NotImplementedError

def data():
    return Data((1, 2), (3, 4))

def compile(model):
    pass

def score(model, data):
    return {"val_loss": 0.0}
"""


class Mine:
    name = "mine"
    objective = "max q"
    epochs = 1
    batch_size = 4

    def __init__(self, units: int = 3) -> None:
        self.units = units

    def space(self) -> Space:
        return Space("mine", (Choice("units", (1, self.units)),))

    def build(self, choices: Any) -> Any:
        return None

    def data(self) -> Data:
        return Data((1, 2), (3, 4))

    def compile(self, model: Any) -> None:
        return None

    def score(self, model: Any, data: Data) -> dict[str, float]:
        return {"q": 1.0}


def write(folder: Path, text: str = GOOD, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_ours_have_all_parts(name: str) -> None:
    problem = load_problem(name)
    assert isinstance(problem, Problem)
    assert problem.name == name
    assert problem.space().size.count > 1000
    assert refer(name).content == refer(name).content


def test_settings_make_another_problem() -> None:
    assert refer("flights", rows=1000).content != refer("flights").content
    assert load_problem("flights", rows=1000).rows == 1000  # type: ignore[attr-defined]


def test_unknown_names_and_settings() -> None:
    with pytest.raises(UnknownProblem, match="flights"):
        load_problem("flihgts")
    with pytest.raises(UnknownProblem, match="no problem file"):
        load_problem("nowhere/mine.py")
    with pytest.raises(InvalidProblem, match="colour"):
        load_problem("digits", colour=1)


def test_a_file_travels_as_its_source(tmp_path: Path) -> None:
    path = write(tmp_path)
    reference = pickle.loads(pickle.dumps(refer(path)))  # noqa: S301 - as Dask sends it
    path.unlink()
    problem = reference.load()
    assert (problem.name, problem.epochs, problem.space().size.count) == ("mine", 2, 2)
    assert reference.load() is problem
    assert reference.to_json() == {"name": "mine", "kind": "file", "content": reference.content, "settings": {}}


def test_only_what_a_file_does_makes_it_another_problem(tmp_path: Path) -> None:
    first = refer(write(tmp_path)).content
    assert refer(write(tmp_path, GOOD + "\n# a remark\n", "moved.py")).content == first
    assert refer(write(tmp_path, GOOD.replace("(1, 2)),", "(1, 3)),"))).content != first


def test_a_file_may_hold_an_object_named_problem(tmp_path: Path) -> None:
    text = f"from {Mine.__module__} import Mine\nproblem = Mine(7)\n"
    assert load_problem(write(tmp_path, text)).space().choices[0].options == (1, 7)


def test_a_file_may_import_its_neighbour(tmp_path: Path) -> None:
    write(tmp_path, "WIDTH = 2\n", "neighbour_of_mine.py")
    text = GOOD.replace("(1, 2)", "(1, 2, 3, WIDTH + 2)") + "\nfrom neighbour_of_mine import WIDTH\n"
    assert load_problem(write(tmp_path, text)).space().size.count == 4


def test_objects_are_told_apart_by_class_and_settings() -> None:
    assert refer(Mine(3)).to_json() == refer(Mine(3)).to_json()
    assert refer(Mine(3)).content != refer(Mine(4)).content
    problem = Mine()
    assert load_problem(problem) is problem


def test_data_is_made_once_per_process(tmp_path: Path) -> None:
    reference = refer(write(tmp_path, GOOD.replace("return Data(", "made.append(1); return Data(") + "\nmade = []\n"))
    assert data_of(reference) is data_of(reference)
    assert reference.load().made == [1]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("def space", "def elsewhere", "space() (a function; or let build() take `choose`"),
        ("def build(choices)", "def build()", "build() taking 1 argument"),
        ('"min val_loss"', '"val_loss"', "objective"),
        ('"min val_loss"', "None", "objective"),
        ("epochs, batch_size = 2, 8", "epochs, batch_size = 0, 8", "epochs"),
        ("epochs, batch_size = 2, 8", "epochs, batch_size = True, 'x'", "batch_size"),
        ('name = "mine"', "", "name"),
        ('name = "mine"', 'name = "mine"\nfit = lambda model: None', "fit() taking a model"),
        ('name = "mine"', 'name = "../mine"', "problem's name"),
        ("def score(", "class score: pass\ndef other(", "score()"),
        ("return Space(", "return (lambda *parts: None)(", "space()"),
    ],
)
def test_missing_and_wrong_parts_are_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InvalidProblem) as caught:
        load_problem(write(tmp_path, GOOD.replace(old, new)))
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["def (", "1 / 0", "import nothing_of_that_name", "raise SystemError('x')"])
def test_files_that_can_not_be_run(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidProblem, match=r"mine\.py can't be"):
        load_problem(write(tmp_path, text))


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidProblem, match="can't be read"):
        load_problem(tmp_path / "mine.py")
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(InvalidProblem, match="can't be read"):
        load_problem(tmp_path / "folder.py")
    (tmp_path / "mine.py").write_text("# -*- coding: nothing -*-\n")
    with pytest.raises(InvalidProblem, match="can't be read"):
        load_problem(tmp_path / "mine.py")


def test_encodings_are_read_as_python_does(tmp_path: Path) -> None:
    source = GOOD + "\nwords = 'äöü'\n"
    plain = refer(write(tmp_path, source))
    (tmp_path / "mine.py").write_text(source, encoding="utf-8-sig")
    assert refer(tmp_path / "mine.py") == plain
    (tmp_path / "mine.py").write_text(f"# -*- coding: latin-1 -*-\n{source}", encoding="latin-1")
    latin = refer(tmp_path / "mine.py")
    assert latin.content == plain.content
    assert latin.load().words == "äöü"  # type: ignore[attr-defined]


def test_everything_missing_is_said_at_once() -> None:
    with pytest.raises(InvalidProblem) as caught:
        load_problem(object())  # type: ignore[arg-type]
    assert len(caught.value.parts) == 8


def test_read_by_several_threads(tmp_path: Path) -> None:
    """Searches that begin in threads of one process; Dask has callbacks of the garbage collector, as here."""
    path = tmp_path / "mine.py"
    path.write_text(GOOD + "\ndef more(x):\n    if x:\n        return [x + y * (z - 1) for y in x for z in y]\n" * 100)

    def deep(depth: int) -> str:
        return deep(depth - 1) if depth else refer(path).content

    def switch(*_: Any) -> None:
        time.sleep(0)

    threshold = gc.get_threshold()
    gc.callbacks.append(switch)
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(3) as threads:
            assert len({*threads.map(deep, (0, 50, 100) * 20)}) == 1
    finally:
        gc.callbacks.remove(switch)
        gc.set_threshold(*threshold)
