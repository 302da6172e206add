"""What a problem consists of: what its parts call, read or hold makes it another, in a file, an object or a cell."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed.protocol.pickle import dumps, loads

from daskevo.errors import RunMismatch
from daskevo.runs.mismatch import check_identity
from daskevo.space import Builder
from daskevo.types import Objective
from daskevo_workflows import tune
from daskevo_workflows.execution.run_identity import data_key, problem_identity
from daskevo_workflows.problems import ProblemReference, refer, reference
from daskevo_workflows.problems.content import keep_sources, state_of
from daskevo_workflows.problems.delivery import Parcel
from daskevo_workflows.problems.reference import data_of
from daskevo_workflows.problems.user_modules import sources_of
from tests.workflows.test_problem_references import GOOD, write

USES = GOOD.replace("(1, 2)),", "(1, helper_of_mine.units())),").replace(
    'name = "mine"', "import helper_of_mine\nname = 'mine'"
)
HELPER = "WIDTH = 8\ndef units():\n    return WIDTH\n"


@pytest.fixture(autouse=True)
def imported() -> Iterator[None]:
    """Each test is a user's session of its own."""
    yield
    sys.modules.pop("helper_of_mine", None)
    sys.modules.pop("deeper_of_mine", None)


def identity(told: ProblemReference) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps({"problem": problem_identity(told)}))
    return found


def refused(before: ProblemReference, after: ProblemReference) -> str:
    """Return the words with which a run of the one isn't gone on with by the other."""
    with pytest.raises(RunMismatch) as caught:
        check_identity(Path("run"), identity(before), identity(after))
    return str(caught.value)


def options(told: ProblemReference) -> tuple[Any, ...]:
    return tuple(told.load().space().choices[0].options)  # type: ignore[attr-defined]


def test_a_module_beside_it_that_changed_makes_another_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a second, and as long as it was: Python takes its bytecode for that of the file."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    os.utime(write(tmp_path, HELPER, "helper_of_mine.py"), (1e9, 1e9))
    before = refer(write(tmp_path, USES))
    assert options(before) == (1, 8)
    check_identity(Path("run"), identity(before), identity(refer(tmp_path / "mine.py")))
    os.utime(write(tmp_path, HELPER.replace("8", "2"), "helper_of_mine.py"), (1e9, 1e9))
    after = refer(tmp_path / "mine.py")
    assert options(after) == (1, 2), "what the file says now, in a process that has imported it before"
    assert before.content == after.content, "nothing of the file itself"
    assert before.key != after.key
    assert "helper_of_mine.WIDTH" in refused(before, after)


def test_a_module_beside_it_reads_the_files_that_come_with_it(tmp_path: Path) -> None:
    (tmp_path / "helper_of_mine").mkdir()
    (tmp_path / "helper_of_mine" / "units.txt").write_text("1 8")
    read = "tuple(map(int, pkgutil.get_data(__name__, 'units.txt').split()))"
    text = f"import pkgutil\ndef units():\n    return {read}\n"
    write(tmp_path / "helper_of_mine", text, "__init__.py")
    told = refer(write(tmp_path, USES))
    assert importlib.import_module("helper_of_mine").units() == (1, 8)
    reference._loaded.clear()
    assert told.load() is not None
    assert importlib.import_module("helper_of_mine").units() == (1, 8)


def test_a_trainer_gets_the_modules_with_it(tmp_path: Path) -> None:
    """A process that has another one in memory, and on its disk."""
    write(tmp_path, HELPER.replace("8", "16"), "helper_of_mine.py")
    told = pickle.loads(pickle.dumps(refer(write(tmp_path, USES))))  # noqa: S301 - as Dask sends it
    write(tmp_path, HELPER.replace("8", "4"), "helper_of_mine.py")
    assert options(refer(tmp_path / "mine.py")) == (1, 4)
    reference._loaded.clear()
    assert options(told) == (1, 16)
    assert sys.modules["helper_of_mine"].WIDTH == 16


@pytest.mark.parametrize("version", ["", "problem_version = '1'\n"])
def test_a_trainer_gets_the_modules_that_are_used_while_it_is_imported(version: str, tmp_path: Path) -> None:
    """On a host that has none of the files."""
    taken = USES.replace("import helper_of_mine", "from helper_of_mine import NUMBER").replace(
        "helper_of_mine.units()", "NUMBER"
    )
    files = [
        write(tmp_path, version + taken),
        write(tmp_path, "from deeper_of_mine import WIDTH as NUMBER\n", "helper_of_mine.py"),
        write(tmp_path, HELPER, "deeper_of_mine.py"),
    ]
    told = refer(files[0])
    assert set(told.made.modules) == {"helper_of_mine", "deeper_of_mine"}
    for file in files:
        file.unlink()
        sys.modules.pop(file.stem, None)
    reference._loaded.clear()
    assert options(told) == (1, 8)


