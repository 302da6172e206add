"""What a problem's source consists of: comments and layout don't count, each part is told from the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.errors import RunMismatch
from daskevo.runs.mismatch import check_identity
from daskevo.search import Random
from daskevo.types import Objective
from daskevo_workflows.evaluation.transfer import Transfer
from daskevo_workflows.execution.run_identity import identity_of
from daskevo_workflows.problems import refer
from daskevo_workflows.problems.source_parts import MOST, REST, source_parts

TINY = (Path(__file__).parent / "tiny.py").read_text()


def parts(folder: Path, text: str) -> dict[str, str]:
    (folder / "problem.py").write_text(text)
    return source_parts(refer(folder / "problem.py"))


def changed(folder: Path, *texts: str) -> set[str]:
    one, other = (parts(folder, text) for text in texts)
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def test_each_change_is_found_where_it_is(tmp_path: Path) -> None:
    assert changed(tmp_path, TINY, TINY.replace('"softmax"', '"softmax" ,  # as ever\n')) == set()
    assert changed(tmp_path, TINY, TINY.replace('"softmax"', '"relu"')) == {"build"}
    assert changed(tmp_path, TINY, TINY.replace("no message", "other")) == {"Unreadable.__str__"}
    assert changed(tmp_path, TINY, TINY.replace("class Unheard(BaseException)", "class Unheard(Exception)")) == {
        "Unheard"
    }
    assert changed(tmp_path, TINY, TINY.replace("import time\n", "import time\nimport math\n")) == {REST}
    assert changed(tmp_path, TINY, TINY.replace("epochs, batch_size = 1, 16", "epochs, batch_size = 2, 16")) == {
        "epochs",
        "batch_size",
    }
    assert changed(tmp_path, TINY, TINY.replace('DATA = ""', 'DATA = "x"')) == {"DATA"}
    many = "".join(f"x{number} = 1\n" for number in range(2 * MOST))
    assert len(parts(tmp_path, TINY + many)) == MOST


def test_a_mismatch_names_them(tmp_path: Path) -> None:
    def identity(text: str) -> Any:
        (tmp_path / "problem.py").write_text(text)
        policy = {"seed": 0, "transfer": Transfer(), "control_share": 0.0, "epochs": None}
        goal = Objective.parse("max val_accuracy")
        return identity_of(refer(tmp_path / "problem.py"), goal, Random(), **policy)  # type: ignore[arg-type]

    changed = TINY.replace('"softmax"', '"relu"').replace('DATA = ""', 'DATA = "x"')
    with pytest.raises(RunMismatch, match=r"has changed since the run was begun: DATA, build\s") as caught:
        check_identity(tmp_path, identity(TINY), identity(changed))
    assert caught.value.parts == ["problem.content"]


class Mine:
    """A problem typed as an object."""

    name, objective, epochs, batch_size = "mine", "max q", 1, 8

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def build(self, choose: Any) -> Any: ...
    def data(self) -> Any:
        return np.zeros(self.rows)

    def compile(self, model: Any) -> None: ...
    def score(self, model: Any, data: Any) -> Any: ...


def test_objects_and_ours_have_those_of_their_class() -> None:
    assert {"Mine.data", "Mine.build", "Mine.__init__"} < source_parts(refer(Mine(3))).keys()
    assert "Digits.build" in source_parts(refer("digits"))