def test_a_folder_that_was_moved_holds_the_same_problem(tmp_path: Path) -> None:
    text = USES.replace("def space():", "from pathlib import Path\nHERE = Path(__file__).parent\ndef space():")
    text = text.replace("return Data((1, 2)", "return Data((HERE / 'rows.csv', Path(__file__).parent, __name__)")
    found = []
    for place, remark in (("one", ""), ("other", "\n# moved")):
        folder = tmp_path / place
        folder.mkdir()
        write(folder, HELPER, "helper_of_mine.py")
        found.append(refer(write(folder, text + remark)))
    assert "HERE" in found[0].made.parts
    check_identity(Path("run"), *map(identity, found))
    assert found[0].key == found[1].key


def cell(text: str) -> Any:
    """What a cell of a notebook makes, where nothing finds its source."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(text, scope)
    return scope["problem"]


CELL = f"""
{GOOD}
import types
LABELS = [1, 2, 3]
def rows():
    return (1, 2)
class Mine:
    name, objective, epochs, batch_size = "mine", "min val_loss", 2, 8
    space, build = staticmethod(space), staticmethod(build)
    def data(self):
        return Data(rows(), (3, len(LABELS)))
    def compile(self, model): ...
    def score(self, model, data): return {{"val_loss": 0.0}}
problem = Mine()
"""


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("return (1, 2)", "return (7, 2)", "rows"),
        ("[1, 2, 3]", "[1, 2, 4]", "LABELS"),
        ("Data(rows()", "Data((5, 6)", "Mine.data"),
        ("problem = Mine()", "problem = Mine(); problem.x = __import__('numpy').arange(3)", "problem"),
    ],
)
def test_a_cell_that_was_edited_is_another_problem(old: str, new: str, name: str) -> None:
    before, same, after = (refer(cell(text)) for text in (CELL, CELL, CELL.replace(old, new)))
    check_identity(Path("run"), identity(before), identity(same))
    assert before.key == same.key != after.key
    if old != "problem = Mine()":
        assert before.content == after.content, "no source tells them apart"
        assert name in refused(before, after)
    assert data_of(after) is not data_of(before)


def test_arrays_that_an_object_holds_count() -> None:
    found = []
    for labels in ([0, 1, 1], [1, 0, 1], [0, 1, 1]):
        problem = cell(CELL)
        problem.labels = np.array(labels)
        found.append(refer(problem))
    assert found[0].content == found[1].content, "by its type alone"
    assert found[0].key == found[2].key != found[1].key
    assert "problem.labels" in refused(found[0], found[1])


def test_what_cant_be_looked_into_is_nobodys_equal_until_a_version_is_stated(tmp_path: Path) -> None:
    with (tmp_path / "rows").open("w") as file:
        problem = cell(CELL)
        problem.file = file
        before, after = refer(problem), refer(problem)
        assert before.key != after.key
        words = refused(before, after)
        assert "problem.file (of _io.TextIOWrapper)" in words
        assert "another folder for a new run: if its problem says problem_version" in words
        problem.problem_version = "1"
        before = refer(problem)
        check_identity(Path("run"), identity(before), identity(refer(problem)))
        problem.problem_version = "2"
        refused(before, refer(problem))


def test_runs_of_earlier_versions_and_of_another_python_go_by_their_source(tmp_path: Path) -> None:
    write(tmp_path, HELPER, "helper_of_mine.py")
    told = identity(refer(write(tmp_path, USES)))
    old = {"problem": {name: part for name, part in told["problem"].items() if name != "made"}}
    check_identity(Path("run"), old, told)
    made = told["problem"]["made"]
    check_identity(Path("run"), {"problem": {**old["problem"], "made": {**made, "python": "3.9", "digest": "x"}}}, told)


def test_what_is_no_code_is_compared_under_another_python_too(tmp_path: Path) -> None:
    told = refer(write(tmp_path, GOOD))
    of_another = {"python": "3.9", "digest": "x"}

    def asked(data: Any) -> dict[str, Any]:
        rows = data_key(told, data, "as it was")
        found: dict[str, Any] = json.loads(json.dumps({"problem": problem_identity(told, rows)}))
        return found

    def begun(data: Any, **more: Any) -> dict[str, Any]:
        problem = asked(data)["problem"]
        return {"problem": {**problem, "made": {**problem["made"], **of_another, **more}}}

    zeros, ones = np.zeros(3), np.ones(3)
    check_identity(Path("run"), begun(zeros), asked(zeros))
    with pytest.raises(RunMismatch, match=r"data: "):
        check_identity(Path("run"), begun(zeros), asked(ones))
    with (tmp_path / "rows").open("w") as file, pytest.raises(RunMismatch, match="TextIOWrapper"):
        check_identity(Path("run"), begun(file), asked(file))

    class Rows:
        def __init__(self, held: Any) -> None:
            self.held = held

    check_identity(Path("run"), begun(Rows(zeros), data_python="3.9"), asked(Rows(ones)))


def test_what_each_evaluation_and_the_record_take_of_a_problem_is_small() -> None:
    problem = cell(CELL)
    problem.tables = [np.full(2, number) for number in range(5000)]
    told = refer(problem)
    sent = told.to_trainers()
    assert sent.key == told.key
    assert len(pickle.dumps(sent)) < 10_000
    assert len(json.dumps(told.made.to_json())) < 100_000


def test_its_sources_are_kept(tmp_path: Path) -> None:
    write(tmp_path, HELPER, "helper_of_mine.py")
    told = refer(write(tmp_path, USES))
    keep_sources(tmp_path / "run", told.made)
    assert {path.name for path in (tmp_path / "run" / "problem").iterdir()} == {"mine.py", "helper_of_mine.py"}
    assert (tmp_path / "run" / "problem" / "mine.py").read_text() == (tmp_path / "mine.py").read_text()
    write(tmp_path, HELPER.replace("8", "9"), "helper_of_mine.py")
    keep_sources(tmp_path / "run", refer(tmp_path / "mine.py").made)
    assert (tmp_path / "run" / "problem" / "helper_of_mine.py").read_text() == HELPER, "those that it began with"


def test_sources_that_a_killed_process_had_begun_to_keep_are_kept_whole(tmp_path: Path) -> None:
    (tmp_path / "run" / "problem.making").mkdir(parents=True)
    (tmp_path / "run" / "problem.making" / "other.py").touch()
    write(tmp_path, HELPER, "helper_of_mine.py")
    keep_sources(tmp_path / "run", refer(write(tmp_path, USES)).made)
    assert {path.name for path in (tmp_path / "run").rglob("*")} == {"problem", "mine.py", "helper_of_mine.py"}


def test_a_table_on_disk_is_read_again_for_each_run(tmp_path: Path) -> None:
    table = tmp_path / "table.txt"
    text = GOOD.replace(
        "return Data((1, 2)", f"return Data((__import__('pathlib').Path({str(table)!r}).read_text(), 2)"
    )
    table.write_text("old")
    path = write(tmp_path, text)
    before = refer(path)
    assert data_of(before).train[0] == "old"
    table.write_text("new")
    assert data_of(before).train[0] == "old", "once for each reference"
    assert data_of(refer(path)).train[0] == "new"


def test_validation_data_that_changed_make_another_study(tmp_path: Path) -> None:
    """What it trains with is the same, so the old score would be another's."""
    text = (Path(__file__).parent / "tuned.py").read_text()
    folder, told = tmp_path / "valid", "y[64:] if not Path('valid').exists() else 1 - y[64:]"
    path = write(tmp_path, text.replace("y[64:]", told.replace("valid", str(folder))))
    found = []
    for _ in range(3):
        one = refer(path)
        _, rows = tune.data_to_tune(one, one.load())
        space = tune.space_to_tune(one.load())
        identity = tune.identity_of(one, space, Objective.parse("max val_accuracy"), 0, rows)
        found.append((tune.origin_of(one, 0, rows), rows, json.loads(json.dumps(identity))))
        if len(found) == 2:
            folder.touch()
    assert found[0] == found[1]
    assert found[1][1].trained == found[2][1].trained
    assert found[1][0] != found[2][0], "no snapshot of the one is a beginning of the other"
    check_identity(Path("run"), found[0][2], found[1][2])
    with pytest.raises(RunMismatch, match=r"data: .* there, .* here"):
        check_identity(Path("run"), found[1][2], found[2][2])


def test_an_object_brings_the_modules_of_its_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trainer that has an older one in memory, from a script that was run before."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    text = HELPER + "class Mine:\n    def build(self):\n        return WIDTH\n"
    write(tmp_path, text, "helper_of_mine.py")
    parcel = Parcel(importlib.import_module("helper_of_mine").Mine(), sources_of(["helper_of_mine"]))
    sent = dumps(parcel)
    del sys.modules["helper_of_mine"]
    write(tmp_path, text.replace("8", "2"), "helper_of_mine.py")
    importlib.invalidate_caches()
    assert importlib.import_module("helper_of_mine").Mine().build() == 2
    assert loads(sent).instance.build() == 8


def test_what_a_space_remembers_of_questions_is_no_part_of_a_problem_that_holds_it() -> None:
    class Holds:
        name = "holds"

        def __init__(self) -> None:
            self.kept = Builder("kept", lambda choose: [choose("units", (1, 2, 3)), choose("depth", (1, 2))])

        def space(self) -> Builder:
            return self.kept

    problem = Holds()
    before = state_of(problem)
    for candidate in problem.kept.enumerate():
        problem.kept.build(candidate)
    assert str(problem.kept.size) == "6"
    assert state_of(problem) == before
